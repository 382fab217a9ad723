"""What the spec of a criterion may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tokenmill.judges.rubric.criteria import SCHEMAS, CallSpec, StateSpec, criterion_of, criterion_schema, parse
from tokenmill.schemas.agentic import CRITERIA, Criterion

from tests.judges.rubric.build import criterion, is_


def test_what_is_left_out_has_a_default():
    spec = parse(criterion("c", "call", {"tool": "get_order"}))
    assert spec == CallSpec("get_order", (), 1, None, "success")
    state = parse(criterion("s", "state", {"records": [{"kind": "Order"}]}))
    assert isinstance(state, StateSpec) and state.records[0].at_least == 1


@pytest.mark.parametrize(
    ("kind", "spec", "line"),
    [
        ("call", {}, "'tool' is a required property"),
        ("call", {"tool": ""}, "names no tool"),
        ("call", {"tool": "a", "at_least": 3, "at_most": 1}, "at_most 1 is below"),
        ("call", {"tool": "a", "colour": 1}, "colour"),
        ("call", {"tool": "a", "arguments": [is_("order", "any")]}, "arguments/0/path"),
        ("call", {"tool": "a", "arguments": [is_("/o", "unchanged")]}, "for the state only"),
        ("state", {"conditions": [is_("/o", "from_call", "c")]}, "for arguments only"),
        ("state", {}, "asks nothing"),
        ("order", {"form": "sequence", "calls": ["a"]}, "two calls"),
        ("order", {"form": "sequence", "calls": ["a", "a"]}, "named twice"),
        ("answer", {}, "asks nothing"),
        ("answer", {"values": [["a", ""]]}, "empty"),
        ("colour", {}, "its kind is one of"),
    ],
)
def test_a_broken_spec_is_named_in_one_line(kind, spec, line):
    with pytest.raises(ValueError, match=line) as error:
        parse(criterion("mine", kind, spec))
    assert "'mine'" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[1]", "{", "null"])
def test_a_spec_that_is_no_object_is_refused(text):
    with pytest.raises(ValueError, match="criterion 'c'"):
        parse(Criterion(id="c", kind="call", description="", spec=text))


def test_the_schema_for_a_model_takes_what_parse_takes():
    check = Draft202012Validator(criterion_schema(["get_order"]))
    written = {
        "id": "look", "kind": "call", "description": " It looks \n up. ", "mandatory": True, "weight": 1, "checkpoint": 0,
        "spec": {
            "tool": "get_order", "arguments": [is_("/id", "equals", 5)], "at_least": 1, "at_most": None, "result": "success",
        },
    }  # fmt: skip
    assert check.is_valid(written)
    assert criterion_of(written).description == "It looks up."
    assert not check.is_valid({**written, "spec": {**written["spec"], "tool": "other"}})
    assert not check.is_valid({**written, "kind": "state"})


def test_schemas_are_in_the_subset_that_structured_decoding_takes():
    def objects(schema):
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                yield schema
            for part in schema.values():
                yield from objects(part)
        elif isinstance(schema, list):
            for part in schema:
                yield from objects(part)

    assert set(SCHEMAS) == set(CRITERIA)
    for part in objects(criterion_schema(["a"])):
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])


@given(st.sampled_from(CRITERIA), st.text(max_size=60))
def test_any_text_either_parses_or_is_refused(kind, spec):
    try:
        parse(Criterion(id="c", kind=kind, description="", spec=spec))
    except ValueError:
        return

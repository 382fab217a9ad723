import contextlib
import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.bench.agentic.shop import ENTITIES, STATE, state
from tokenmill.tools_repo.world.outcomes import partly
from tokenmill.tools_repo.world.patch import PatchInvalid, apply, changed_records, diff

LEAF = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, width=16) | st.text("a~/é0", max_size=3)
)
VALUE = st.recursive(
    LEAF, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text("ab~/1", max_size=2), v, max_size=3), max_leaves=6
)
NAMES = st.text("ab~/ 1", min_size=1, max_size=3)
STATES = st.dictionaries(
    NAMES, st.dictionaries(NAMES, st.dictionaries(NAMES, VALUE, max_size=3), max_size=4), max_size=3
)


def same(a, b):
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


@settings(max_examples=40)
@given(STATES, STATES)
def test_a_diff_applied_to_the_one_state_is_the_other(before, after):
    kept = copy.deepcopy(before)
    patch = diff(before, after)
    patched = apply(before, patch)
    # 1 and 1.0 are one JSON number, true is another value.
    assert patched == after and diff(patched, after) == []
    assert same(before, kept)
    assert bool(patch) == bool(diff(before, after))


@settings(max_examples=40)
@given(STATES)
def test_no_change_is_an_empty_patch(before):
    again = copy.deepcopy(before)
    assert diff(before, again) == [] and changed_records(before, again) == []


@given(
    STATES, st.lists(st.dictionaries(st.sampled_from(["op", "path", "from", "value"]), VALUE, max_size=4), max_size=4)
)
def test_rubbish_is_refused_and_changes_nothing(before, patch):
    kept = copy.deepcopy(before)
    with contextlib.suppress(PatchInvalid):
        apply(before, patch)
    assert same(before, kept)


@pytest.mark.parametrize(
    "patch, why",
    [
        ("add", "is a list"),
        ([1], "is a list"),
        ([{"op": "add", "path": "/Order/ORD-12"}], "needs a value"),
        ([{"op": "erase", "path": "/Order"}], "op must be"),
        ([{"op": "remove", "path": "Order"}], "JSON Pointer"),
        ([{"op": "remove", "path": None}], "JSON Pointer"),
        ([{"op": "replace", "path": "", "value": {}}], "whole state"),
        ([{"op": "replace", "path": "/Order/ORD-99/status", "value": "open"}], "does not apply"),
        ([{"op": "replace", "path": "/Order/ORD-10/status", "value": "lost"}], "is not one of"),
        ([{"op": "remove", "path": "/Customer/CUS-1"}], "there is no Customer"),
        ([{"op": "add", "path": "/Ghost", "value": {}}], "no such kind"),
        ([{"op": "add", "path": "/Order/x/lines/" + "0/" * 20, "value": 1}], "steps"),
        ([{"op": "test", "path": "/Order/ORD-10/total", "value": 1}], "does not apply"),
        ([{"op": "test", "path": "/Order/ORD-10/status", "value": "open"}] * 201, "more than 200"),
        ([{"op": "add", "path": "/Order/ORD-10/note", "value": "x" * 70_000}], "larger than"),
        ([{"op": "add", "path": "/Order/a", "value": json.loads("[" * 40 + "]" * 40)}], "nests more"),
        ([{"op": "copy", "from": "/Order", "path": f"/Order/x{i}"} for i in range(60)], "too large"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(patch, why):
    before = state()
    with pytest.raises(PatchInvalid, match=why):
        apply(before, patch, ENTITIES)
    assert before == STATE


def test_a_later_failure_undoes_what_came_before():
    before = state()
    good = {"op": "replace", "path": "/Order/ORD-10/status", "value": "cancelled"}
    with pytest.raises(PatchInvalid, match="operation 1"):
        apply(before, [good, {"op": "remove", "path": "/Order/ORD-99"}], ENTITIES)
    assert before == STATE
    assert apply(before, [good], ENTITIES)["Order"]["ORD-10"]["status"] == "cancelled"
    assert before == STATE


def test_a_kind_that_the_state_lacks_counts_as_empty():
    customer = {"customer_id": "CUS-3", "name": "Cy", "tags": []}
    after = apply({}, [{"op": "add", "path": "/Customer/CUS-3", "value": customer}], ENTITIES)
    assert after == {"Customer": {"CUS-3": customer}}
    assert apply({}, diff({}, after), ENTITIES) == after


@given(st.integers(0, 3), st.booleans())
def test_a_partial_change_is_a_valid_state_between_the_two(new, cancel):
    after = state()
    for number in range(new):
        after["Customer"][f"CUS-9{number}"] = {"customer_id": f"CUS-9{number}", "name": "N", "tags": []}
    if cancel:
        after["Order"]["ORD-10"]["status"] = "cancelled"
    part = partly(STATE, after, ENTITIES)
    changes = len(changed_records(STATE, after))
    assert (part is None) == (changes < 2)
    if part:
        middle, said = part
        told = json.loads(said)["error"]
        assert ENTITIES.check(middle) == [] and 0 < len(changed_records(STATE, middle)) < changes
        assert len(told["applied"]) == len(changed_records(STATE, middle))
        assert len(told["not_applied"]) == len(changed_records(middle, after))

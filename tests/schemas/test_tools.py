import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.schemas.columns import arrow_schema, to_table
from tokenmill.schemas.tools import (
    RefusedTool,
    Semantics,
    ToolSpec,
    canonical,
    dump,
    from_mcp,
    from_openai,
    refuse,
    to_openai,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LISTED = {
    "name": "get_weather",
    "title": "Weather",
    "description": "Get the weather.",
    "inputSchema": SCHEMA,
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def test_a_tool_of_an_mcp_server():
    spec = from_mcp(
        LISTED, server="weather", package="pypi:mcp-weather", version="1.0", license="MIT", category="travel"
    )
    assert (spec.id, spec.name, spec.original_name) == ("mcp/weather/get_weather", "get_weather", "get_weather")
    assert (spec.toolset, spec.origin, spec.package) == ("weather", "mcp", "pypi:mcp-weather")
    assert spec.parameters == SCHEMA and spec.returns == {"type": "object"}
    assert spec.annotations == '{"readOnlyHint":true}'


def test_openai_tools_round_trip():
    tool = {"type": "function", "function": {"name": "f", "description": "Do it.", "parameters": SCHEMA}}
    spec = from_openai(tool, origin="synthetic", domain=["travel", "trains"])
    assert to_openai(spec) == tool
    assert (spec.id, spec.toolset) == ("synthetic/travel/trains/f", "travel/trains")
    assert from_openai(tool["function"], origin="synthetic", domain=["travel", "trains"]) == spec
    assert from_openai({"name": "f"}, origin="openapi").parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "tool, said",
    [
        ({"inputSchema": {}}, "no name"),
        ({"name": "a"}, "input schema"),
        ({"name": "a", "inputSchema": []}, "input schema"),
        ({"name": "a", "inputSchema": {}, "description": 3}, "text"),
        ({"name": "a", "inputSchema": {}, "annotations": [1]}, "annotations"),
        ({"name": "a", "inputSchema": {"maximum": 10**30}}, "not JSON"),
        (None, "object"),
    ],
)
def test_what_is_no_tool_is_one_clear_error(tool, said):
    with pytest.raises(ValueError, match=said):
        from_mcp(tool, server="s")


def test_the_origin_is_checked():
    with pytest.raises(ValueError, match="origin"):
        ToolSpec(id="a", name="a", description="", input_schema="{}", origin="elsewhere")


def test_rows_go_to_parquet_and_to_workers():
    spec = from_mcp(LISTED, server="weather")
    spec = pickle.loads(pickle.dumps(spec))
    (row,) = to_table([spec], ToolSpec).to_pylist()
    row["semantics"] = Semantics(**row["semantics"])
    assert ToolSpec(**row) == spec
    refused = refuse(spec, "near_duplicate", "repeats another", duplicate_of="mcp/a/b", score=0.9)
    (row,) = to_table([refused], RefusedTool).to_pylist()
    assert (row["id"], row["reason"], row["duplicate_of"]) == (spec.id, "near_duplicate", "mcp/a/b")
    assert all(field.metadata[b"doc"] for field in arrow_schema(RefusedTool))


TEXT = st.text(st.characters())
JSON = st.recursive(
    TEXT | st.integers(-(2**53), 2**53) | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


@given(JSON)
def test_any_json_is_stored_as_utf8(value):
    dump(value).encode()


def test_lone_surrogates_do_not_survive():
    spec = from_mcp({"name": "a\ud800", "description": "x\udc00y 😀", "inputSchema": {"title": "\ud83d"}}, server="s")
    assert (spec.name, spec.description, spec.parameters) == ("a\ufffd", "x\ufffdy 😀", {"title": "\ufffd"})


def test_canonical_json_ignores_order_and_space():
    assert canonical('{"b": 1, "a": [1, 2]}') == canonical('{"a":[1,2],"b":1}') == '{"a":[1,2],"b":1}'

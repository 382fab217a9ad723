"""Rows of one stage, read back by the next."""

from __future__ import annotations

import dataclasses

import orjson
import pyarrow.parquet as pq
import pytest
from apache_beam.coders import registry
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.agentic import ChatMessage, ToolCall, ToolCallFunction
from tokenmill.schemas.columns import from_values, to_table
from tokenmill.schemas.tools import Semantics, ToolSpec

TOOL = ToolSpec(
    id="synthetic/a/look",
    name="look",
    description="Look.",
    input_schema='{"type":"object"}',
    origin="synthetic",
    domain=["a"],
    semantics=Semantics(reads=["Thing"], errors=["no such thing"]),
)


def test_nested_rows_survive_parquet_and_json(tmp_path):
    pq.write_table(to_table([TOOL], ToolSpec), tmp_path / "tools.parquet")
    (stored,) = pq.read_table(tmp_path / "tools.parquet").to_pylist()
    assert RecordParser(ToolSpec)(stored, "tools.parquet", 0) == TOOL
    assert from_values(ToolSpec, orjson.loads(orjson.dumps(TOOL))) == TOOL


def test_optional_parts_are_none_or_rows():
    call = ToolCall(id="functions.look:0", function=ToolCallFunction(name="look", arguments="{}"))
    for message in (ChatMessage(role="user", content="Hi"), ChatMessage(role="assistant", tool_calls=[call])):
        assert from_values(ChatMessage, dataclasses.asdict(message)) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "no 'name'"),
        ({"name": 3}, "'name' is no str"),
        ({"domain": "a"}, "'domain' is no list"),
        ({"semantics": ["x"]}, "'semantics' is no record"),
        ({"origin": "heaven"}, "origin is one of"),
    ],
)
def test_what_is_no_such_row_says_why(change, message):
    with pytest.raises(RowUnreadable, match=message) as caught:
        RecordParser(ToolSpec)({**dataclasses.asdict(TOOL), **change}, "tools.parquet", 0)
    assert caught.value.error == "invalid_row"


def test_columns_without_default_are_required():
    assert RecordParser(ToolSpec).required == ("id", "name", "description", "input_schema", "origin")


def test_rows_survive_a_shuffle():
    coder = registry.get_coder(RecordParser(ToolSpec).row_type)
    assert coder.decode(coder.encode(TOOL)) == TOOL

"""From what servers list to rows: typed, named, validated, every tool in exactly one place."""

import json

import pytest
from tokenmill.inference.roles import Models
from tokenmill.pipelines.tools.curation import Curation
from tokenmill.pipelines.tools.harvest.dag import HarvestTools, Offer, build, specs
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.schemas.documents import FailedRow
from tokenmill.schemas.tools import RefusedTool, ToolSpec
from tokenmill.tools_repo.harvest.harvester import Harvested, Harvester, HarvestFailed
from tokenmill.tools_repo.harvest.server_lists import Source
from tokenmill.tools_repo.harvest.servers import Server

from tests.pipelines.direct import collect


def tool(name="find", schema=None, **more):
    return {"name": name, "description": "Finds things.", "inputSchema": schema or {"type": "object"}, **more}


def offer(*tools, name="acme", origin="mcp", **more):
    server = Server(name=name, pypi="acme-mcp", version="1.0", category="search")
    return Offer(Source(name, "list.jsonl", 4, server, origin=origin), Harvested(tools, "1.0", "MIT", **more))


def test_a_tool_carries_where_it_comes_from():
    (row,) = specs(offer(tool(outputSchema={"type": "object"}, annotations={"readOnlyHint": True})))
    assert isinstance(row, ToolSpec)
    assert (row.id, row.origin, row.server, row.category) == ("mcp/acme/find", "mcp", "acme", "search")
    assert (row.package, row.version, row.license) == ("pypi:acme-mcp", "1.0", "MIT")
    assert json.loads(row.annotations) == {"readOnlyHint": True} and row.output_schema == '{"type":"object"}'


def test_names_that_models_cannot_call_are_replaced_and_kept_beside():
    rows = list(specs(offer(tool("files/read"), tool("files_read"), tool("x" * 80))))
    names = [row.name for row in rows]
    assert all(isinstance(row, ToolSpec) for row in rows) and len(set(names)) == 3 and max(map(len, names)) <= 64
    assert [row.original_name for row in rows] == ["files/read", "files_read", "x" * 80]


@pytest.mark.parametrize(
    ("wrong", "kind", "reason"),
    [
        (tool(schema={"type": "object", "properties": {"a": {"type": "strnig"}}}), RefusedTool, "schema_invalid"),
        (tool(schema={"type": "object", "properties": {"a": {"$ref": "http://evil/x"}}}), RefusedTool, "reference"),
        (tool(description=""), RefusedTool, "description_missing"),
        (tool(name=""), FailedRow, "invalid_tool"),
        (tool(schema=["no"]), FailedRow, "invalid_tool"),
        (tool("first"), RefusedTool, "duplicate_name"),
    ],
)
def test_a_tool_that_cannot_be_offered_is_refused_or_failed_with_the_reason(wrong, kind, reason):
    rows = list(specs(offer(tool("first"), wrong)))
    (bad,) = [row for row in rows if type(row) is not ToolSpec]
    assert type(bad) is kind and len(rows) == 2
    assert (bad.reason if kind is RefusedTool else bad.error).startswith(reason)


class Scripted(Harvester):
    """A harvester whose servers answer at once, or not."""

    async def harvest(self, server):
        if server.name.startswith("bad"):
            raise HarvestFailed("start", "needs_credentials", "the server ended with code 1", "KEY is missing")
        return Harvested((tool(f"{server.name}_a"), tool(f"{server.name}_b")), "1.0")


def test_every_source_and_every_tool_ends_in_one_place(tmp_path):
    import pyarrow.parquet as pq

    sources = [
        *(Source(f"good{i}", "l.jsonl", i, Server(f"good{i}", url="http://x")) for i in range(20)),
        *(Source(f"bad{i}", "l.jsonl", 20 + i, Server(f"bad{i}", url="http://x")) for i in range(5)),
        Source("broken", "l.jsonl", 25, error="invalid_server", message="no"),
        Source("file", "f.json", listed=Harvested((tool(), tool(), {"name": "x"}))),
    ]
    harvester = Scripted(sandbox=None, store=tmp_path)  # type: ignore[arg-type]
    for kind in ("data", "rejected", "failed"):
        (tmp_path / kind).mkdir()
    models = Models(roles={}, cache=str(tmp_path / "answers.sqlite"), run="harvest")

    def pipeline(root):
        flow = Flow(root, models, (), None, 0, str(tmp_path), 7)
        build(HarvestTools(harvester, 3), sources, Curation(None, None, {}), 0, flow)
        return {}

    collect(pipeline)
    rows = {
        kind: [r for p in (tmp_path / kind).glob("*.parquet") for r in pq.read_table(p).to_pylist()]
        for kind in ("data", "rejected", "failed")
    }
    assert len(rows["data"]) == 41 and [row["reason"] for row in rows["rejected"]] == ["duplicate_name"]
    assert sorted(row["error"] for row in rows["failed"]) == [
        "invalid_server",
        "invalid_tool",
        *["needs_credentials"] * 5,
    ]
    assert {row["excerpt"] for row in rows["failed"] if row["error"] == "needs_credentials"} == {"KEY is missing"}
    assert [row["id"] for row in rows["data"]] == sorted(row["id"] for row in rows["data"])

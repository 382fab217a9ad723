"""Tools that are called while they are harvested: arguments drawn from schemas, real answers from a server in the sandbox."""

import asyncio
import json
import sys
from pathlib import Path

import jsonschema
import pytest
from tokenmill.tools_repo.harvest.arguments import drawn
from tokenmill.tools_repo.harvest.harvester import Harvester
from tokenmill.tools_repo.harvest.servers import parse_server
from tokenmill.tools_repo.harvest.trying import tried
from tokenmill.tools_repo.sandbox.base import MIB, Limits
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap

from tests.tools_repo.sandboxed import needs_sandbox

SERVER = '''
import json, os, sys
TOOLS = {
    "add": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "minimum": 5}},
            "required": ["a"]},
    "save": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "listing": {"type": "object", "properties": {}},
    "odd": {"type": "object", "properties": {}},
    "leave": {"type": "object", "properties": {}},
    "never": {"type": "object", "properties": {}},
}
def answer(name, given):
    if name == "add":
        if "a" not in given:
            return {"content": [{"type": "text", "text": "a is missing"}], "isError": True}
        return {"content": [{"type": "text", "text": "sum"}], "structuredContent": {"sum": given["a"] + given.get("b", 0)}}
    if name == "save":
        open(given.get("path", "/nowhere") + "/note.txt", "w").write("x")
        return {"content": [{"type": "text", "text": "saved"}, {"type": "image", "data": "AA==", "mimeType": "image/png"}]}
    if name == "listing":
        return {"content": [{"type": "text", "text": " ".join(sorted(os.listdir(os.environ["HOME"])))}]}
    if name == "leave":
        sys.exit(0)
    raise ValueError(name)
for line in sys.stdin:
    message = json.loads(line)
    method, said = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
    if method == "initialize":
        said["result"] = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                          "serverInfo": {"name": "t", "version": "0"}}
    elif method == "tools/list":
        said["result"] = {"tools": [{"name": n, "description": n, "inputSchema": s,
                                     "annotations": {"readOnlyHint": n == "listing"}} for n, s in TOOLS.items()]}
    elif method == "tools/call":
        try:
            said["result"] = answer(message["params"]["name"], message["params"].get("arguments") or {})
        except Exception as error:
            said["error"] = {"code": -32000, "message": repr(error)}
    else:
        continue
    print(json.dumps(said), flush=True)
'''  # fmt: skip


def harvested(tmp_path, **settings):
    script = tmp_path / "seen" / "server.py"  # a folder that others may read
    script.parent.mkdir()
    script.write_text(SERVER)
    mounts = [str(script.parent), sys.prefix, *({sys.base_prefix} - {sys.prefix})]
    server = parse_server({"name": "t", "command": [sys.executable, "-I", str(script)], "mounts": mounts})
    limits = Limits(memory=512 * MIB, output=4 * MIB)
    return asyncio.run(Harvester(Bubblewrap(), tmp_path, 60.0, 60.0, limits, **settings).harvest(server))


@needs_sandbox
def test_tools_are_called_and_their_real_answers_and_errors_kept(tmp_path):
    found = harvested(tmp_path, try_seconds=60.0)
    calls = {name: [(c.arguments, c.result, c.error) for c in found.tried[name]] for name in found.tried}
    assert calls["add"] == [
        ('{"a":1}', '{"sum":1}', ""),
        ('{"a":1,"b":5}', '{"sum":6}', ""),
        ("{}", "a is missing", "tool_error"),
    ]
    assert calls["save"][0] == ('{"path":"/home/user"}', "saved\n[image]", "") and calls["save"][1][2] == "refused"
    assert calls["listing"] == [("{}", "note.txt", "")], "one sandbox for all calls: what one leaves the next one sees"
    assert calls["odd"][0][2] == "refused" and len(found.tools) == 6
    assert "never" not in calls, "a server that ends is not called again, and is harvested all the same"


@needs_sandbox
def test_none_is_called_unless_asked_for(tmp_path):
    assert harvested(tmp_path).tried == {}


def test_what_may_reach_outside_is_called_only_where_it_reads():
    asked = []

    class Session:
        async def call_tool(self, name, arguments):
            asked.append(name)
            raise TimeoutError

    tools = [
        {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "write", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": False}},
        {"name": "unknown", "inputSchema": {"type": "object"}},
    ]
    found = asyncio.run(tried(Session(), tools, "/home/user", contained=False, seconds=5))
    assert asked == ["read"] and found["read"][0].error == "timeout"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"when": {"type": "string", "format": "date"}, "n": {"type": "number", "maximum": 0}}},
        {"properties": {"a": {"enum": ["x", "y"]}, "b": {"const": 3}, "c": {"type": ["null", "boolean"]}}},
        {"properties": {"o": {"$ref": "#/$defs/O"}},
         "$defs": {"O": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}},
        {"properties": {"l": {"type": "array", "items": {"type": "string", "minLength": 30}, "minItems": 2}}},
        {"properties": {"u": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 7}]}, "d": {"default": "q"}}},
        {},
    ],
)  # fmt: skip
def test_drawn_arguments_meet_the_schema_and_are_the_same_every_time(schema):
    whole = {"type": "object", "required": list(schema.get("properties", {})), **schema}
    made = list(drawn(whole, "/home/user"))
    assert made == list(drawn(whole, "/home/user")) and json.dumps(made)
    jsonschema.validate(made[0], whole)


def test_paths_lead_to_a_folder_that_is_there():
    schema = {"properties": {"repo_path": {"type": "string"}, "filename": {"type": "string"}}}
    assert list(drawn(schema, "/w"))[-1] == {"repo_path": "/w", "filename": "/w/example.txt"}
    assert Path("/w/example.txt").parent == Path("/w")

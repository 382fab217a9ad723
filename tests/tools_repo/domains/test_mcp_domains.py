"""A real MCP server as a domain: its tools run in a sandbox over files, and the files at the end decide."""

import asyncio
import json
import sys

import pytest
from tokenmill.judges.rubric.end_state import differences
from tokenmill.judges.rubric.feasible import enact
from tokenmill.tools_repo.domains.folder import DomainFolder, DomainInvalid
from tokenmill.tools_repo.domains.host import HostBroken
from tokenmill.tools_repo.domains.hosts import shared
from tokenmill.tools_repo.domains.imports import agent_of, task_of
from tokenmill.tools_repo.domains.mcp_host import files_of, lay_out, server_of
from tokenmill.tools_repo.domains.world import DomainWorld
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap

from tests.tools_repo.domains.desk import action, scenario
from tests.tools_repo.sandboxed import needs_sandbox

SERVER = """
import json, pathlib, sys
ROOT = pathlib.Path(sys.argv[1])
TEXT = {"type": "string"}
def tool(name, /, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema,
            "annotations": {"readOnlyHint": name == "read"}}
TOOLS = [tool("read", name=TEXT), tool("write", name=TEXT, text=TEXT), tool("remove", name=TEXT), tool("quit")]
def run(name, given):
    if name == "quit":
        sys.exit(1)
    path = ROOT / given["name"]
    if name == "read":
        return path.read_text()
    if name == "remove":
        path.unlink()
    else:
        path.write_text(given["text"])
    return "done"
for line in sys.stdin:
    message = json.loads(line)
    method, said = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
    if method == "initialize":
        said["result"] = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                          "serverInfo": {"name": "notes", "version": "0"}}
    elif method == "tools/list":
        said["result"] = {"tools": TOOLS}
    elif method == "tools/call":
        try:
            text, failed = run(message["params"]["name"], message["params"]["arguments"]), False
        except OSError as error:
            text, failed = error.strerror, True
        said["result"] = {"content": [{"type": "text", "text": text}], "isError": failed}
    else:
        continue
    print(json.dumps(said), flush=True)
"""
WISH = scenario(
    "You want the list to say bread, and the old one gone.",
    action("read", name="list.txt"),
    action("write", name="sub/list.txt", text="bread"),
    action("remove", name="list.txt"),
    id="list",
)


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mcp") / "notes"
    (folder / "files" / "sub").mkdir(parents=True)
    (folder / "files" / "list.txt").write_text("milk")
    (folder / "files" / "sub" / "raw.bin").write_bytes(b"\xff\x00")
    script = folder / "server" / "notes.py"
    script.parent.mkdir()
    script.write_text(SERVER)
    entry = {"command": sys.executable, "args": ["-I", str(script), "/data"]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    (folder / "domain.json").write_text(json.dumps({"server": "mcp.json"}))
    (folder / "tasks.json").write_text(json.dumps([WISH]))
    return DomainFolder.read(folder)


def with_host(folder, ask, tmp_path):
    async def go():
        host = shared(folder, Bubblewrap(), tmp_path)
        return await ask(host, await host.describe())

    return asyncio.run(go())


@needs_sandbox
def test_each_world_has_files_of_its_own_and_calls_change_them(notes, tmp_path):
    async def ask(host, described):
        agent = agent_of(notes, described)
        first, second = (DomainWorld(host, described, agent.tools, {}) for _ in range(2))
        told = [
            await first.call("write", '{"name": "new.txt", "text": "x"}', 0),
            await first.call("read", '{"name": "new.txt"}', 1),
            await first.call("remove", '{"name": "sub/raw.bin"}', 2),
            await second.call("read", '{"name": "new.txt"}', 0),
        ]
        with pytest.raises(HostBroken, match="quit"):
            await first.call("quit", "{}", 3)
        return told, first.state, second.state

    told, mine, theirs = with_host(notes, ask, tmp_path)
    assert json.loads(told[0].patch) == [{"op": "add", "path": "/files/new.txt", "value": {"text": "x"}}]
    assert told[1].content == "x" and told[1].patch == "[]" and told[0].engine == "domain"
    assert told[3].error == "tool_error" and "No such file" in told[3].content
    assert set(mine["files"]) == {"list.txt", "new.txt"} and set(theirs["files"]) == {"list.txt", "sub/raw.bin"}
    assert theirs["files"]["sub/raw.bin"] == {"base64": "/wA="}


@needs_sandbox
def test_a_task_is_played_on_the_server_and_the_files_at_the_end_decide(notes, tmp_path):
    async def ask(host, described):
        return await task_of(agent_of(notes, described), WISH, 0, host, described)

    task = with_host(notes, ask, tmp_path)
    state = json.loads(task.state)

    def ending(calls):
        return enact(task.rubric, tools=task.agent.tools, state=state, solution=calls, reply="Done.")

    assert task.solution[0].result == "milk" and differences(task, ending(task.solution)) == []
    left = [d.path for d in differences(task, ending(task.solution[:2]))]
    assert left == [], "what is not done is the rubric's matter"
    asked = [c for line in task.rubric for c in json.loads(line.spec)["conditions"]]
    assert {"path": "/files/list.txt", "is": "absent", "value": None} in asked
    assert {"path": "/files/sub~1list.txt/text", "is": "equals", "value": "bread"} in asked


def test_files_are_laid_out_and_read_again(tmp_path):
    files = {"a/b.txt": {"text": "é"}, "c.bin": {"base64": "/wA="}}
    lay_out(files, tmp_path / "data")
    (tmp_path / "data" / "link").symlink_to("/etc/passwd")
    assert files_of(tmp_path / "data") == files
    for name in ("../x", "/etc/x"):
        with pytest.raises(HostBroken, match="leads out"):
            lay_out({name: {"text": ""}}, tmp_path / f"other{len(name)}")


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ({}, "one MCP server"),
        ({"a": {"url": "https://example.org/mcp"}}, "elsewhere"),
        ({"a": {"command": "docker", "args": ["run", "x"]}}, "container images"),
    ],
)
def test_what_is_no_server_of_a_domain_is_told(servers, words, tmp_path):
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (tmp_path / "domain.json").write_text('{"server": "mcp.json"}')
    with pytest.raises(DomainInvalid, match=words):
        server_of(DomainFolder.read(tmp_path))

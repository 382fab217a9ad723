"""Harvesting real servers, well-behaved and not, over real pipes and a real port, in the real sandbox."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath

import psutil
import pytest
from tokenmill.tools_repo.harvest.harvester import Harvester, HarvestFailed
from tokenmill.tools_repo.harvest.servers import SHIPPED, Server, ServerInvalid, parse_server, read_servers
from tokenmill.tools_repo.sandbox.base import MIB, Limits
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap

from tests.outputs import rows
from tests.tools_repo.sandboxed import needs_sandbox
from tokenmill import cli

SCRIPT = Path(__file__).with_name("tiny_server.py")
MOUNTS = (str(SCRIPT.parent), sys.prefix, *({sys.base_prefix} - {sys.prefix}))

pytestmark = needs_sandbox


def line(mode, **fields):
    """A row of a list of servers."""
    return {"name": mode, "command": [sys.executable, "-I", str(SCRIPT), mode], "mounts": list(MOUNTS), **fields}


def harvest(server, tmp_path, *, start=90.0, listing=90.0, **limits):
    limits = Limits(**{"memory": 512 * MIB, "output": 4 * MIB, **limits})
    harvester = Harvester(Bubblewrap(), tmp_path / "store", start, listing, limits)
    server = server if isinstance(server, Server) else parse_server(server)
    return asyncio.run(harvester.harvest(server))


def failure(mode, tmp_path, **more):
    with pytest.raises(HarvestFailed) as raised:
        harvest(line(mode), tmp_path, **more)
    assert "\n" not in str(raised.value)
    return raised.value


# Servers that answer


def test_a_server_is_asked_and_its_tools_come_back_as_it_lists_them(tmp_path):
    found = harvest(line("good", license="MIT"), tmp_path)
    assert (found.title, found.version, found.license) == ("tiny", "1.2.3", "MIT")
    assert found.tools[0] == {
        "name": "tool_0_0",
        "title": "Look up",
        "description": "Looks up item 0 on page 0.",
        "inputSchema": {"type": "object", "properties": {"id": {"type": "integer", "default": None}}},
        "annotations": {"readOnlyHint": True},
    }
    assert len(found.tools) == 3


def test_every_page_is_read(tmp_path):
    names = [tool["name"] for tool in harvest(line("pages"), tmp_path).tools]
    assert names == [f"tool_{page}_{i}" for page in range(4) for i in range(3)]


def test_a_server_is_reached_by_streamable_http(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(SCRIPT), "http", str(port)])
    try:
        end = time.monotonic() + 90
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        found = harvest({"name": "far", "url": f"http://127.0.0.1:{port}/mcp"}, tmp_path)
        assert len(found.tools) == 6 and found.title == "tiny"
    finally:
        server.kill()
        server.wait()


def test_lines_that_are_no_messages_are_passed_over(tmp_path):
    assert [tool["name"] for tool in harvest(line("greets"), tmp_path).tools] == ["a"]


def test_a_server_sees_neither_our_environment_nor_our_files(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    found = {tool["name"] for tool in harvest(line("spy", env={"MODE": "demo"}), tmp_path).tools}
    uid = {name for name in found if name.startswith("uid-")}
    told = {"PATH", "HOME", "LANG", "TMPDIR", "PWD", "MODE", "CI", "NO_COLOR", "DO_NOT_TRACK", "PYTHONUNBUFFERED"}
    # Where these tests themselves stand below /tmp, the way to the mounted interpreter is seen there.
    below = {PurePosixPath(path).parts[2] for path in MOUNTS if path.startswith("/tmp/")}
    assert found - uid <= told | {"LC_CTYPE"} | below and uid != {"uid-0"}


# Servers that do not


@pytest.mark.parametrize(
    ("mode", "step", "kind", "words"),
    [
        ("key", "start", "needs_credentials", "ACME_API_KEY environment variable is required"),
        ("network", "start", "needs_network", "cannot fetch the catalogue"),
        ("broken", "start", "broken_package", "No module named 'a_package_that_is_not_there'"),
        ("quits", "start", "crashed", ""),
        ("empty", "list", "no_tools", ""),
        ("dies", "list", "crashed", "out of cheese"),
        ("odd", "list", "protocol", ""),
        ("loops", "list", "protocol", ""),
        ("garbage", "start", "garbage", "garbage"),
        ("floods", "list", "over_output", ""),
    ],
)
def test_a_server_that_fails_is_told_by_its_own_last_words(mode, step, kind, words, tmp_path):
    found = failure(mode, tmp_path)
    assert (found.step, found.error) == (step, kind), (str(found), found.last_words)
    assert words in found.last_words


def test_a_server_that_says_nothing_is_given_up(tmp_path):
    found = failure("silent", tmp_path, start=1.0)
    assert (found.step, found.error, str(found)) == ("start", "timeout", "no answer to initialize within 1 s")


def test_a_server_that_never_lists_is_given_up(tmp_path):
    found = failure("hangs", tmp_path, listing=1.0)
    assert (found.step, found.error) == ("list", "timeout")


def test_a_server_that_lists_for_ever_is_given_up(tmp_path):
    assert failure("endless", tmp_path).error == "protocol"


def test_a_server_that_eats_memory_is_ended(tmp_path):
    found = failure("grows", tmp_path, memory=150 * MIB)
    assert found.error in ("over_memory", "crashed") and "Memory" in found.last_words + found.error.title()


def test_an_address_where_nobody_listens(tmp_path):
    with pytest.raises(HarvestFailed) as raised:
        harvest({"name": "far", "url": "http://127.0.0.1:9/mcp"}, tmp_path)
    assert raised.value.error == "unreachable"


def test_what_a_server_leaves_behind_is_ended(tmp_path):
    assert len(harvest(line("daemon"), tmp_path).tools) == 1
    left = [p for p in psutil.process_iter(["cmdline"]) if "daemon" in (p.info["cmdline"] or ())]
    assert left == []


# Lists of servers


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, "the field 'name' is missing"),
        ({"name": "x"}, "give exactly one of pypi, npm, command, url"),
        ({"name": "x", "pypi": "a", "npm": "b", "version": "1"}, "give exactly one of"),
        ({"name": "x", "pypi": "a"}, "needs its version"),
        ({"name": "x", "pypi": "a; rm -rf /", "version": "1"}, "pypi 'a; rm -rf /' is not of the form"),
        ({"name": "x", "npm": "--prefix=/", "version": "1"}, "npm '--prefix=/' is not of the form"),
        ({"name": "x", "npm": "a", "version": "--x"}, "version '--x' is not of the form"),
        ({"name": "../x", "url": "http://x"}, "name '../x' is not of the form"),
        ({"name": "x", "url": "file:///etc/passwd"}, "url must begin with"),
        ({"name": "x", "command": "ls"}, "command must be a list of texts"),
        ({"name": "x", "url": "http://x", "colour": "red"}, "unknown field 'colour'"),
    ],
)
def test_a_server_that_makes_no_sense_is_refused(values, complaint):
    with pytest.raises(ServerInvalid) as raised:
        parse_server(values)
    assert complaint in str(raised.value)


def test_the_shipped_list_is_pinned_and_unique():
    servers = [server for _, server in read_servers(SHIPPED)]
    assert all(isinstance(server, Server) for server in servers) and len(servers) >= 60
    assert len({server.name for server in servers}) == len(servers)
    assert all(server.version and server.license and server.category for server in servers)
    assert all(server.pypi or server.npm for server in servers)


# The command


@pytest.fixture
def command(tmp_path, capsys):
    def run(rows, *more, out="out"):
        path = tmp_path / "servers.jsonl"
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        argv = ["tools", "harvest", "--servers", str(path), "--store", str(tmp_path / "store"), "--timeout", "90"]
        argv.append("--no-dedup")  # the servers' tools are much the same
        code = cli.main([*argv, "--output", str(tmp_path / out), *map(str, more)])
        return code, capsys.readouterr()

    return run


def test_a_harvest_is_a_finished_run(command, tmp_path):
    code, shown = command([line("good", category="tests"), line("key"), "{broken", line("pages"), line("good")])
    out = tmp_path / "out"
    assert code == 0 and "15 kept, 0 refused, 3 failed of 5 servers read" in shown.out
    data, failed = rows(out, "data"), {row["id"]: row for row in rows(out, "failed")}
    assert len(data) == 15 and {row["server"] for row in data} == {"good", "pages"}
    first = next(row for row in data if row["id"] == "mcp/good/tool_0_0")
    assert (first["origin"], first["category"], first["title"]) == ("mcp", "tests", "Look up")
    assert {row["error"] for row in failed.values()} == {"needs_credentials", "invalid_server", "duplicate_name"}
    assert "ACME_API_KEY" in failed["key"]["excerpt"] and failed["key"]["step"] == "start"
    told = json.loads((out / "manifest.json").read_text())
    assert told["counts"]["read"] == 5 and told["counts"]["servers"] == 2 and told["counts"]["servers_failed"] == 3
    assert told["counts"]["accepted"] + told["counts"]["rejected"] + told["counts"]["failed"] == (
        told["counts"]["tasks"] + told["counts"]["unreadable"] + told["counts"]["extra"]
    )
    card = (out / "README.md").read_text()
    assert "15 tools of 2 sources" in card and "a language model" not in card
    assert (out / "report.html").exists() and not (out / ".unfinished").exists()


def test_a_finished_harvest_loads_with_datasets_and_is_not_repeated(command, tmp_path):
    import datasets

    assert command([line("good")])[0] == 0
    loaded = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "hf"))
    assert len(loaded) == 3 and json.loads(loaded[0]["input_schema"])["type"] == "object"
    code, shown = command([line("good")])
    assert code == 0 and "finished already" in shown.err
    code, shown = command([line("pages")])
    assert code == 2 and "other settings" in shown.err


def test_a_harvest_without_a_tool_says_so(command, tmp_path):
    code, shown = command([line("key"), line("quits")])
    assert code == 1 and "0 kept, 0 refused, 2 failed of 2 servers read" in shown.out
    assert len(rows(tmp_path / "out", "failed")) == 2


def test_a_wrong_flag_is_one_line(command, tmp_path, capsys):
    code, shown = command([line("good")], "--only", "bad")
    assert code == 2 and shown.err.startswith("tokenmill: --only bad: no such server") and shown.err.count("\n") == 1
    assert cli.main(["tools", "harvest", "--servers", str(tmp_path / "none.jsonl"), "--output", "x"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_preview_writes_nothing(command, tmp_path):
    code, shown = command([line("good"), line("key")], "--preview", "2")
    assert code == 0 and "mcp/good/tool_0_0  kept" in shown.out and "needs_credentials" in shown.out
    assert not (tmp_path / "out").exists()

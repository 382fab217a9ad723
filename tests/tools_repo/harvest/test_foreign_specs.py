"""Specifications as people have them: functions for a model's request, configurations of MCP clients."""

import asyncio
import http.server
import json
import sys
import threading

import pytest
from tokenmill.inference.redaction import redacted
from tokenmill.schemas.tools import FUNCTION
from tokenmill.tools_repo.harvest.client_configs import read_entry
from tokenmill.tools_repo.harvest.functions import functions_of
from tokenmill.tools_repo.harvest.harvester import Harvester, HarvestFailed, empty_folders
from tokenmill.tools_repo.harvest.server_lists import read_sources
from tokenmill.tools_repo.harvest.servers import LATEST, ServerInvalid, parse_server
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap

BARE = {
    "name": "find",
    "description": "Finds.",
    "parameters": {
        "type": "dict",
        "properties": {
            "near": {"type": "tuple", "items": {"type": "float"}},
            "what": {"type": "any", "default": "dict"},
        },
        "required": ["near"],
    },
}
WRAPPED = {"type": "function", "function": {"name": "now", "description": "The time."}}


def sources(tmp_path, name, value):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return list(read_sources([path]))


# Functions


def test_types_named_as_in_python_are_put_right_and_data_is_left_alone():
    (tool,) = functions_of(BARE)
    assert tool["inputSchema"] == {
        "type": "object",
        "properties": {"near": {"type": "array", "items": {"type": "number"}}, "what": {"default": "dict"}},
        "required": ["near"],
    }


@pytest.mark.parametrize(
    "document",
    [BARE, [BARE], {"tools": [{"type": "function", "function": BARE}]}, {"id": 1, "function": [BARE]},
     {"messages": [], "tools": json.dumps([BARE])}, [{**BARE, "input_schema": BARE["parameters"], "parameters": None}]],
    ids=["bare", "list", "request", "row", "text", "anthropic"],
)  # fmt: skip
def test_functions_are_found_wherever_a_request_carries_them(document):
    (tool,) = functions_of(document)
    assert tool["name"] == "find" and tool["inputSchema"]["required"] == ["near"]


@pytest.mark.parametrize("document", [{"name": "x"}, [BARE, {"name": "x"}], {"servers": []}, 3, None, []])
def test_what_is_no_function_is_taken_for_none(document):
    assert functions_of(document) is None


def test_an_answers_schema_is_kept():
    (tool,) = functions_of({**BARE, "response": {"type": "dict", "properties": {"n": {"type": "float"}}}})
    assert tool["outputSchema"] == {"type": "object", "properties": {"n": {"type": "number"}}}


def test_lines_of_one_function_each_are_a_tool_set_and_rows_with_lists_one_each(tmp_path):
    lines = "\n".join(map(json.dumps, [BARE, WRAPPED, {"tools": [BARE]}]))
    for name in ("mine.jsonl", "mine.json"):  # many a .json file is JSON Lines in truth
        row, alone = sources(tmp_path, name, lines)
        assert [tool["name"] for tool in alone.listed.tools] == ["find", "now"] and alone.name == "mine"
        assert row.name == "mine-2" and row.origin == alone.origin == FUNCTION


# Configurations


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ("npx", ["-y", "@scope/tool@1.2.0", "--flag"], {"npm": "@scope/tool", "version": "1.2.0", "args": ("--flag",)}),
        ("cmd", ["/c", "npx", "-y", "tool"], {"npm": "tool", "version": LATEST}),
        ("npx", ["--package=pack", "run-it", "x"], {"npm": "pack", "entry": "run-it", "args": ("x",)}),
        ("uvx", ["--python", "3.12", "pack@2.0", "go"], {"pypi": "pack", "version": "2.0", "args": ("go",)}),
        ("uv", ["tool", "run", "--from", "pack==3", "other"], {"pypi": "pack", "version": "3", "entry": "other"}),
        ("npx", ["-y", "fs", "/Users/me/Desktop", "--db=/data/a.db"], {"folders": ("/Users/me/Desktop", "/data")}),
        ("npx", ["-y", "fs", "/etc/passwd", "/usr/share", "/tmp/x", "/../root"], {"folders": ()}),
    ],
)
def test_what_a_client_would_fetch_is_named_as_a_package(command, args, expected):
    server = read_entry("one", {"command": command, "args": args})
    assert {name: getattr(server, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "docker", "args": ["run", "image"]}, "container images are not run"),
        ({"command": "uvx", "args": ["--from", "git+https://example.org/x", "x"]}, "no package of PyPI"),
        ({"command": "npx", "args": ["-y", "github:somebody/x"]}, "no package of the npm registry"),
        ({"command": "python", "args": ["-m", "thing"]}, "names no script"),
        ({"command": "python3", "args": ["/not/here.py"]}, "there is no file"),
        ({"command": "a-program-not-here"}, "there is no program"),
        ({"url": "https://example.org/sse", "type": "sse"}, "SSE"),
        ({"args": []}, "neither a command nor a url"),
        ({"command": "npx", "args": {"a": 1}}, "args must be a list"),
    ],
)
def test_what_cannot_be_run_in_a_sandbox_is_refused_and_told(entry, words):
    with pytest.raises(ServerInvalid, match=words):
        read_entry("one", entry)


def test_a_program_of_this_machine_sees_its_script_and_its_interpreter_alone(tmp_path):
    script = tmp_path / "server.py"
    script.write_text("")
    assert read_entry("one", {"command": "/bin/sh", "args": [str(script), "/home/me"]}).mounts == (str(tmp_path),)
    seen = read_entry("one", {"command": sys.executable, "args": [str(script), "/home/me"]}).mounts
    assert seen[0] == str(tmp_path) and set(seen[1:]) <= {sys.prefix, sys.base_prefix}


@pytest.mark.parametrize("key", ["mcpServers", "servers", "context_servers"])
def test_configurations_of_several_clients_are_read_comments_and_all(key, tmp_path):
    text = '{ // mine\n "%s": {"a b": {"command": "uvx", "args": ["pack", "http://x"],}, /* later */ "c": {"url": 3}}}'
    good, bad = sources(tmp_path, "settings.json", text % key)
    assert good.name == "a-b" and good.server.pypi == "pack" and good.server.args == ("http://x",)
    assert bad.error == "not_runnable"


def test_variables_are_filled_in_where_a_server_starts_and_a_missing_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FAR_TOKEN", "tok-5e3c91aa77")
    document = {
        "mcpServers": {
            "far": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${env:FAR_TOKEN}"}},
            "near": {"command": "uvx", "args": ["pack"], "env": {"A": "${NOT_SET_HERE}", "B": "${NOT_SET_EITHER:-b}"}},
        }
    }
    far, near = sources(tmp_path, "mcp.json", document)
    assert "tok-5e3c91aa77" not in repr(far) and far.server.package == "https://example.org/mcp"
    assert far.server.filled().headers == {"Authorization": "Bearer tok-5e3c91aa77"}
    assert redacted("said tok-5e3c91aa77") == "said ***"
    assert near.error == "missing_variable" and "set NOT_SET_HERE in the environment" in near.message
    monkeypatch.setenv("NOT_SET_HERE", "x")
    assert sources(tmp_path, "mcp.json", document)[1].server.filled().env == {"A": "x", "B": "b"}


def test_headers_reach_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("FAR_TOKEN", "tok-77aa5e3c91")
    got = []

    class Refuse(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(self.headers["Authorization"])
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_):
            pass

    listening = http.server.HTTPServer(("127.0.0.1", 0), Refuse)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{listening.server_port}/mcp"
    server = parse_server({"name": "far", "url": url, "headers": {"Authorization": "Bearer ${FAR_TOKEN}"}})
    try:
        with pytest.raises(HarvestFailed):
            asyncio.run(Harvester(Bubblewrap(), tmp_path, 10.0, 10.0).harvest(server))
    finally:
        listening.shutdown()
        listening.server_close()
    assert set(got) == {"Bearer tok-77aa5e3c91"}


def test_folders_that_arguments_name_are_there_and_empty():
    with empty_folders(["/Users/me", "/Users/me/in", "/home/user/own", "/tmp/x"]) as mounts:
        assert [mount.target for mount in mounts] == ["/Users/me"]
        assert mounts[0].writable and mounts[0].source.startswith("/tmp/")

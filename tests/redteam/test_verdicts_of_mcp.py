"""Hostile MCP servers: what they say besides their answers changes nothing, and whatever they do comes to an end."""

import asyncio
import textwrap
import time

import pytest
from tokenmill.tools_repo.harvest.harvester import Harvester, HarvestFailed
from tokenmill.tools_repo.harvest.servers import parse_server
from tokenmill.tools_repo.sandbox.base import MIB, Limits
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap, interpreter

from tests.tools_repo.sandboxed import needs_sandbox

pytestmark = needs_sandbox

SERVER = """
import json, os, sys, time
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
TOOL = {"name": "a", "description": "Does a.", "inputSchema": {"type": "object"}}
def say(value):
    sys.stdout.write((value if isinstance(value, str) else json.dumps(value)) + "\\n"); sys.stdout.flush()
def answer(id, result):
    say({"jsonrpc": "2.0", "id": id, "result": result})
def initialize(id): answer(id, INFO)
def listed(id): answer(id, {"tools": [TOOL]})
REPLIES = []
BODY
for line in sys.stdin:
    told = json.loads(line)
    if told.get("method") == "initialize": initialize(told["id"])
    elif told.get("method") == "tools/list": listed(told["id"])
    elif "method" not in told: REPLIES.append(told)
"""
OTHER = '{"tools": [{**TOOL, "name": "FORGED"}]}'
KEPT = {
    "answers twice": f"def listed(id):\n    answer(id, {{'tools': [TOOL]}})\n    answer(id, {OTHER})\n",
    "answers what nobody asked": f"def listed(id):\n    for n in range(1000, 1100): answer(n, {OTHER})\n    answer(id, {{'tools': [TOOL]}})\n",
    "asks us for a model's answer": (
        "def listed(id):\n    say({'jsonrpc': '2.0', 'id': 'x', 'method': 'sampling/createMessage', 'params': {'messages': [], 'maxTokens': 9}})\n"
        "    reply = json.loads(sys.stdin.readline())\n    ok = 'error' in reply\n    answer(id, {'tools': [TOOL if ok else {**TOOL, 'name': 'FORGED'}]})\n"
    ),
    "asks us for our folders": (
        "def listed(id):\n    say({'jsonrpc': '2.0', 'id': 'x', 'method': 'roots/list'})\n"
        "    reply = json.loads(sys.stdin.readline())\n    ok = 'error' in reply\n    answer(id, {'tools': [TOOL if ok else {**TOOL, 'name': 'FORGED'}]})\n"
    ),
    "floods with notifications": (
        "def listed(id):\n    for n in range(3000): say({'jsonrpc': '2.0', 'method': 'notifications/message', 'params': {'level': 'info', 'data': 'x'}})\n"
        "    answer(id, {'tools': [TOOL]})\n"
    ),
    "speaks terminal codes": "def listed(id):\n    say('\\x1b]0;FORGED\\x07\\x1b[2J')\n    answer(id, {'tools': [TOOL]})\n",
}
ENDED = {
    "answers before it is asked": f"for n in range(200): answer(n, {OTHER})\n",
    "a schema nested without end": 'def listed(id): say(\'{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"a","inputSchema":%s}]}}\' % (json.dumps(id), \'{"a":\' * 50000 + \'1\' + \'}\' * 50000))\n',
    "a lone surrogate": 'def listed(id): say(\'{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"\\\\ud800","inputSchema":{}}]}}\' % json.dumps(id))\n',
    "answers with another id": "def listed(id): answer('FORGED', {'tools': [TOOL]})\n",
    "one line without end": "def listed(id):\n    while True: sys.stdout.write('x' * 65536)\n",
    "pages without end": "n = 0\ndef listed(id):\n    global n\n    n += 1\n    answer(id, {'tools': [TOOL], 'nextCursor': str(n)})\n",
    "drips one byte a second": "def listed(id):\n    while True:\n        sys.stdout.write(' '); sys.stdout.flush(); time.sleep(1)\n",
    "a child that keeps the pipe": "def listed(id):\n    if os.fork() == 0:\n        os.setsid(); time.sleep(300)\n    os._exit(0)\n",
}


def harvest(body, tmp_path):
    code = textwrap.dedent(SERVER).replace("BODY", body)
    python, mounts = interpreter()
    row = {"name": "s", "command": [python, "-Ic", code], "mounts": [m.source for m in mounts]}
    limits = Limits(memory=256 * MIB, output=4 * MIB)
    return asyncio.run(Harvester(Bubblewrap(), tmp_path, 20.0, 6.0, limits).harvest(parse_server(row)))


@pytest.mark.parametrize("attack", KEPT)
def test_a_servers_other_words_change_nothing(attack, tmp_path):
    assert [tool["name"] for tool in harvest(KEPT[attack], tmp_path).tools] == ["a"]


@pytest.mark.parametrize("attack", ENDED)
def test_a_server_that_goes_too_far_is_ended_with_one_line(attack, tmp_path):
    began = time.monotonic()
    with pytest.raises(HarvestFailed) as told:
        harvest(ENDED[attack], tmp_path)
    assert time.monotonic() - began < 60 and "\n" not in str(told.value)

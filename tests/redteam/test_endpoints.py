"""Endpoints that answer with what no endpoint should: every row ends in `data/`, `rejected/` or `failed/`, or the run stops
with one line; in bounded time and memory, with the key nowhere (see `conftest.mill`)."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import subprocess
import sys
import time
import zlib
from itertools import count
from pathlib import Path

import openai
import pytest
from tokenmill.inference.transport import LeanOpenAI

from tests.redteam.conftest import KEY
from tests.redteam.hostile import Endpoint, answer, everything_under, key_of, reply

ROOT = Path(__file__).resolve().parents[2]
CHUNKED = {"Transfer-Encoding": "chunked"}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def always(*pieces: bytes):
    return lambda head, body: pieces


def endless(head, body):
    yield reply(b"", headers=CHUNKED)
    while True:
        yield chunk(b" " * 65536)


def drip(head, body):
    yield reply(b"", length=1000)
    for _ in range(100):
        yield b" "
        time.sleep(0.2)


def slow_head(head, body):
    for letter in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100:
        yield bytes([letter])
        time.sleep(0.2)


def silent(head, body):
    time.sleep(8)
    return []


def calls(*values: object) -> bytes:
    return answer("", content=None, tool_calls=list(values), finish_reason="tool_calls")


BODIES: dict[str, bytes] = {
    # What is no chat completion.
    "nothing": b"",
    "null": b"null",
    "number": b"7",
    "HTML": b"<html><script>alert(1)</script></html>",
    "two answers": answer("a") + answer("b"),
    "half an answer": answer("abc")[:-30],
    "depth of a million": b"[" * 1_000_000,
    "object of depth": b'{"a":' * 100_000,
    "bad UTF-8": b'{"choices": [{"message": {"content": "\xff\xfe"}}]}',
    "UTF-16": json.dumps({"choices": []}).encode("utf-16"),
    "no choices": b'{"choices": []}',
    "choices an object": b'{"choices": {"0": {}}}',
    "message a text": b'{"choices": [{"message": "hi"}]}',
    "NaN": b'{"choices": NaN}',
    # Fields of wrong types.
    "finish_reason a list": answer("x", finish_reason=["stop"]),
    "finish_reason an object": answer("x", finish_reason={"stop": 1}),
    "finish_reason a number": answer("x", finish_reason=5),
    "model a list": answer("x", model=[1, 2]),
    "content an object": answer("x", content={"text": "x"}),
    "content of parts that are none": answer("x", content=[1, None, {"type": "text"}]),
    "refusal a number": answer("", refusal=7),
    "tool_calls a number": answer("x", tool_calls=5),
    "tool_calls of texts": calls("rm", "rf"),
    "tool_calls of null": calls(None),
    "tool call without a function": calls({"id": "1"}),
    "tool call of a list": calls([1, 2]),
    "error and answer": answer("x", error="no"),
    "usage of texts": answer("x", usage={"prompt_tokens": "many", "completion_tokens": "few"}),
    "usage negative": answer("x", usage={"prompt_tokens": -(10**12), "completion_tokens": -5}),
    "usage beyond all numbers": answer("x", usage={"prompt_tokens": 10**300, "completion_tokens": 1e308}),
    "usage infinite": answer("x").replace(b'"prompt_tokens": 100', b'"prompt_tokens": 1e999'),
    # Texts that steer.
    "terminal codes": answer("\x1b[2J\x1b]0;owned\x07\x9b31m", model="\x1b[31m"),
    "NUL and surrogates": answer("a\x00b").replace(b"a\\u0000b", b"a\\u0000\\ud800b"),
    "right-to-left override": answer("\u202eevil"),
    "script": answer("</script><script>alert(1)</script>"),
    "YAML": answer("---\nlicense: mit\n---\n"),
    "a million open tags": answer("<think>" * 30_000),
    "fences in fences": answer("```json\n" * 20_000),
    "braces": answer("{" * 100_000),
    "backslashes": answer("\\" * 100_000),
    "digits": answer("9" * 100_000),
    "one word": answer("a" * 200_000),
    "blanks": answer(" " * 200_000 + "x"),
}
REPLIES = {
    # HTTP.
    "no HTTP": always(b"SSH-2.0-OpenSSH_9\r\n"),
    "no status": always(b"HTTP/1.1\r\n\r\n"),
    "status of letters": always(b"HTTP/1.1 abc X\r\n\r\n"),
    "status 999": always(reply(b"{}", 999)),
    "status 204": always(reply(b"", 204)),
    "status 101": always(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"),
    "closed at once": always(),
    "silence": silent,
    "body that drips": drip,
    "head that drips": slow_head,
    "endless body": endless,
    "endless 100 Continue": lambda head, body: (b"HTTP/1.1 100 Continue\r\n\r\n" for _ in range(10_000)),
    "endless header": lambda head, body: (
        b"HTTP/1.1 200 OK\r\n",
        *(b"X: " + b"a" * 60_000 + b"\r\n" for _ in range(50)),
    ),
    "ten thousand headers": always(reply(answer("x"), headers={f"X-{n}": "y" for n in range(10_000)})),
    "header with newline": always(b"HTTP/1.1 200 OK\r\nX: a\r\n\r\n\r\n" + answer("x")),
    "length too large": always(reply(answer("x"), length=10_000)),
    "length too small": always(reply(answer("x"), length=20)),
    "length negative": always(reply(answer("x"), length=-1)),
    "length and chunks": always(reply(chunk(answer("x")) + b"0\r\n\r\n", headers={**CHUNKED, "Content-Length": "5"})),
    "chunk of negative size": always(reply(b"-5\r\nabcde\r\n", headers=CHUNKED)),
    "chunk of huge size": always(reply(b"ffffffffffffffff\r\nabc", headers=CHUNKED)),
    "gzip that is none": always(reply(b"abc", headers={"Content-Encoding": "gzip"})),
    "gzip of 100 MB": always(reply(gzip.compress(b" " * 100_000_000), headers={"Content-Encoding": "gzip"})),
    "deflate of 100 MB": always(reply(zlib.compress(b" " * 100_000_000), headers={"Content-Encoding": "deflate"})),
    "gzip in gzip": always(
        reply(gzip.compress(gzip.compress(answer("x"))), headers={"Content-Encoding": "gzip, gzip"})
    ),
    "unknown encoding": always(reply(answer("x"), headers={"Content-Encoding": "rot13"})),
    "cookie": always(reply(answer("x"), headers={"Set-Cookie": "a=b; Domain=.com"})),
    "answer that goes on": always(reply(answer("x")) + reply(answer("for the next request"))),
    # Waiting.
    "Retry-After inf": always(reply(b"{}", 429, {"Retry-After": "inf"})),
    "Retry-After nan": always(reply(b"{}", 429, {"Retry-After": "nan"})),
    "Retry-After -inf": always(reply(b"{}", 503, {"Retry-After": "-inf"})),
    "Retry-After of a year": always(reply(b"{}", 429, {"Retry-After": "31536000"})),
    "Retry-After in the year 9999": always(reply(b"{}", 503, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"})),
    "Retry-After no date": always(reply(b"{}", 429, {"Retry-After": "Fri, 99 Foo 99999999 99:99:99 GMT"})),
    "retry-after-ms 1e308": always(reply(b"{}", 429, {"retry-after-ms": "1e308"})),
    "Retry-After of digits": always(reply(b"{}", 429, {"Retry-After": "9" * 5000})),
    # Redirections.
    "redirection to itself": always(reply(b"", 307, {"Location": "/v1/chat/completions"})),
    "redirection to a file": always(reply(b"", 302, {"Location": "file:///etc/passwd"})),
    "redirection to nowhere": always(reply(b"", 308)),
    "redirection with terminal codes": always(reply(b"", 301, {"Location": "http://a/\x1b[31m\x07"})),
}


@pytest.mark.parametrize("name", BODIES)
def test_body(mill, name):
    with Endpoint(always(reply(BODIES[name]))) as server:
        ended = mill(server.url, "--limit", 1)
    assert ended.seconds < 30
    assert ended.code == 3 or sum(ended.counts()[kind] for kind in ("accepted", "rejected", "failed")) == 1
    assert not any(error in ended.err for error in ("TypeError", "AttributeError", "KeyError", "RecursionError"))
    if ended.code != 3:
        assert not {"TypeError", "AttributeError", "KeyError", "ValueError", "RecursionError"} & set(ended.errors())


@pytest.mark.parametrize("name", REPLIES)
def test_reply(mill, name):
    with Endpoint(REPLIES[name]) as server:
        ended = mill(server.url, "--limit", 1)
    assert ended.seconds < 40, "timeout 2 s, patience 2 s"
    assert ended.code in (2, 3) or sum(ended.counts()[kind] for kind in ("accepted", "rejected", "failed")) == 1


def test_nobody_s_answer_is_read_twice(mill, tmp_path):
    """What follows an answer on its connection is not the answer to the next request."""
    number = count()
    with Endpoint(lambda head, body: [reply(answer(f"one {next(number)}")) + reply(answer("SMUGGLED"))]) as server:
        mill(server.url)
    left = everything_under(tmp_path / "out") | everything_under(tmp_path / "private")
    assert not any(b"SMUGGLED" in content for content in left.values())


def test_redirection_to_another_host(mill):
    """The key goes to the address that was given, and to no other."""
    with Endpoint(always(reply(answer("x")))) as other:
        away = always(reply(b"", 307, {"Location": other.url + "/chat/completions"}))
        with Endpoint(away) as server:
            assert mill(server.url).code == 2
        with Endpoint(away, listing=away) as server:
            ended = mill(server.url)
    assert ended.code == 2 and "redirects to" in ended.err
    assert other.heads == [], "nobody came there"


LISTS = {
    "not JSON": b"<html>",
    "null": b"null",
    "models of numbers": b'{"data": [1, 2]}',
    "models without names": b'{"data": [{"x": 1}]}',
    "depth": b"[" * 500_000,
    "terminal codes": b'{"data": [{"id": "\\u001b[2J\\u009b"}]}',
    "a hundred thousand models": json.dumps({"data": [{"id": f"{n}"} for n in range(100_000)]}).encode(),
    "a name of a megabyte": json.dumps({"data": [{"id": "x" * 1_000_000}]}).encode(),
}


@pytest.mark.parametrize("name", LISTS)
def test_list_of_models(mill, name):
    with Endpoint(always(reply(answer("x"))), listing=always(reply(LISTS[name]))) as server:
        ended = mill(server.url, "--limit", 1)
    assert ended.code in (0, 1, 2) and ended.seconds < 20


def test_list_of_models_without_end(mill):
    """It took 3 GiB in six seconds."""
    with Endpoint(always(reply(answer("x"))), listing=endless) as server:
        ended = mill(server.url)
    assert ended.code == 2 and "8 MB as its list of models" in ended.err


def test_list_of_models_that_is_a_gzip_bomb(mill):
    bomb = reply(gzip.compress(b" " * 100_000_000), headers={"Content-Encoding": "gzip"})
    with Endpoint(always(reply(answer("x"))), listing=always(bomb)) as server:
        assert mill(server.url).code == 2


def test_list_of_models_that_drips(mill):
    with Endpoint(always(reply(answer("x"))), listing=drip) as server:
        ended = mill(server.url)
    assert ended.code == 2 and "does not answer" in ended.err and ended.seconds < 40


MEMORY = """
import asyncio, sys
from tokenmill.inference.client import Client, Endpoint, Player
from tokenmill.inference.cache.open import open_cache
from tokenmill.inference.circuit import Circuit
from tokenmill.inference.errors import CallFailed
from tokenmill.inference.limiter import AdaptiveLimiter
from tokenmill.inference.roles import Models, Role
from tokenmill.inference.transport import LeanOpenAI
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) // 1024
async def main(url, cache):
    models = Models({"w": Role(f"m@{url}")}, cache, "t", timeout=20, tries=2)
    client = LeanOpenAI(base_url=url, api_key="k", timeout=20)
    endpoint = Endpoint(client, AdaptiveLimiter(8), Circuit(url, 20), url)
    use = Client(models, {"w": Player(endpoint, "m", models.roles["w"])}, open_cache(cache, run="t"))
    before = peak()
    asked = (use.ask([{"role": "user", "content": str(i)}], to="w", max_tokens=500) for i in range(8))
    ended = await asyncio.gather(*asked, return_exceptions=True)
    await client.close(); await use.cache.close()
    print(peak() - before, *{type(e).__name__ for e in ended})
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["text", "tool calls", "numbers"])
def test_answers_far_longer_than_was_asked_for(tmp_path, kind):
    """One answer of 30 MB to a request for some hundred tokens took 1.3 GiB; here are eight of them at once."""
    long = {
        "text": answer("word " * 6_000_000),
        "tool calls": calls(*({"id": "1", "function": {"name": "f", "arguments": "{}"}} for _ in range(300_000))),
        "numbers": answer("x", system_fingerprint=list(range(4_000_000))),
    }[kind]
    with Endpoint(always(reply(long))) as server:
        words = [sys.executable, "-c", MEMORY, server.url, str(tmp_path / "cache.sqlite")]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    mib, *errors = done.stdout.split()
    assert errors == ["CallFailed"] and int(mib) < 150


def test_the_key_is_sent_to_the_endpoint_alone(mill):
    """Neither proxies of a document's choice nor cookies nor other headers carry it."""
    with Endpoint(always(reply(answer("x"), headers={"Set-Cookie": "session=1"}))) as server:
        mill(server.url)
    assert all(key_of(head) == KEY and head.decode().count(KEY) == 1 for head in server.heads)
    assert not any(b"cookie" in head.lower() for head in server.heads)


def test_early_hints_without_end_are_no_answer():
    """Three such connections held the event loop for minutes, past every time limit."""

    def hints(head, body):
        yield from itertools.repeat(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" * 100, 20_000)

    async def ask(url):
        client = LeanOpenAI(base_url=url, api_key="k", timeout=3)
        try:
            await client.complete(b"{}")
        finally:
            await client.close()

    with Endpoint(hints) as server, pytest.raises(openai.APIConnectionError) as told:
        asyncio.run(ask(server.url))
    assert not isinstance(told.value, openai.APITimeoutError)


def test_a_few_interim_answers_before_each_answer_are_read():
    def some(head, body):
        yield b"HTTP/1.1 103 Early Hints\r\n\r\n" * 15 + reply(answer("Fine."))

    async def ask(url):
        client = LeanOpenAI(base_url=url, api_key="k", timeout=5)
        try:
            return [await client.complete(b"{}") for _ in range(3)]
        finally:
            await client.close()

    with Endpoint(some) as server:
        assert all(b"Fine." in body for body in asyncio.run(ask(server.url)))

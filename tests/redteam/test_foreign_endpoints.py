"""Attacks by another hand on the client of endpoints: what is publicly known to trouble HTTP clients and readers of chat
completions. What holds of every run is checked by `mill`; memory and time beside it here."""

from __future__ import annotations

import gzip
import json
import resource
import zlib
from itertools import count

import pytest

from tests.redteam.hostile import Endpoint, answer, reply

pytestmark = pytest.mark.slow
MIB = 1 << 20


def always(*pieces: bytes):
    return lambda head, body: pieces


def encoded(body: bytes, *encodings: str) -> bytes:
    return reply(body, headers={"Content-Encoding": ", ".join(encodings)})


def brotli_bomb() -> bytes:
    brotli = pytest.importorskip("brotli")
    packed = brotli.Compressor()
    return b"".join([*(packed.process(b" " * MIB) for _ in range(600)), packed.finish()])


def zstd_bomb() -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(b" " * (600 * MIB))


def gzip_twice() -> bytes:
    return gzip.compress(gzip.compress(b" " * (600 * MIB), 9), 9)


def without_end(start: bytes, piece: bytes, times: int = 20_000):
    def attack(head, body):
        yield start
        for _ in range(times):
            yield piece

    return attack


def whole(**changes: object) -> bytes:
    return json.dumps({**json.loads(answer()), **changes}).encode()


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
CHOICE = json.loads(answer())["choices"][0]
LINE = b"data: {}\n\n" * 5000
ATTACKS = {
    "a brotli bomb": lambda: always(encoded(brotli_bomb(), "br")),
    "a zstd bomb": lambda: always(encoded(zstd_bomb(), "zstd")),
    "gzip in gzip": lambda: always(encoded(gzip_twice(), "gzip", "gzip")),
    "deflate without its head": lambda: always(encoded(zlib.compress(b" " * (400 * MIB), 9)[2:-4], "deflate")),
    "an encoding that nobody knows": lambda: always(encoded(answer(), "x-" + "q" * 5000)),
    "an extension of a chunk without end": lambda: without_end(CHUNKED + b"5;", b"x" * 65536),
    "a size of a chunk without end": lambda: without_end(CHUNKED, b"0" * 65536),
    "a negative size of a chunk": lambda: always(CHUNKED + b"-1\r\n" + answer()),
    "trailers without end": lambda: without_end(CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-A: " + b"y" * 8000 + b"\r\n"),
    "a line of headers without end": lambda: without_end(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 65536),
    "headers without end": lambda: without_end(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 1000),
    "early hints without end": lambda: without_end(b"", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" * 100),
    "another protocol": lambda: always(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + answer()
    ),
    "events without end": lambda: without_end(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"%x\r\n%s\r\n" % (len(LINE), LINE),
    ),
    "two lengths": lambda: always(reply(answer(), headers={"Content-Length ": "5", "content-length": "7"})),
    "a length and chunks": lambda: always(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    ),
    "a status of no protocol": lambda: always(b"ICY 200 OK\r\n\r\n" + answer()),
    "a status of nine digits": lambda: always(b"HTTP/1.1 999999999 OK\r\nContent-Length: 0\r\n\r\n"),
    "a waiting time in the year 9999": lambda: always(
        reply(
            b"{}",
            429,
            {
                "Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT",
                "retry-after-ms": "1e15",
                "x-ratelimit-reset-requests": "9999d",
            },
        )
    ),
    "a proxy that asks for a password": lambda: always(reply(b"{}", 407, {"Proxy-Authenticate": "Basic realm=x"})),
    "a server that asks for a password": lambda: always(
        reply(b"{}", 401, {"WWW-Authenticate": "Basic realm=x, Negotiate"})
    ),
    "an error of ten megabytes": lambda: always(
        reply(json.dumps({"error": {"message": "x" * 10 * MIB, "code": "context_length_exceeded"}}).encode(), 400)
    ),
    "an error of another kind each time": lambda: (
        lambda numbers: (
            lambda head, body: [
                reply(b'{"error": %d}' % next(numbers), (408, 409, 413, 425, 429, 500, 503)[next(numbers) % 7])
            ]
        )
    )(count()),
    "content in parts": lambda: always(
        reply(
            whole(
                choices=[
                    {**CHOICE, "message": {"role": "assistant", "content": [{"type": "text", "text": {"x": 1}}] * 1000}}
                ]
            )
        )
    ),
    "a hundred thousand choices": lambda: always(
        reply(whole(choices=[{"index": 0, "message": {"content": "a"}}] * 30_000))
    ),
    "no choice, and another's": lambda: always(reply(whole(choices=[{**CHOICE, "index": -1}, None, 7]))),
    "a message that is a list": lambda: always(reply(whole(choices=[{**CHOICE, "message": []}]))),
    "reasoning and no answer": lambda: always(
        reply(answer(content=None, tool_calls=[{"function": None}, None, 3, {"id": [], "function": {"name": {}}}]))
    ),
    "fields of one name": lambda: always(
        reply(answer()[:-1] + b', "choices": 5, "usage": {"prompt_tokens": {"x": 1}}, "usage": []}')
    ),
    "a model's name that steers the terminal": lambda: always(
        reply(whole(model="m\x1b]0;x\x07\u202e" * 1000, id="\n\r\x1b[2J", system_fingerprint={"a": ["b"] * 10_000}))
    ),
    "usage of every kind": lambda: always(
        reply(
            answer().replace(
                b'"usage": {',
                b'"usage": {"prompt_tokens": 1e400, "completion_tokens": ' + b"9" * 5000 + b', "x": {'[:0] + b", ",
            )
        )
    ),
    "letters that no text ends with": lambda: always(reply(answer("\\ud83d\u0000\ufffe" + "\u0301" * 20_000))),
    "UTF-16 and a mark": lambda: always(
        reply(answer().decode().encode("utf-16"), headers={"Content-Type": "application/json; charset=utf-16"})
    ),
    "a charset that is a program": lambda: always(
        reply(answer(), headers={"Content-Type": "application/json; charset=idna_unicode-escape_zlib"})
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_client_holds(attack, mill):
    made = ATTACKS[attack]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Endpoint(made) as server:
        ended = mill(server.url)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert grown < 400 and ended.seconds < 60, (grown, ended.seconds)
    assert not any(b"Basic" in head or b"Proxy-Authorization" in head for head in server.heads)


@pytest.mark.parametrize(
    "attack",
    ["a brotli bomb", "headers without end", "events without end", "a status of nine digits", "UTF-16 and a mark"],
)
def test_the_list_of_models_holds(attack, mill):
    made = ATTACKS[attack]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Endpoint(always(reply(answer())), listing=made) as server:
        ended = mill(server.url)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert grown < 400 and ended.seconds < 60, (grown, ended.seconds)

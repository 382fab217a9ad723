"""A real OpenAI-compatible HTTP server whose answers a test scripts, and whose faults it orders.

    with ScriptedServer(answer=lambda body: "Hello.") as server:
        server.url            # http://127.0.0.1:PORT/v1
    python -m tokenmill.bench.servers.scripted --port 8123 --latency 0.2        # the paper-mill writer, on its own

Written on bare asyncio so that it costs a small part of the CPU of what it measures.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

Answering = Callable[[dict[str, Any]], "str | dict[str, Any] | bytes | Reply | None"]
"""The reply to a request body; None for none, ever."""


@dataclass(frozen=True)
class Reply:
    """A scripted HTTP answer other than a plain completion."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Faults:
    """Shares of requests that go wrong, drawn from `seed` by request number."""

    too_many: float = 0.0
    server_error: float = 0.0
    malformed: float = 0.0
    hang: float = 0.0
    retry_after: float = 0.05
    seed: int = 1


@dataclass
class Log:
    """What the server has seen."""

    requests: int = 0
    answered: int = 0
    """Good completions sent: what an endpoint would bill."""
    bodies: Counter[bytes] = field(default_factory=Counter)
    """How often each request body was answered with a completion."""
    kinds: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    most_in_flight: int = 0
    tokens: int = 0


class ScriptedServer:
    """Runs on a thread of its own. `answer` makes the reply to a parsed request body."""

    def __init__(
        self,
        answer: Answering,
        *,
        latency: float = 0.0,
        faults: Faults | None = None,
        models: tuple[str, ...] = ("scripted",),
        port: int = 0,
        key: str = "",
        remember: bool = True,
    ) -> None:
        self.answer = answer
        self.latency = latency
        self.faults = faults
        self.models = models
        self.port = port
        self.key = key
        self.remember = remember
        self.log = Log()
        self._random = random.Random(faults.seed if faults else 0)
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Transport] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def spec(self) -> str:
        return f"{self.models[0]}@{self.url}"

    def __enter__(self) -> Self:
        self._thread.start()
        self.up()
        return self

    def __exit__(self, *_: Any) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()

    def up(self) -> None:
        """Listen, at the same port as before."""
        asyncio.run_coroutine_threadsafe(self._up(), self._loop).result(5)

    def down(self) -> None:
        """Die: refuse connections and cut those that are open, requests in them unanswered."""
        asyncio.run_coroutine_threadsafe(self._down(), self._loop).result(5)

    async def _up(self) -> None:
        self._server = await self._loop.create_server(
            lambda: Connection(self), "127.0.0.1", self.port, backlog=4096, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _down(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for transport in list(self._open):
            transport.abort()

    def serve(self, connection: Connection, head: bytes, body: bytes) -> None:
        """Answer one request, now or after the latency."""
        if head.startswith(b"GET"):
            models = [{"id": name, "object": "model"} for name in self.models]
            connection.send(200, orjson.dumps({"object": "list", "data": models}))
            return
        log = self.log
        log.requests += 1
        log.in_flight += 1
        log.most_in_flight = max(log.most_in_flight, log.in_flight)
        if self.key and f"authorization: bearer {self.key}".encode() not in head.lower():
            connection.send_later(0, 401, b'{"error":{"message":"wrong key"}}')
            return
        if self.faults is not None and self._fault(connection, self.faults):
            return
        try:
            reply = self.answer(orjson.loads(body))
        except Exception as error:  # a scripted answer that breaks must be seen, not retried for ever
            reply = Reply(400, orjson.dumps({"error": {"message": f"script: {type(error).__name__}: {error}"}}))
        if reply is None:
            return
        if isinstance(reply, str):
            reply = completion(reply)
        if isinstance(reply, dict):
            log.tokens += reply["usage"]["total_tokens"]
            reply = orjson.dumps(reply)
        if isinstance(reply, bytes):
            reply = Reply(200, reply)
        log.kinds[str(reply.status)] += 1
        # A client's way to find out whether the server is there is not work.
        if reply.status == 200 and b'"content":"ping"' not in body:
            log.answered += 1
            if self.remember:
                log.bodies[body] += 1
        connection.send_later(self.latency, reply.status, reply.body, reply.headers)

    def _fault(self, connection: Connection, faults: Faults) -> bool:
        kinds = ("429", "500", "malformed", "hang", "")
        shares = (faults.too_many, faults.server_error, faults.malformed, faults.hang)
        (kind,) = self._random.choices(kinds, (*shares, 1 - sum(shares)))
        if not kind:
            return False
        self.log.kinds[kind] += 1
        if kind == "429":
            wait = (("Retry-After", f"{faults.retry_after:g}"),)
            connection.send_later(self.latency / 4, 429, b'{"error":{"message":"slow down"}}', wait)
        elif kind == "500":
            connection.send_later(self.latency / 4, 500, b"oops")
        elif kind == "malformed":
            bodies = (
                b'{"choices": [',
                b'{"choices": []}',
                b'{"choices":[{"message":{"content":null}}]}',
                b"<html></html>",
            )
            connection.send_later(self.latency, 200, bodies[self._random.randrange(len(bodies))])
        return True


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive; one request at a time."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.server._open.add(transport)

    def connection_lost(self, _: Exception | None) -> None:
        self.server._open.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end]
            low = head.lower()
            at = low.find(b"content-length:")
            length = int(low[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            self.server.serve(self, head, body)

    def send_later(self, delay: float, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.server._loop.call_later(delay, self._finish, status, body, headers)

    def _finish(self, status: int, body: bytes, headers: tuple[tuple[str, str], ...]) -> None:
        self.server.log.in_flight -= 1
        self.send(status, body, headers)

    def send(self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        if self.transport.is_closing():
            return
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers)
        if "Transfer-Encoding" not in dict(headers):
            extra += f"Content-Length: {len(body)}\r\n"
        self.transport.write(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{extra}\r\n".encode() + body)


def completion(
    text: str, *, prompt_tokens: int = 100, finish_reason: str = "stop", model: str = "scripted"
) -> dict[str, Any]:
    """A chat completion as OpenAI's API has it."""
    tokens = max(1, len(text) // 4)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens},
    }


def main() -> None:
    from tokenmill.bench.servers.mill import Writer

    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    args = parser.parse_args()
    with ScriptedServer(Writer(), latency=args.latency, port=args.port, remember=False) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()

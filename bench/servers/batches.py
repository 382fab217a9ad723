"""A real HTTP server that speaks OpenAI's Batch API beside chat completions, with faults on order.

    with BatchServer(Writer(), working=2.0, faults=BatchFaults(expired=0.05)) as server:
        server.spec            # scripted@http://127.0.0.1:PORT/v1, to which ?batch is added

It keeps books of its own: which call was sent in which batch, and whether that was one time too many.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
from tokenmill.bench.servers.scripted import Answering, Connection, Reply, ScriptedServer, completion


@dataclass(frozen=True)
class BatchFaults:
    """Shares of a batch's requests that get no answer, and things that go wrong on the way to one."""

    expired: float = 0.0
    failed: float = 0.0
    """Answered with HTTP 500."""
    malformed: float = 0.0
    missing: float = 0.0
    """In neither file."""
    lost_replies: int = 0
    """Creations of a batch, the first so many, that are carried out and whose reply is never sent."""
    full: int = 0
    """Batches, the first so many, that fail because too many tokens are queued."""
    broken_downloads: int = 0
    """Downloads, the first so many, that break off in the middle."""
    seed: int = 1


@dataclass
class Books:
    """What was sent."""

    sent: Counter[str] = field(default_factory=Counter)
    """How often each call was in a batch that was taken."""
    twice: list[str] = field(default_factory=list)
    """Calls sent although they were answered already, or were in a batch at that moment."""
    batches: int = 0
    uploads: int = 0


@dataclass
class _Batch:
    id: str
    file: str
    metadata: dict[str, str]
    created: float
    lines: list[dict[str, Any]]
    status: str = "in_progress"
    output: str = ""
    error: str = ""
    full: bool = False


class BatchServer(ScriptedServer):
    """`working` is the time in seconds that a batch takes."""

    def __init__(
        self,
        answer: Answering,
        *,
        working: float = 0.2,
        batch_faults: BatchFaults | None = None,
        most_lines: int = 50_000,
        **more: Any,
    ) -> None:
        super().__init__(answer, **more)
        self.working = working
        self.batch_faults = batch_faults or BatchFaults()
        self.most_lines = most_lines
        self.books = Books()
        self.batches: dict[str, _Batch] = {}
        self.files: dict[str, bytes] = {}
        self.downloads = 0
        self.prompt_tokens = 0
        """Part of `log.tokens`."""
        self._draw = random.Random(self.batch_faults.seed)
        self._pending: set[str] = set()
        self._answered: set[str] = set()

    def serve(self, connection: Connection, head: bytes, body: bytes) -> None:
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        path, _, query = path.partition("?")
        route = path.removeprefix("/v1")
        if route.startswith(("/files", "/batches")):
            if self.key and f"authorization: bearer {self.key}".encode() not in head.lower():
                connection.send(401, b'{"error":{"message":"wrong key"}}')
                return
            self._work()
            self._route(connection, method, route, query, head, body)
        else:
            super().serve(connection, head, body)

    def _route(self, connection: Connection, method: str, route: str, query: str, head: bytes, body: bytes) -> None:
        told: dict[str, Any] | None
        if method == "POST" and route == "/files":
            name = f"file-{len(self.files)}"
            self.files[name] = _uploaded(head, body)
            self.books.uploads += 1
            told = {"id": name, "object": "file", "purpose": "batch"}
        elif method == "POST" and route == "/batches":
            told = self._create(orjson.loads(body))
            if self.books.batches <= self.batch_faults.lost_replies:
                connection.transport.abort()
                return
        elif route == "/batches":
            after = re.search(r"after=([\w-]+)", query)
            newest = list(reversed(self.batches.values()))
            at = next((i + 1 for i, batch in enumerate(newest) if after and batch.id == after[1]), 0)
            page = newest[at : at + 2]
            told = {"object": "list", "data": [_shown(one) for one in page], "has_more": at + 2 < len(newest)}
        elif route.startswith("/batches/"):
            batch = self.batches.get(route.removeprefix("/batches/"))
            told = _shown(batch) if batch else None
        else:
            name = route.removeprefix("/files/").removesuffix("/content")
            self._download(connection, self.files.get(name))
            return
        if told is None:
            connection.send(404, b'{"error":{"message":"no such thing"}}')
        else:
            connection.send(200, orjson.dumps(told))

    def _download(self, connection: Connection, content: bytes | None) -> None:
        self.downloads += 1
        if content is None:
            connection.send(404, b"{}")
        elif self.downloads <= self.batch_faults.broken_downloads:
            head = f"HTTP/1.1 200 X\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            connection.transport.write(head + content[: len(content) // 2])
            self._loop.call_later(0.05, connection.transport.close)
        else:
            connection.send(200, content)

    def _create(self, asked: dict[str, Any]) -> dict[str, Any]:
        lines = [orjson.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        assert asked["endpoint"] == "/v1/chat/completions" and asked["completion_window"] == "24h"
        assert 0 < len(lines) <= self.most_lines and len({line["custom_id"] for line in lines}) == len(lines)
        assert len({line["body"]["model"] for line in lines}) == 1
        self.books.batches += 1
        name = f"batch_{self.books.batches}"
        batch = _Batch(name, asked["input_file_id"], asked.get("metadata") or {}, time.time(), lines)
        self.batches[name] = batch
        if self.books.batches <= self.batch_faults.full:
            batch.status, batch.full = "failed", True
            return _shown(batch)
        for line in lines:
            address = line["custom_id"]
            self.books.sent[address] += 1
            if address in self._pending or address in self._answered:
                self.books.twice.append(address)
            self._pending.add(address)
        return _shown(batch)

    def _work(self) -> None:
        """End the batches whose time has come."""
        for batch in self.batches.values():
            if batch.status == "in_progress" and time.time() >= batch.created + self.working:
                self._end(batch)

    def _end(self, batch: _Batch) -> None:
        faults = self.batch_faults
        outputs: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        kinds = ("expired", "failed", "malformed", "missing", "")
        shares = (faults.expired, faults.failed, faults.malformed, faults.missing)
        for line in batch.lines:
            address = line["custom_id"]
            self._pending.discard(address)
            (kind,) = self._draw.choices(kinds, (*shares, 1 - sum(shares)))
            self.log.kinds[f"line {kind or 'answered'}"] += 1
            base = {"id": f"batch_req_{len(outputs)}", "custom_id": address, "error": None}
            if kind == "expired":
                told = {"code": "batch_expired", "message": "This request could not be executed before the expiry."}
                errors.append({**base, "response": None, "error": told})
            elif kind == "failed":
                errors.append({**base, "response": _response(500, {"error": {"message": "oops"}})})
            elif kind == "malformed":
                outputs.append({**base, "response": _response(200, {"choices": []})})
            elif not kind:
                status, made = self._made(line["body"])
                (outputs if status == 200 else errors).append({**base, "response": _response(status, made)})
                if status == 200:
                    self._answered.add(address)
                    self.log.answered += 1
        self._draw.shuffle(outputs)
        for name, made in (("output", outputs), ("error", errors)):
            if made:
                file = f"file-{len(self.files)}"
                self.files[file] = b"".join(orjson.dumps(line) + b"\n" for line in made)
                setattr(batch, name, file)
        batch.status = "expired" if faults.expired and errors else "completed"

    def _made(self, body: dict[str, Any]) -> tuple[int, Any]:
        reply = self.answer(body)
        if isinstance(reply, str):
            reply = completion(reply)
        if isinstance(reply, Reply):
            return reply.status, orjson.loads(reply.body)
        assert isinstance(reply, dict)
        self.log.tokens += reply["usage"]["total_tokens"]
        self.prompt_tokens += reply["usage"]["prompt_tokens"]
        return 200, reply


def _response(status: int, body: Any) -> dict[str, Any]:
    return {"status_code": status, "request_id": "r", "body": body}


def _shown(batch: _Batch) -> dict[str, Any]:
    done = len(batch.lines) if batch.status in ("completed", "expired") else 0
    told = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None, "param": None}
    return {
        "id": batch.id,
        "object": "batch",
        "status": batch.status,
        "metadata": batch.metadata,
        "created_at": int(batch.created),
        "input_file_id": batch.file,
        "output_file_id": batch.output or None,
        "error_file_id": batch.error or None,
        "errors": {"object": "list", "data": [told]} if batch.full else None,
        "request_counts": {"total": len(batch.lines), "completed": done, "failed": 0},
    }


def _uploaded(head: bytes, body: bytes) -> bytes:
    """The file in a multipart form."""
    boundary = re.search(rb'boundary="?([^";\r\n]+)', head)
    assert boundary is not None
    return next(content for name, content in _fields(body, boundary[1]) if name == b"file")


def _fields(body: bytes, boundary: bytes) -> Iterator[tuple[bytes, bytes]]:
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]+)"', head)
        yield name[1] if name else b"", content.removesuffix(b"\r\n")

"""Anthropic's Message Batches as a scripted server: as strict as its documentation, with faults, and books of what was sent."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

import orjson
from tokenmill.bench.servers.scripted import Connection

from tests.servers.vendors import MessagesServer, _error, problem

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KINDS = ("expired", "canceled", "errored", "refused", "missing", "succeeded")


@dataclass(frozen=True)
class Faults:
    """Shares of a batch's requests, but for the last two."""

    expired: float = 0.0
    canceled: float = 0.0
    errored: float = 0.0
    """With an error that passes."""
    missing: float = 0.0
    lost_replies: int = 0
    """Creations, the first so many, that are carried out and whose reply is never sent."""
    strangers: bool = False
    """Whether somebody else makes a batch of the same size just after each of ours."""
    ahead: float = 0.0
    """Seconds by which the server's clock is ahead."""


@dataclass
class _Batch:
    id: str
    made: float
    requests: list[dict[str, Any]]
    results: bytes | None = None


@dataclass
class Books:
    sent: Counter[str] = field(default_factory=Counter)
    twice: list[str] = field(default_factory=list)
    batches: int = 0


class MessageBatchesServer(MessagesServer):
    """`working` is the time in seconds that a batch takes."""

    def __init__(self, *args: Any, working: float = 0.2, faults: Faults | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.working, self.faults, self.books = working, faults or Faults(), Books()
        self.batches: list[_Batch] = []
        self._draw = random.Random(1)
        self._pending: set[str] = set()
        self.answered: set[str] = set()

    def serve(self, connection: Connection, head: bytes, body: bytes) -> None:
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        path, _, query = path.partition("?")
        if not path.startswith("/v1/messages/batches"):
            super().serve(connection, head, body)
        elif f"x-api-key: {self.key}".encode() not in head.lower():
            connection.send(401, _error("authentication_error", "invalid x-api-key"))
        elif b"anthropic-version: 2023-06-01" not in head.lower():
            connection.send(400, _error("invalid_request_error", "anthropic-version: header is required"))
        else:
            self._work()
            self._route(connection, method, path.removeprefix("/v1/messages/batches").strip("/"), query, body)

    def _now(self) -> float:
        return time.time() + self.faults.ahead

    def _route(self, connection: Connection, method: str, name: str, query: str, body: bytes) -> None:
        date = (("Date", formatdate(self._now(), usegmt=True)),)
        if method == "POST":
            told = orjson.loads(body)
            fault = self._problem(told)
            if fault:
                connection.send(400, _error("invalid_request_error", fault))
                return
            made = self._create(told["requests"])
            if self.books.batches <= self.faults.lost_replies:
                connection.transport.abort()
                return
            connection.send(200, orjson.dumps(self._shown(made)), date)
        elif not name:
            newest = list(reversed(self.batches))
            after = re.search(r"after_id=(\w+)", query)
            at = next((i + 1 for i, one in enumerate(newest) if after and one.id == after[1]), 0)
            page = newest[at : at + 2]
            listed = {"data": [self._shown(one) for one in page], "has_more": at + 2 < len(newest)}
            connection.send(200, orjson.dumps(listed), date)
        else:
            name, _, results = name.partition("/")
            batch = next((one for one in self.batches if one.id == name), None)
            if batch is None or (results and batch.results is None):
                connection.send(404, _error("not_found_error", name), date)
            else:
                connection.send(200, (batch.results or b"") if results else orjson.dumps(self._shown(batch)), date)

    def _problem(self, told: dict[str, Any]) -> str:
        if told.keys() != {"requests"} or not told["requests"]:
            return "requests: Field required"
        names = [one["custom_id"] for one in told["requests"]]
        if len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
            return "custom_id: must be unique and match ^[a-zA-Z0-9_-]{1,64}$"
        faults = (problem(one["params"]) for one in told["requests"] if one.keys() == {"custom_id", "params"})
        return next(filter(None, faults), "")

    def _create(self, requests: list[dict[str, Any]]) -> _Batch:
        self.books.batches += 1
        batch = _Batch(f"msgbatch_{len(self.batches)}", self._now(), requests)
        self.batches.append(batch)
        for one in requests:
            self.books.sent[one["custom_id"]] += 1
            if one["custom_id"] in self._pending | self.answered:
                self.books.twice.append(one["custom_id"])
            self._pending.add(one["custom_id"])
        if self.faults.strangers:
            theirs = [{**one, "custom_id": f"theirs-{n}"} for n, one in enumerate(requests)]
            self.batches.append(_Batch(f"msgbatch_{len(self.batches)}", self._now(), theirs))
        return batch

    def _work(self) -> None:
        for batch in self.batches:
            if batch.results is None and self._now() >= batch.made + self.working:
                batch.results = b"".join(map(self._line, batch.requests))

    def _line(self, request: dict[str, Any]) -> bytes:
        name, faults = request["custom_id"], self.faults
        shares = (faults.expired, faults.canceled, faults.errored, 0.0, faults.missing)
        (kind,) = self._draw.choices(_KINDS, (*shares, 1 - sum(shares)))
        self._pending.discard(name)
        if kind == "missing":
            return b""
        result: dict[str, Any] = {"type": kind}
        if kind == "succeeded":
            result["message"] = self.message(request["params"])
            self.answered |= {name} if name in self.books.sent else set()
        elif kind == "errored":
            error = {"type": "api_error", "message": "Internal server error"}
            result["error"] = {"type": "error", "error": error}
        return orjson.dumps({"custom_id": name, "result": result}) + b"\n"

    def _shown(self, batch: _Batch) -> dict[str, Any]:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        ended = batch.results is not None
        counts["succeeded" if ended else "processing"] = len(batch.requests)
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": datetime.fromtimestamp(batch.made, UTC).isoformat().replace("+00:00", "Z"),
            "results_url": f"https://elsewhere.invalid/{batch.id}" if ended else None,
        }

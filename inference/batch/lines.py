"""The JSONL of OpenAI's Batch API, which `vllm run-batch` reads and writes as well: a request a line, a result a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from tokenmill.inference.batch.spool import Filed

URL = "/v1/chat/completions"
MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000
"""Of a part, a little below the 200 MB that OpenAI takes."""


@dataclass(frozen=True)
class Result:
    """What became of one request of a batch."""

    address: str
    status: int = 0
    """HTTP status; 0 where it was not sent at all."""
    body: bytes = b""
    problem: str = ""
    expired: bool = False
    """Whether the batch's time ran out before the request's turn came."""


def request(address: str, body: bytes) -> bytes:
    """A call as a line; its content address is its `custom_id`."""
    return b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}\n' % (address.encode(), URL.encode(), body)


def parts(
    calls: Iterable[tuple[str, Filed]], *, most_requests: int = MOST_REQUESTS, most_bytes: int = MOST_BYTES
) -> Iterator[list[tuple[str, Filed]]]:
    """Calls in as many parts as the limits want."""
    part: list[tuple[str, Filed]] = []
    size = 0
    for address, call in calls:
        line = call.length + len(request(address, b""))
        if part and (len(part) >= most_requests or size + line > most_bytes):
            yield part
            part, size = [], 0
        part.append((address, call))
        size += line
    if part:
        yield part


def write_part(path: Path, calls: Iterable[tuple[str, Filed]]) -> None:
    """Write calls as a part, whole or not at all."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        for address, call in calls:
            file.write(request(address, call.body))
    unfinished.replace(path)


def read_result(line: bytes) -> Result | None:
    """A line of an output or error file; None where it cannot be read, or names no call."""
    try:
        told = orjson.loads(line)
        address = told["custom_id"]
        response, error = told.get("response"), told.get("error")
        if not isinstance(address, str):
            return None
        if isinstance(response, dict):
            body = response.get("body")
            raw = body.encode() if isinstance(body, str) else orjson.dumps(body)
            status = response.get("status_code")
            return Result(address, int(status) if status else 200 if error is None else 500, raw, _said(error))
        return Result(address, problem=_said(error) or "no response", expired=_code(error) == "batch_expired")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _said(error: object) -> str:
    if not isinstance(error, dict):
        return str(error)[:300] if error else ""
    return " ".join(str(error.get("message") or error.get("code") or error).split())[:300]


def _code(error: object) -> str:
    return str(error.get("code") or "") if isinstance(error, dict) else ""

"""Anthropic's Message Batches: requests in one body, results in one file of lines.

A batch bears no name of ours. One whose creation we saw no reply to is known by when it was made, by how many requests it
has, and, when it has ended, by whose results it holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Set
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from tokenmill.inference.anthropic import Anthropic
from tokenmill.inference.batch.api import BatchApi, _number
from tokenmill.inference.batch.box import Progress

BATCHES = "/messages/batches"
ENDED = "ended"
_PAGES = 50
_SLACK = 2.0
"""Seconds by which the times of a reply, in whole seconds, may be off."""
_LOOK_AGAIN = 15.0
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
}
"""Of errors that will not pass; all others may."""


class MessageBatches(BatchApi):
    """One workspace's, for one event loop."""

    async def put(self, part: str, file: Path) -> str:
        asked = {"content-type": "application/json"}
        made = await self._ask("POST", BATCHES, form=lambda: _body(file), once=True, headers=asked)
        return str(made["id"])

    async def find(self, part: str, since: float, calls: Set[str], known: Set[str]) -> str | None:
        strangers = set(known)
        while True:
            may_be = [one for one in await self._made_since(since, len(calls)) if one["id"] not in strangers]
            for batch in may_be:
                if batch.get("processing_status") == ENDED:
                    if await self._holds(str(batch["id"]), calls):
                        return str(batch["id"])
                    strangers.add(batch["id"])
            waiting = [batch for batch in may_be if batch["id"] not in strangers]
            if len(waiting) < 2:
                return str(waiting[0]["id"]) if waiting else None
            await asyncio.sleep(_LOOK_AGAIN)  # somebody else has made one of the same size: the results will tell

    async def look(self, batch: str) -> Progress:
        told = await self._ask("GET", f"{BATCHES}/{batch}")
        counts = told.get("request_counts") or {}
        done = sum(int(_number(count)) for name, count in counts.items() if name != "processing")
        return Progress(ended=told.get("processing_status") == ENDED, done=done, files=(batch,))

    async def results(self, progress: Progress) -> AsyncIterator[bytes]:
        async for line in super().results(progress):
            if read := _result(line):
                yield read

    def _results_at(self, name: str) -> str:
        # Not where the reply says: our key goes to the address that we were given and nowhere else.
        return f"{BATCHES}/{name}/results"

    async def _made_since(self, since: float, requests: int) -> list[dict[str, Any]]:
        """Batches of so many requests that were made since then by our clock."""
        found: list[dict[str, Any]] = []
        after = ""
        for _ in range(_PAGES):
            page = await self._ask("GET", f"{BATCHES}?limit=100{f'&after_id={after}' if after else ''}")
            batches = [one for one in page.get("data") or () if isinstance(one, dict) and one.get("id")]
            for batch in batches:
                if _time(batch.get("created_at")) < since + self.ahead - _SLACK:
                    return found  # the newest come first
                counts = (batch.get("request_counts") or {}).values()
                if sum(map(_number, counts)) == requests:
                    found.append(batch)
            if not batches or not page.get("has_more"):
                break
            after = str(batches[-1]["id"])
        return found

    async def _holds(self, batch: str, calls: Set[str]) -> bool:
        """Whether an ended batch's first result is of one of these calls."""
        async for line in super().results(Progress(ended=True, files=(batch,))):
            try:
                return orjson.loads(line)["custom_id"] in calls
            except (ValueError, KeyError, TypeError):
                return False
        return False


def _body(file: Path) -> bytes:
    """A part as the body that makes a batch of it."""
    return b'{"requests":[' + b",".join(_requests(file)) + b"]}"


def _requests(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        for line in lines:
            told = orjson.loads(line)
            yield orjson.dumps({"custom_id": told["custom_id"], "params": told["body"]})


def _result(line: bytes) -> bytes:
    """A line of results as a line of OpenAI's; empty where it cannot be read."""
    try:
        told = orjson.loads(line)
        result, response, error = told["result"], None, None
        if result["type"] == "succeeded":
            response = {
                "status_code": 200,
                "body": orjson.loads(Anthropic().decode(orjson.dumps(result["message"]))),
            }
        elif result["type"] == "errored":
            fault = result["error"].get("error") or result["error"]
            response = {"status_code": _STATUS.get(fault["type"], 500), "body": result["error"]}
            error = {"code": fault["type"], "message": fault.get("message")}
        elif result["type"] == "expired":
            error = {"code": "batch_expired", "message": "the batch's time ran out before its turn"}
        else:
            error = {"code": result["type"], "message": f"the request was {result['type']}"}
        return orjson.dumps({"custom_id": told["custom_id"], "response": response, "error": error})
    except (ValueError, KeyError, TypeError, AttributeError):
        return b""


def _time(told: object) -> float:
    try:
        return datetime.fromisoformat(str(told)).timestamp()
    except ValueError:
        return 0.0

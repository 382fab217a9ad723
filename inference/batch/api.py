"""The Batch API as OpenAI has it: files, and batches made of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Set
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from tokenmill.inference.batch.box import Progress, Unsure
from tokenmill.inference.batch.lines import URL
from tokenmill.inference.errors import EndpointDown, EndpointRejects
from tokenmill.inference.redaction import redacted_json
from tokenmill.inference.transport import MAX_ANSWER, said

ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
MARK = "tokenmill_part"
"""Key of a batch's metadata that names the part it was made of."""
_PAGES = 50
_MAX_REPLY = 8_000_000
_CHUNK = 1 << 18


class BatchApi:
    """One endpoint's, for one event loop."""

    def __init__(self, base_url: str, headers: Mapping[str, str], patience: float) -> None:
        """
        Args:
            headers: that say who we are.
            patience: seconds for which the endpoint may be gone.
        """
        self.base_url = base_url
        self.patience = patience
        self.ahead = 0.0
        """Seconds by which the endpoint's clock is ahead of ours, as its last reply says."""
        self._headers = dict(headers)
        self._opened: aiohttp.ClientSession | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            deadline = aiohttp.ClientTimeout(total=None, sock_connect=60, sock_read=max(120.0, self.patience))
            self._opened = aiohttp.ClientSession(
                timeout=deadline, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True
            )
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def put(self, part: str, file: Path) -> str:
        name = f"tokenmill-{part}.jsonl"

        def form() -> aiohttp.FormData:
            data = aiohttp.FormData()
            data.add_field("purpose", "batch")
            data.add_field("file", file.open("rb"), filename=name, content_type="application/jsonl")
            return data

        uploaded = await self._ask("POST", "/files", form=form)
        made = {
            "input_file_id": uploaded["id"],
            "endpoint": URL,
            "completion_window": "24h",
            "metadata": {MARK: part},
        }
        return str((await self._ask("POST", "/batches", json=made, once=True))["id"])

    async def find(self, part: str, since: float, calls: Set[str], known: Set[str]) -> str | None:
        after = ""
        for _ in range(_PAGES):
            page = await self._ask("GET", f"/batches?limit=100{f'&after={after}' if after else ''}")
            batches = [batch for batch in page.get("data") or () if isinstance(batch, dict)]
            for batch in batches:
                if (batch.get("metadata") or {}).get(MARK) == part:
                    return str(batch["id"])
            # The newest come first. Clocks may differ: an hour is allowed for that.
            if not batches or not page.get("has_more") or _number(batches[-1].get("created_at")) < since - 3600:
                return None
            after = str(batches[-1]["id"])
        return None

    async def look(self, batch: str) -> Progress:
        told = await self._ask("GET", f"/batches/{batch}")
        counts = told.get("request_counts") or {}
        errors = [e for e in (told.get("errors") or {}).get("data") or () if isinstance(e, dict)]
        failed = told.get("status") == "failed"
        words = "; ".join(" ".join(str(e.get("message") or e.get("code")).split())[:200] for e in errors[:3])
        return Progress(
            ended=told.get("status") in ENDED,
            done=int(_number(counts.get("completed")) + _number(counts.get("failed"))),
            problem=(words or "it does not say why") if failed else "",
            full=failed and any("limit" in str(e.get("code")) for e in errors),
            bad_lines=tuple((int(_number(e["line"])) - 1, str(e.get("message"))) for e in errors if e.get("line")),
            files=tuple(str(told[name]) for name in ("output_file_id", "error_file_id") if told.get(name)),
        )

    async def results(self, progress: Progress) -> AsyncIterator[bytes]:
        for name in progress.files:
            end, pause = time.monotonic() + self.patience, 0.5
            while True:
                try:
                    async for line in self._content(name):
                        yield line
                    break
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    problem = str(error) or type(error).__name__
                # What is not read here would count as not answered, and be paid for again.
                if time.monotonic() > end:
                    raise EndpointDown(
                        f"{self.base_url} does not give the results of a batch ({problem}); repeat the command to fetch "
                        "them: they are not lost"
                    )
                await asyncio.sleep(pause)
                pause = min(2 * pause, 20.0)

    def _results_at(self, name: str) -> str:
        return f"/files/{name}/content"

    async def _content(self, name: str) -> AsyncIterator[bytes]:
        """The lines of a file; too long ones are left out. A file that is not there any more has none."""
        async with self._session.get(self.base_url + self._results_at(name), allow_redirects=False) as answer:
            if answer.status in (404, 410):
                return
            answer.raise_for_status()
            if answer.status != 200:
                raise aiohttp.ClientPayloadError(f"HTTP {answer.status}")
            held, too_long = b"", False
            async for chunk in answer.content.iter_chunked(_CHUNK):
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    if not too_long:
                        yield redacted_json(held + line)
                    held, too_long = b"", False
                held += rest
                if len(held) > MAX_ANSWER:
                    held, too_long = b"", True
            if held and not too_long:
                yield redacted_json(held)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        form: Any = None,
        once: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """A reply's JSON. What may be asked twice is, until the patience is over.

        Raises:
            Unsure: no clear reply to what is asked for only once.
            EndpointRejects, EndpointDown
        """
        end, pause = time.monotonic() + self.patience, 0.5
        while True:
            try:
                data = {"data": form()} if form is not None else {"json": json} if json is not None else {}
                asking = self._session.request(
                    method, self.base_url + path, allow_redirects=False, headers=headers, **data
                )
                async with asking as answer:
                    self._clock(answer.headers.get("Date", ""))
                    content = b""
                    while len(content) < _MAX_REPLY and (piece := await answer.content.read(_MAX_REPLY)):
                        content += piece
                content = redacted_json(content)
                if answer.status < 300:
                    told = orjson.loads(content)
                    if not isinstance(told, dict):
                        raise ValueError("no object")
                    return told
                problem = f"HTTP {answer.status}"
                if answer.status == 404 or answer.status == 405:
                    raise EndpointRejects(
                        f"{self.base_url}{path.partition('?')[0]} answers HTTP {answer.status}: "
                        f"{said(content)}; an endpoint without a Batch API is asked directly: leave out ?batch"
                    )
                if answer.status < 500 and answer.status not in (408, 409, 429):
                    raise EndpointRejects(f"{self.base_url} rejects our batch with {problem}: {said(content)}")
                clear = answer.status in (429, 503)  # sent away before anything was made
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                problem, clear = f"no answer: {error}", isinstance(error, aiohttp.ClientConnectorError)
            if once and not clear:
                raise Unsure(problem)
            if time.monotonic() > end:
                raise EndpointDown(
                    f"{self.base_url} has not taken our batch for {self.patience:.0f} s ({problem}); repeat the command "
                    "when it is back: no batch is lost"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, 20.0)

    def _clock(self, date: str) -> None:
        """Learn by how much the endpoint's clock is ahead of ours."""
        with contextlib.suppress(ValueError, TypeError):
            self.ahead = parsedate_to_datetime(date).timestamp() - time.time()


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

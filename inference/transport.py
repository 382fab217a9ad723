"""The lean path through `openai.AsyncOpenAI`.

Building an httpx request and parsing an answer into pydantic models costs the stock client several times the CPU of the
exchange itself. Everything that shapes the request still comes from the openai client (address, authorisation,
organisation, default headers and query, error mapping); it is asked once and the result is the template of every later
request. Bodies go out as the bytes whose hash is the call's content address, come back as bytes that are stored
before anything reads them, and travel over one aiohttp session.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urljoin
from urllib.request import getproxies

import aiohttp
import httpx2
import openai
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from openai._models import FinalRequestOptions
from tokenmill.inference.call import Call, MalformedAnswer
from tokenmill.inference.redaction import redacted, redacted_json
from tokenmill.inference.wire import Codec, Plain

CONNECT = 60.0
"""Seconds for a connection. A server that is not there refuses at once; what takes long is hundreds of connections on a
machine that is busy, and to count those as failures would stop a run whose server is well."""
MAX_ANSWER = 32_000_000
"""Bytes of an answer that are read, whatever was asked."""
ANSWER_BYTES, TOKEN_BYTES = 1 << 20, 256
"""Bytes of an answer that are read to a call that says how long it may be: what an answer is wrapped in, and a token of it. A
token is three or four bytes of text, the longest (of blanks) are 128, and JSON writes some letters with six; logarithms of
probabilities, which calls may ask for, are far longer. Python makes some forty bytes of objects of each byte."""
MAX_LIST = 8_000_000
"""Bytes of a list of models that are read; the longest known are of half a megabyte."""
INTERIM = 20
"""Interim answers before an answer."""


class _Session:
    """One aiohttp session, opened by the event loop that uses it."""

    def __init__(self, timeout: float) -> None:
        # The total is `_within`'s: aiohttp's own would count time in which this process stood still.
        self._deadline = aiohttp.ClientTimeout(total=None, connect=min(timeout, CONNECT))
        self._session: aiohttp.ClientSession | None = None

    @property
    def opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # No limit of connections here: the limiter decides what is in flight.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            handlers: Any = partial(_Handler, loop=asyncio.get_running_loop())
            connector._factory = handlers  # the only place to bound what it reads
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._deadline,
                cookie_jar=aiohttp.DummyCookieJar(),
                # With it aiohttp asks a thread for the proxy at every request, which costs more than the request.
                trust_env=bool(getproxies()),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class _Handler(ResponseHandler):
    """One connection. Interim answers (`103 Early Hints` and its like) are no answer, and aiohttp reads them without end: at full
    speed they leave the event loop no time for anything else."""

    _interim = 0

    def feed_data(self, data: Any, size: int = 0) -> None:
        if 100 <= data[0].code < 200:
            self._interim += 1
            if self._interim > INTERIM:
                if self.transport is not None:
                    self.transport.abort()
                return
        else:
            self._interim = 0
        super().feed_data(data, size)


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """A time limit that gives back what its own timer comes late.

    A process that stood still (starved of CPU, stopped, its machine moved elsewhere) finds the answers of all its
    requests beside timers that have run out: giving up then would pay for every one of them again.

    Raises:
        TimeoutError: the block took longer.
    """
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    async with asyncio.timeout(None) as limit:

        def expire() -> None:
            now = loop.time()
            limit.reschedule(now + (now - due))

        timer = loop.call_at(due, expire)
        try:
            yield
        finally:
            timer.cancel()


class LeanOpenAI(openai.AsyncOpenAI):
    """`AsyncOpenAI` with prepared requests. Use `complete`; retries are the caller's."""

    def __init__(self, *, base_url: str, api_key: str, timeout: float, codec: Codec | None = None) -> None:
        self.codec = codec or Plain()
        told: dict[str, Any] = dict(self.codec.headers)
        if self.codec.key_header != "Authorization":
            told |= {"Authorization": openai.Omit(), self.codec.key_header: api_key}
        super().__init__(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0, default_headers=told)
        self._lean = _Session(timeout)
        self._seconds = timeout
        self._template: tuple[httpx2.Request, str, CIMultiDict[str]] | None = None

    def _validate_headers(self, headers: Any, custom_headers: Any) -> None:
        if self.codec.key_header == "Authorization":
            super()._validate_headers(headers, custom_headers)

    def _prepared(self) -> tuple[httpx2.Request, str, CIMultiDict[str]]:
        """The request that openai would send, its address and its headers, as templates for all."""
        options = FinalRequestOptions.construct(method="post", url=self.codec.path, content=b"{}")
        request = self._build_request(options, retries_taken=0)
        own = ("content-length", "x-stainless-retry-count", "host", "connection", "accept-encoding")
        headers = CIMultiDict((name, value) for name, value in request.headers.items() if name.lower() not in own)
        headers["Content-Type"] = "application/json"
        self._template = (request, str(request.url), headers)
        return self._template

    @property
    def identity(self) -> dict[str, str]:
        """The headers that say who we are, for requests other than completions."""
        _, _, headers = self._template or self._prepared()
        return {name: value for name, value in headers.items() if name.lower() != "content-type"}

    async def complete(self, body: bytes, limit: int = MAX_ANSWER) -> bytes:
        """POST one chat-completion body; the answer's body, unparsed, without our secrets.

        Args:
            limit: bytes of the answer to read at most, see `answer_bytes`.

        Raises:
            openai.APIStatusError: any status but success. A redirection is not followed: most would turn the request
                into a GET, and the key would go to an address that nobody gave.
            openai.APITimeoutError, openai.APIConnectionError
            MalformedAnswer: longer than `limit`.
        """
        request, address, headers = self._template or self._prepared()
        sent = self.codec.encode(body)
        return self.codec.decode(await self._exchange(request, "POST", address, headers, sent, min(limit, MAX_ANSWER)))

    async def list_models(self) -> bytes:
        """GET the list of models, unparsed. Raises as `complete` does."""
        request, address, headers = self._template or self._prepared()
        return await self._exchange(
            request, "GET", address.replace(self.codec.path, "/models"), headers, None, min(MAX_LIST, MAX_ANSWER)
        )

    async def _exchange(
        self,
        request: httpx2.Request,
        method: str,
        address: str,
        headers: CIMultiDict[str],
        body: bytes | None,
        limit: int,
    ) -> bytes:
        """All that an endpoint ever says to us comes in here: bounded, and without what we sent it in confidence."""
        try:
            async with (
                _within(self._seconds),
                self._lean.opened.request(method, address, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                content = redacted_json(await _content(answer, limit))
        except TimeoutError as error:
            raise openai.APITimeoutError(request=request) from error
        except (aiohttp.ClientError, OSError) as error:
            raise openai.APIConnectionError(request=request) from error
        if answer.status < 300:
            return content
        told = [(redacted(name), redacted(value)) for name, value in answer.headers.items()]
        response = httpx2.Response(answer.status, headers=told, content=content, request=request)
        raise self._make_status_error_from_response(response)

    async def close(self) -> None:
        await self._lean.close()
        await super().close()


def answer_bytes(call: Call) -> int:
    """Bytes that the answer to a call may have, far more than a model writes of so many tokens."""
    return MAX_ANSWER if call.params.get("logprobs") else ANSWER_BYTES + TOKEN_BYTES * call.limit


async def _content(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, as long as it is not too long; what its header says is believed only of one that is not compressed."""
    size = answer.content_length
    if size is not None and size <= limit and "Content-Encoding" not in answer.headers:
        return await answer.read()
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > limit:
            answer.close()
            raise MalformedAnswer(f"a body of more than {limit / 1_000_000:.3g} MB")
    return bytes(content)


def said(body: bytes) -> str:
    """What an endpoint explains in the body of a refusal, on one line."""
    return " ".join(body[:300].decode("utf-8", "replace").split()) or "no explanation"


def redirection(error: openai.APIStatusError) -> str:
    """Where a redirection leads, as a whole address on one line."""
    target = error.response.headers.get("location", "")
    return " ".join(urljoin(str(error.request.url), target).split())[:300] if target else "nowhere"


def retry_after(error: openai.APIStatusError) -> float:
    """Seconds that the endpoint asks us to wait: `Retry-After` as seconds or a date, or `retry-after-ms`; 0 for what is no
    time."""
    headers = error.response.headers
    try:
        if "retry-after-ms" in headers:
            asked = float(headers["retry-after-ms"]) / 1000
        else:
            asked = _seconds(headers.get("retry-after", ""))
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, asked) if math.isfinite(asked) else 0.0


def _seconds(value: str) -> float:
    try:
        return float(value or 0)
    except ValueError:
        from email.utils import parsedate_to_datetime

        return parsedate_to_datetime(value).timestamp() - time.time()

"""The lean path through `openai.AsyncOpenAI`.

Building an httpx request and parsing an answer into pydantic models costs the stock client several times the CPU of the
exchange itself. Everything that shapes the request still comes from the openai client (address, authorisation,
organisation, default headers and query, error mapping); it is asked once and the result is the template of every later
request. Bodies go out as the bytes whose hash is the call's content address, come back as bytes that are stored
before anything reads them, and travel over one aiohttp session.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import httpx2
import openai
from openai._models import FinalRequestOptions

PATH = "/chat/completions"


class _FromTemplate(httpx2.Request):
    """A request that shares method, address and headers with an earlier one and has its own body."""

    def __init__(self, template: httpx2.Request, content: bytes) -> None:
        self.method = template.method
        self.url = template.url
        self.headers = template.headers
        self.extensions = template.extensions
        self._content = content


class _AiohttpClient(httpx2.AsyncClient):
    """An httpx client that sends through one aiohttp session, bodies as bytes."""

    def __init__(self, *, timeout: float) -> None:
        super().__init__()
        self._deadline = aiohttp.ClientTimeout(total=timeout, connect=min(timeout, 10.0))
        self._session: aiohttp.ClientSession | None = None
        self._address: tuple[httpx2.URL, str] | None = None

    def _open(self) -> aiohttp.ClientSession:
        # Made inside the loop that uses it. No limit here: the limiter decides what is in flight.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            timeout=self._deadline,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )
        return self._session

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        session = self._session or self._open()
        if self._address is None or self._address[0] is not request.url:
            self._address = (request.url, str(request.url))
        try:
            async with session.request(
                request.method, self._address[1], data=request.content or None, headers=request.headers
            ) as answer:
                content = await answer.read()
                # Only failures carry headers that anything looks at (Retry-After).
                headers = None if answer.status == 200 else list(answer.headers.items())
                return httpx2.Response(answer.status, headers=headers, content=content, request=request)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("no answer in time", request=request) from error
        except (aiohttp.ClientError, OSError) as error:
            raise httpx2.ConnectError(str(error) or type(error).__name__, request=request) from error

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        await super().aclose()


class LeanOpenAI(openai.AsyncOpenAI):
    """`AsyncOpenAI` with prepared requests. Use `complete`; retries are the caller's."""

    def __init__(self, *, base_url: str, api_key: str, timeout: float) -> None:
        super().__init__(
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=0,
            http_client=_AiohttpClient(timeout=timeout),  # type: ignore[arg-type]
        )
        self._template: httpx2.Request | None = None

    def _build_request(self, options: FinalRequestOptions, *, retries_taken: int = 0) -> httpx2.Request:
        if options.url != PATH:
            return super()._build_request(options, retries_taken=retries_taken)
        if self._template is None:
            self._template = super()._build_request(options, retries_taken=0)
            for per_request in ("content-length", "x-stainless-retry-count"):
                self._template.headers.pop(per_request, None)
        return _FromTemplate(self._template, options.content)  # type: ignore[arg-type]

    async def complete(self, body: bytes) -> bytes:
        """POST one chat-completion body; the answer's body, unparsed.

        Raises:
            openai.APIStatusError, openai.APITimeoutError, openai.APIConnectionError
        """
        response = await self.post(PATH, content=body, cast_to=httpx2.Response)
        return response.content

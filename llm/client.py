"""The one way to a model: cached, budgeted, limited, retried, counted."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import openai
import orjson

from llm.cache import REFUSALS, Cache, Entry
from llm.call import Answer, Call, MalformedAnswer, Message, Note, Usage, read_usage
from llm.circuit import Circuit
from llm.errors import CallFailed, CallRefused, EndpointRejects
from llm.limiter import AdaptiveLimiter
from llm.models import Models, Role
from llm.stats import RoleStats
from llm.transport import LeanOpenAI

REJECTIONS = frozenset({401, 403, 404, 405})
"""We are at fault (key, model, address): every request will be refused."""
CONGESTION = frozenset({429, 503})


@dataclass
class Endpoint:
    """A server and what we know of its state; roles that speak to the same server share one."""

    client: LeanOpenAI
    limiter: AdaptiveLimiter
    circuit: Circuit
    name: str


@dataclass
class Player:
    """A role, resolved: where its model answers and under which name."""

    endpoint: Endpoint
    model: str
    role: Role
    stats: RoleStats = field(default_factory=RoleStats)
    length_key: str = "max_tokens"
    """Wire name of the answer-length limit (`max_completion_tokens` at api.openai.com)."""


@dataclass
class _Bill:
    """Tokens billed for answers that could not be used."""

    tokens: int = 0


class Client:
    """Makes calls for one process, on one event loop. `ask` is what rollouts are given."""

    def __init__(self, models: Models, players: dict[str, Player], cache: Cache) -> None:
        self.models = models
        self.players = players
        self.cache = cache
        self._asking: dict[str, asyncio.Future[Answer]] = {}

    @property
    def in_flight(self) -> int:
        return sum(e.limiter.in_flight for e in {id(p.endpoint): p.endpoint for p in self.players.values()}.values())

    def call(
        self,
        messages: list[Message],
        *,
        to: str = "writer",
        schema: dict[str, Any] | None = None,
        tools: list[dict[str, Any]] | None = None,
        attempt: int = 0,
        **params: Any,
    ) -> Call:
        """The call that `ask` would make with the same arguments."""
        player = self.players[to]
        merged = {**params, **player.role.params}
        if player.length_key != "max_tokens" and "max_tokens" in merged:
            merged[player.length_key] = merged.pop("max_tokens")
        merged = {name: value for name, value in merged.items() if value is not None}
        return Call(player.model, tuple(messages), merged, schema, tuple(tools) if tools else None, attempt)

    async def ask(self, messages: list[Message], *, to: str = "writer", **kwargs: Any) -> Answer:
        """One model call, paid for once. See `llm.call.Ask`.

        Raises:
            CallRefused: the endpoint will never answer this request, now or in an earlier run.
            CallFailed: it answered others but not this one, after `Models.tries` requests.
            RunStopped: budget spent, endpoint down or rejecting us, cache broken.
        """
        player = self.players[to]
        call = self.call(messages, to=to, **kwargs)
        running = self._asking.get(call.address)
        if running is None:
            entry = await self.cache.get(call.address, refusals=not self.models.retry_refused)
            if entry is not None:
                answer = _read(entry, player, self._note(call, entry.note))
                if answer is not None:
                    return answer
            running = self._asking.get(call.address)
        if running is not None:  # the same request from another row: wait for the one answer
            answer = await asyncio.shield(running)
            player.stats.cached += 1
            return answer
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asking[call.address] = future
        try:
            answer = await self._pay(call, player)
            future.set_result(answer)
            return answer
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                future.cancel()
            else:
                future.set_exception(error)
                future.exception()  # mark as seen: most calls have no second asker
            raise
        finally:
            del self._asking[call.address]

    async def _pay(self, call: Call, player: Player) -> Answer:
        reservation = await self.cache.reserve(upper_bound(call))
        bill = _Bill()
        try:
            raw, answer = await self._request(call, player, bill)
        except CallRefused as error:
            player.stats.refused += 1
            await self.cache.put(
                call.address, Entry(error.status, error.body), reservation=reservation, tokens=bill.tokens
            )
            raise
        except BaseException:
            await self.cache.release(reservation, tokens=bill.tokens)
            raise
        player.stats.paid += 1
        _count(player.stats, answer.usage)
        stored = await self.cache.put(
            call.address, Entry(200, raw), reservation=reservation, tokens=bill.tokens + answer.usage.total
        )
        # Another process may have paid for the same call first; everyone then uses its answer.
        return (
            answer
            if stored.body == raw
            else Answer.parse(stored.body, from_cache=True, note=self._note(call, stored.note))
        )

    def _note(self, call: Call, value: bytes = b"") -> Note:
        return Note(value, partial(self.cache.note, call.address))

    async def _request(self, call: Call, player: Player, bill: _Bill) -> tuple[bytes, Answer]:
        """Requests until one is answered well; malformed answers on the way are added to the bill."""
        endpoint, failures = player.endpoint, 0
        while True:
            if await endpoint.circuit.passage():
                await self._probe(player, bill)
                continue
            epoch = await endpoint.limiter.acquire()
            congested, retry_after = False, 0.0
            try:
                raw = await endpoint.client.complete(call.body)
                endpoint.circuit.succeeded()
                return raw, Answer.parse(raw, note=self._note(call))
            except MalformedAnswer as error:
                _waste(raw, player.stats, bill)
                problem = f"malformed answer: {error}"
                failures += 1
            except openai.APIStatusError as error:
                status = error.status_code
                if status in REFUSALS:
                    endpoint.circuit.succeeded()
                    raise CallRefused(status, error.response.content) from None
                if status in REJECTIONS or (status == 429 and b"insufficient_quota" in error.response.content):
                    raise EndpointRejects(
                        f"{endpoint.name} rejects us with HTTP {status}: {_said(error.response.content)}; "
                        "check the model name, the address, the key and what is left on the account"
                    ) from None
                problem = f"HTTP {status}"
                retry_after = _retry_after(error)
                if status in CONGESTION:
                    congested = True
                    player.stats.congested += 1
                    endpoint.circuit.congested(problem)
                else:
                    failures += 1
                    endpoint.circuit.failed(problem)
            except (openai.APITimeoutError, openai.APIConnectionError) as error:
                problem = self._missed(error)
                failures += 1
                endpoint.circuit.failed(problem)
            finally:
                endpoint.limiter.release(epoch, congested=congested, retry_after=retry_after)
            if failures >= self.models.tries:
                raise CallFailed(f"given up after {failures} failed requests, the last: {problem}")
            player.stats.retries += 1
            await asyncio.sleep(_backoff(failures, retry_after))

    async def _probe(self, player: Player, bill: _Bill) -> None:
        """Find out whether the endpoint answers at all, with the smallest request there is."""
        circuit = player.endpoint.circuit
        ping = Call(player.model, ({"role": "user", "content": "ping"},), {player.length_key: 1})
        problem = "the probe was cancelled"
        try:
            raw = await player.endpoint.client.complete(ping.body)
            problem = ""
            _waste(raw, player.stats, bill)
        except openai.APIStatusError as error:
            status = error.status_code
            problem = f"HTTP {status}" if status >= 500 or status in CONGESTION else ""
            if status in CONGESTION:  # sent away, but by a server that is there
                circuit.congested(problem)
        except (openai.APITimeoutError, openai.APIConnectionError) as error:
            problem = self._missed(error)
        finally:
            circuit.probed(problem)

    def _missed(self, error: openai.APIConnectionError) -> str:
        if isinstance(error, openai.APITimeoutError):
            return f"no answer in {self.models.timeout:g} s"
        return f"no connection: {error.__cause__}"


def upper_bound(call: Call) -> int:
    """Tokens that a call may be billed for at most: half its bytes (no common tokenizer does worse on real text) and
    the answer's limit."""
    limit = call.params.get("max_tokens") or call.params.get("max_completion_tokens") or 4096
    return len(call.body) // 2 + 64 + int(limit)


def _read(entry: Entry, player: Player, note: Note) -> Answer | None:
    """An answer from the cache; None when it must be asked again."""
    if entry.status != 200:
        player.stats.refused += 1
        raise CallRefused(entry.status, entry.body)
    try:
        answer = Answer.parse(entry.body, from_cache=True, note=note)
    except MalformedAnswer:
        return None
    player.stats.cached += 1
    return answer


def _count(stats: RoleStats, usage: Usage) -> None:
    stats.prompt_tokens += usage.prompt
    stats.completion_tokens += usage.completion
    stats.cached_tokens += usage.cached


def _waste(raw: bytes, stats: RoleStats, bill: _Bill) -> None:
    """Count what an answer that is of no use says it cost."""
    try:
        body = orjson.loads(raw)
        usage, total = read_usage(body), int(body["usage"].get("total_tokens") or 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    # A total without its parts is counted as the dearer part.
    usage = Usage(usage.prompt, max(usage.completion, total - usage.prompt), usage.cached)
    _count(stats, usage)
    stats.wasted_tokens += usage.total
    bill.tokens += usage.total


def _said(body: bytes) -> str:
    return " ".join(body[:300].decode("utf-8", "replace").split()) or "no explanation"


def _retry_after(error: openai.APIStatusError) -> float:
    """Seconds that the endpoint asks us to wait: `Retry-After` as seconds or a date, or `retry-after-ms`."""
    headers = error.response.headers
    try:
        if "retry-after-ms" in headers:
            return float(headers["retry-after-ms"]) / 1000
        value = headers.get("retry-after", "")
        if not value:
            return 0.0
        try:
            return max(0.0, float(value))
        except ValueError:
            from email.utils import parsedate_to_datetime

            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0


def _backoff(failures: int, retry_after: float) -> float:
    """Jittered exponential pause, never shorter than what the endpoint asked for (up to five minutes)."""
    pause = min(20.0, 0.25 * 2.0 ** min(failures, 10))
    return min(retry_after, 300.0) + pause * (0.5 + random.random() / 2)

"""The one way to a model: cached, budgeted, limited, retried, counted."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import openai
import orjson
from tokenmill.inference.batch.spool import Spool
from tokenmill.inference.cache.base import REFUSALS, Cache, Entry
from tokenmill.inference.call import Answer, Call, MalformedAnswer, Message, Usage, read_usage, tokens
from tokenmill.inference.circuit import Circuit
from tokenmill.inference.errors import CallFailed, CallRefused, EndpointRejects, RunStopped
from tokenmill.inference.limiter import AdaptiveLimiter
from tokenmill.inference.recording import RecordedPlayer, Recorder, request_address
from tokenmill.inference.roles import Models, Role
from tokenmill.inference.stats import RoleStats
from tokenmill.inference.transport import LeanOpenAI, answer_bytes, redirection, retry_after, said

REJECTIONS = frozenset({401, 402, 405})
"""We are at fault (key, address, account): every request will be refused."""
DOUBTFUL = frozenset({403, 404})
"""Either we are at fault (key, model), or the endpoint's moderation or router will not have this one request."""
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
    thinking: int = 0
    """Tokens that an answer may take beyond its limit, for what the model thinks before it."""
    spool: Spool | None = None
    """Where the role's calls are filed instead of being made."""
    offline: bool = False
    """Whether no server answers: its batches are worked off by a program."""


@dataclass
class _Bill:
    """Tokens billed for answers that could not be used."""

    tokens: int = 0


class Client:
    """Makes calls for one process, on one event loop. `ask` is what rollouts are given."""

    def __init__(
        self,
        models: Models,
        players: dict[str, Player],
        cache: Cache,
        *,
        recorded: Mapping[str, RecordedPlayer] | None = None,
        recorder: Recorder | None = None,
        gate: AdaptiveLimiter | None = None,
    ) -> None:
        """
        Args:
            gate: this process's share of the calls that all workers may have in flight together; None for no such limit.
            players: roles that a model plays.
            recorded: roles whose answers come from a recording.
            recorder: where all answers are written down.
        """
        self.models = models
        self.players = players
        self.cache = cache
        self.recorded = dict(recorded or {})
        self.recorder = recorder
        self.gate = gate
        self._asking: dict[str, asyncio.Future[Answer]] = {}
        self._stopped: RunStopped | None = None

    @property
    def endpoints(self) -> list[Endpoint]:
        return list({id(p.endpoint): p.endpoint for p in self.players.values()}.values())

    def stats(self) -> dict[str, RoleStats]:
        """What the calls came to so far, by role."""
        played = {name: player.stats for name, player in self.players.items()}
        return played | {name: player.stats for name, player in self.recorded.items()}

    @property
    def in_flight(self) -> int:
        return sum(endpoint.limiter.in_flight for endpoint in self.endpoints)

    def stop(self, why: RunStopped) -> None:
        """Begin no call any more: who asks is told why. The first reason stands."""
        self._stopped = self._stopped or why
        if self.gate is not None:
            self.gate.resize(sys.maxsize)  # nobody who waits there begins a call

    async def retire(self, seconds: float) -> None:
        """Begin no call any more; store the answers that arrive within `seconds`, which are paid for.

        Raises:
            CacheBroken: they could not be stored.
        """
        self.stop(RunStopped("this worker ends"))
        end = time.monotonic() + seconds
        while self.in_flight and time.monotonic() < end:
            await asyncio.sleep(0.01)
        await self.cache.close()

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
        if to in self.recorded:
            return Call(
                self.recorded[to].model, tuple(messages), params, schema, tuple(tools) if tools else None, attempt
            )
        player = self.players[to]
        merged = {**params, **player.role.params}
        if player.thinking and merged.get("max_tokens"):
            merged["max_tokens"] += player.thinking
        if player.length_key != "max_tokens" and "max_tokens" in merged:
            merged[player.length_key] = merged.pop("max_tokens")
        merged = {name: value for name, value in merged.items() if value is not None}
        return Call(player.model, tuple(messages), merged, schema, tuple(tools) if tools else None, attempt)

    async def ask(self, messages: list[Message], *, to: str = "writer", **kwargs: Any) -> Answer:
        """One model call, paid for once. See `inference.call.Ask`.

        Raises:
            CallRefused: the endpoint will never answer this request, now or in an earlier run.
            CallFailed: it answered others but not this one, after `Models.tries` requests.
            Waiting: the answer is to come in a batch; the call is filed.
            RunStopped: budget spent, endpoint down or rejecting us, cache broken, a request that was not recorded.
        """
        if to in self.recorded:
            return self._replay(messages, to, **kwargs)
        if self.recorder is None:
            return await self._ask(messages, to=to, **kwargs)
        address, model = request_address(messages=messages, **kwargs), self.players[to].model
        try:
            answer = await self._ask(messages, to=to, **kwargs)
        except CallRefused as error:
            self.recorder.turned_down(to, address, model, error)
            raise
        except CallFailed as error:
            self.recorder.given_up(to, address, model, error)
            raise
        self.recorder.answered(to, address, model, answer)
        return answer

    def _replay(self, messages: list[Message], to: str, **kwargs: Any) -> Answer:
        player, address = self.recorded[to], request_address(messages=messages, **kwargs)
        return player.answer(to, address, self.call(messages, to=to, **kwargs))

    async def _ask(self, messages: list[Message], *, to: str, **kwargs: Any) -> Answer:
        player = self.players[to]
        call = self.call(messages, to=to, **kwargs)
        running = self._asking.get(call.address)
        if running is None:
            entry = await self.cache.get(call.address, refusals=not self.models.retry_refused)
            if entry is not None:
                answer = _read(entry, player, call)
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
            if player.spool is not None:
                raise player.spool.file(call, to, upper_bound(call))
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
        player.stats.estimated += answer.estimated
        _count(player.stats, answer.usage)
        stored = await self.cache.put(
            call.address, Entry(200, raw), reservation=reservation, tokens=bill.tokens + answer.usage.total
        )
        # Another process may have paid for the same call first; everyone then uses its answer.
        return answer if stored.body == raw else Answer.parse(stored.body, call=call, from_cache=True)

    async def _request(self, call: Call, player: Player, bill: _Bill) -> tuple[bytes, Answer]:
        """Requests until one is answered well; malformed answers on the way are added to the bill."""
        endpoint, failures = player.endpoint, 0
        while True:
            if await endpoint.circuit.passage():
                await self._probe(player, bill)
                continue
            epoch = await endpoint.limiter.acquire()
            congested, pause, raw, entered = False, 0.0, b"", None
            try:
                if self.gate is not None:
                    entered = await self.gate.acquire()
                if self._stopped is not None:
                    raise self._stopped
                raw = await endpoint.client.complete(call.body, answer_bytes(call))
                endpoint.circuit.succeeded()
                return raw, Answer.parse(raw, call=call)
            except MalformedAnswer as error:
                endpoint.circuit.succeeded()
                _waste(raw, player.stats, bill)
                problem = f"malformed answer: {error}"
                failures += 1
            except openai.APIStatusError as error:
                status, body = error.status_code, error.response.content
                problem = f"HTTP {status}"
                if status in DOUBTFUL:
                    ping = await self._ping(player, bill)
                    answers = isinstance(ping, int) and (ping == 200 or ping in REFUSALS - DOUBTFUL)
                    if ping in REJECTIONS | DOUBTFUL or not (answers or ping in CONGESTION or player.stats.paid):
                        raise _rejected(endpoint, error) from None
                    if ping in CONGESTION:
                        status = ping
                if status in REFUSALS:
                    endpoint.circuit.succeeded()
                    raise CallRefused(status, body) from None
                if status in REJECTIONS or status < 400 or (status == 429 and b"insufficient_quota" in body):
                    raise _rejected(endpoint, error) from None
                pause = min(retry_after(error), self.models.patience)
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
                if self.gate is not None and entered is not None:
                    self.gate.release(entered)
                endpoint.limiter.release(epoch, congested=congested, retry_after=pause)
            if failures >= self.models.tries:
                raise CallFailed(f"given up after {failures} failed requests, the last: {problem}")
            player.stats.retries += 1
            await asyncio.sleep(_backoff(failures, pause))

    async def _probe(self, player: Player, bill: _Bill) -> None:
        """Find out whether the endpoint answers at all."""
        circuit = player.endpoint.circuit
        problem = "the probe was cancelled"
        try:
            ping = await self._ping(player, bill)
            problem = ping if isinstance(ping, str) else f"HTTP {ping}" if ping >= 500 or ping in CONGESTION else ""
            if ping in CONGESTION:  # sent away, but by a server that is there
                circuit.congested(problem)
        finally:
            circuit.probed(problem)

    async def _ping(self, player: Player, bill: _Bill) -> int | str:
        """HTTP status of the answer to the smallest request there is, or why none came."""
        ping = Call(player.model, ({"role": "user", "content": "ping"},), {player.length_key: 1})
        try:
            _waste(await player.endpoint.client.complete(ping.body, answer_bytes(ping)), player.stats, bill)
        except MalformedAnswer:
            pass
        except openai.APIStatusError as error:
            return error.status_code
        except (openai.APITimeoutError, openai.APIConnectionError) as error:
            return self._missed(error)
        return 200

    def _missed(self, error: openai.APIConnectionError) -> str:
        if isinstance(error, openai.APITimeoutError):
            return f"no answer in {self.models.timeout:g} s"
        return f"no connection: {' '.join(str(error.__cause__).split())[:200]}"


def upper_bound(call: Call) -> int:
    """Tokens that a call may be billed for at most: half its bytes (no common tokenizer does worse on real text) and
    the answer's limit."""
    return len(call.body) // 2 + 64 + call.limit


def _read(entry: Entry, player: Player, call: Call) -> Answer | None:
    """An answer from the cache; None when it must be asked again."""
    if entry.status != 200:
        player.stats.refused += 1
        raise CallRefused(entry.status, entry.body)
    try:
        answer = Answer.parse(entry.body, call=call, from_cache=True)
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
        usage, total = read_usage(body), tokens(body["usage"].get("total_tokens"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    # A total without its parts is counted as the dearer part.
    usage = Usage(usage.prompt, max(usage.completion, total - usage.prompt), usage.cached)
    _count(stats, usage)
    stats.wasted_tokens += usage.total
    bill.tokens += usage.total


def _rejected(endpoint: Endpoint, error: openai.APIStatusError) -> EndpointRejects:
    """What stops the run when an endpoint refuses us as such."""
    if error.status_code < 400:
        return EndpointRejects(
            f"{endpoint.name} redirects to {redirection(error)}; give the address that answers itself"
        )
    return EndpointRejects(
        f"{endpoint.name} rejects us with HTTP {error.status_code}: {said(error.response.content)}; "
        "check the model name, the address, the key and what is left on the account"
    )


def _backoff(failures: int, asked: float) -> float:
    """Jittered exponential pause, never shorter than what the endpoint asked for (up to five minutes)."""
    pause = min(20.0, 0.25 * 2.0 ** min(failures, 10))
    return min(asked, 300.0) + pause * (0.5 + random.random() / 2)

"""What a worker process keeps for all its rollouts: an event loop on a thread, the client, the cache, the servers' leases.

One runtime exists per process and `Models`; Beam may create many DoFn instances, on several threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tokenmill.inference import ending, fleet, redaction
from tokenmill.inference.cache.open import open_cache
from tokenmill.inference.errors import CacheBroken, RunStopped
from tokenmill.inference.identity import installed
from tokenmill.inference.providers import room_to_think
from tokenmill.inference.roles import Models
from tokenmill.inference.secrets import REDIS_PASSWORD, secret
from tokenmill.inference.servers.acquire import Lease, acquire
from tokenmill.inference.spec import parse_spec
from tokenmill.inference.stats import RoleStats

if TYPE_CHECKING:
    from tokenmill.inference.cache.redis import RedisCache
    from tokenmill.inference.client import Client, Endpoint, Player

LEASE = 6.0
"""Seconds for which a driver leads a run on other machines without a sign of life."""
DETACHED = 30 * 86_400.0
"""Seconds in which a run that nobody waits for must be done."""
LOOK = 1.0
"""Seconds between its signs of life, and between the looks of workers for them."""
UNLED = 5
"""Looks in a row after which a run that nobody leads is over: Redis may have been restarted in between."""
GRACE = 5.0
"""Seconds that a worker which ends waits for the answers to calls in flight: they are paid for."""

OFFLINE = "http://run-batch.invalid/v1"
"""Stands for the address of a model that is asked by no server at all."""

_runtimes: dict[str, Runtime] = {}
_lock = threading.Lock()


def connect(models: Models, leases: list[Lease], *, cache: Any) -> Client:
    """A client whose roles are resolved; leases of the servers it speaks to are appended to `leases`."""
    # The openai library takes longer to import than all else.
    from tokenmill.inference.batch.spool import Spool
    from tokenmill.inference.circuit import Circuit
    from tokenmill.inference.client import Client, Endpoint, Player
    from tokenmill.inference.limiter import AdaptiveLimiter
    from tokenmill.inference.recording import RecordedPlayer, Recorder, Recording
    from tokenmill.inference.transport import LeanOpenAI
    from tokenmill.inference.wire import codec_of

    urls = [models.cache] if "://" in models.cache else []  # a file's path is no secret
    keys = [parse_spec(role.spec).api_key() for role in models.roles.values()]
    redaction.learn(*urls, *keys, *[secret(REDIS_PASSWORD) for _ in urls])
    recordings: dict[str, Recording] = {}
    recorded: dict[str, RecordedPlayer] = {}
    endpoints: dict[str, Endpoint] = {}
    players: dict[str, Player] = {}
    for name, role in models.roles.items():
        spec = parse_spec(role.spec)
        if spec.kind == "recorded":
            assert spec.path is not None
            recording = recordings[spec.path] = recordings.get(spec.path) or Recording(spec.path)
            recorded[name] = RecordedPlayer(recording, spec.model, role)
            continue
        filing = bool(models.filing) and spec.batch
        offline = filing and spec.managed
        lease = Lease(OFFLINE, spec.model) if offline else acquire(spec)
        leases.append(lease)
        # Two keys at one address are two accounts.
        account = f"{lease.base_url} {spec.option('key') or ''}".strip() if not spec.managed else lease.base_url
        codec = codec_of(spec.provider)
        if account not in endpoints:
            endpoints[account] = Endpoint(
                LeanOpenAI(
                    base_url=lease.base_url, api_key=spec.api_key() or "none", timeout=models.timeout, codec=codec
                ),
                AdaptiveLimiter(min(models.max_concurrency, lease.parallel or models.max_concurrency)),
                Circuit(lease.base_url, models.patience, lease.problem),
                lease.base_url,
            )
        hosted = "api.openai.com" in lease.base_url
        players[name] = Player(
            endpoints[account],
            lease.model,
            role,
            length_key="max_completion_tokens" if hosted else "max_tokens",
            thinking=room_to_think(spec.model, spec.maker, role.params),
            spool=Spool(models.filing, codec.encode) if filing else None,
            offline=offline,
        )
    recorder = Recorder(models.state) if models.record else None
    gate = None
    if models.max_concurrency_total:
        gate = AdaptiveLimiter(1)
        gate.resize(0)  # until the others have made room
    return Client(models, players, cache, recorded=recorded, recorder=recorder, gate=gate)


class Runtime:
    """An event loop on a thread of its own, and the client that lives there."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self.loop = _new_loop()
        self.users = 0
        self._leases: list[Lease] = []
        self._reported: dict[str, RoleStats] = {}
        self._gauge = threading.Lock()
        self._tally: dict[str, int] = {}
        self._reasons: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._leads = False
        self._unled = 0
        self._look = 0.0
        self._told: fleet.Told | None = None
        self._sharing: Future[None] | None = None
        self._thread = threading.Thread(target=self.loop.run_forever, name="tokenmill-runtime", daemon=True)
        self._thread.start()
        try:
            self.client: Client = self.run(self._connect())
        except BaseException:
            self._stop()
            raise
        self._live = self.submit(self._report())
        if self.client.gate is not None:
            self._sharing = self.submit(fleet.share(self.client, self._shared, models.max_concurrency_total))

    async def _connect(self) -> Client:
        if self.models.code and self.models.code != (here := installed()):
            raise RunStopped(
                f"this worker runs another Tokenmill ({here}) than the command ({self.models.code}): install the same version, "
                "with the same libraries, in the workers' image"
            )
        cache = open_cache(self.models.cache, run=self.models.run, budget=self.models.budget)
        # Starting a server may take minutes; nothing else runs on this loop yet.
        return connect(self.models, self._leases, cache=cache)

    def lead(self, *, for_good: bool = False) -> None:
        """Lead the run from this process, as its driver: other commands' workers for the same run stop, and ours stop when
        this process no longer shows that it lives; or, for good, when another command leads.

        Raises:
            CacheBroken: Redis cannot be reached.
        """
        self.run(self._shared.lead(self.models.attempt, DETACHED if for_good else LEASE, take=True))
        if for_good:
            return
        self._leads = True
        if self.models.state:
            self._told = fleet.Told(self._shared, self.models.attempt, Path(self.models.state))

    def leave(self) -> None:
        """The run is over: workers that are still there stop."""
        if self._leads:
            self._leads = False
            with contextlib.suppress(CacheBroken):
                self.run(self._shared.leave(self.models.attempt))

    def heed(self) -> None:
        """As the driver: see what workers on other machines have told, to the last."""
        if self._told is not None:
            with contextlib.suppress(CacheBroken):
                self.run(self._told.fetch())

    @property
    def _shared(self) -> RedisCache:
        from tokenmill.inference.cache.redis import RedisCache

        assert isinstance(self.client.cache, RedisCache)  # what workers on other machines share
        return self.client.cache

    async def _follow(self) -> None:
        """Show that the driver lives, or see whether it does."""
        with contextlib.suppress(CacheBroken):  # the next call says so
            if self._leads:
                ours = await self._shared.lead(self.models.attempt, LEASE)
                if self._told is not None:
                    await self._told.fetch()
            else:
                await self._shared.tell(self.models.attempt, orjson.dumps(self._figures(0)))
                leader = await self._shared.leader()
                self._unled = 0 if leader else self._unled + 1
                ours = leader == self.models.attempt or (not leader and self._unled < UNLED)
            if not ours:
                self.client.stop(RunStopped("another command has taken over this run, or the one that led it is gone"))

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop and wait for its result."""
        return self.submit(coroutine).result()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def start(self, coroutines: list[Coroutine[Any, Any, None]]) -> None:
        """Start coroutines that tell their outcome themselves; lighter than `submit`."""
        self.loop.call_soon_threadsafe(self._spawn, coroutines)

    def _spawn(self, coroutines: list[Coroutine[Any, Any, None]]) -> None:
        for coroutine in coroutines:
            task = self.loop.create_task(coroutine)
            self._tasks.add(task)  # the loop itself holds tasks only weakly
            task.add_done_callback(self._tasks.discard)

    def stats(self) -> dict[str, RoleStats]:
        """Counters by role, up to now."""
        return {name: stats.plus(RoleStats()) for name, stats in self.client.stats().items()}

    def unreported(self) -> dict[str, RoleStats]:
        """What the counters have grown by since the last time anyone in this process asked."""
        with self._gauge:
            now = self.stats()
            grown = {name: stats.minus(self._reported.get(name, RoleStats())) for name, stats in now.items()}
            self._reported = now
            return grown

    def tally(self, outcome: str, reason: str = "") -> None:
        """Count a finished rollout for the live figures."""
        with self._gauge:
            if reason:
                self._reasons[reason] = self._reasons.get(reason, 0) + 1
            self._tally[outcome] = self._tally.get(outcome, 0) + 1

    def stopped(self, error: RunStopped) -> None:
        """Leave word for the driver of why the run ends; the first reason stands."""
        why = orjson.dumps([type(error).__name__, str(error)])
        if self.models.attempt:
            with contextlib.suppress(CacheBroken):
                self.run(self._shared.say_stopped(self.models.attempt, why))
        if self.models.state:
            with contextlib.suppress(OSError), Path(self.models.state, fleet.STOPPED).open("xb") as file:
                file.write(why)

    async def _report(self) -> None:
        """Write live figures for the driver to read, and end with it."""
        path = Path(self.models.state, f"{os.getpid()}.json") if self.models.state else None
        while True:
            if self.models.worker_of and not _alive(self.models.worker_of):
                try:
                    await self.client.retire(GRACE)
                finally:
                    os._exit(1)
            if self.models.attempt and time.monotonic() >= self._look:
                self._look = time.monotonic() + LOOK
                await self._follow()
            if path is not None:
                with contextlib.suppress(OSError):  # figures only; the run does not depend on them
                    part = path.with_suffix(".part")
                    part.write_bytes(orjson.dumps(self._figures(time.time())))
                    part.replace(path)
            await asyncio.sleep(0.5)

    def _figures(self, now: float) -> dict[str, Any]:
        """What this process has done so far, for `pipelines.runs.progress`."""
        return {
            "time": now,
            "in_flight": self.client.in_flight,
            "rows": dict(self._tally),
            "reasons": dict(self._reasons),
            "roles": {name: stats.as_dict() for name, stats in self.stats().items()},
        }

    async def _disconnect(self) -> None:
        self._live.cancel()
        await self.client.retire(GRACE)
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)
        await ending.end()
        for endpoint in self.client.endpoints:
            await endpoint.client.close()
        if self.client.recorder is not None:
            self.client.recorder.close()
        await asyncio.sleep(0)  # transports close their descriptors in the loop's next turn

    def _stop(self) -> None:
        for lease in self._leases:
            lease.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=10)
        if not self._thread.is_alive():
            self.loop.close()  # or its descriptors would stay open as long as the process

    def close(self) -> None:
        try:
            self.run(self._disconnect())
        finally:
            self._stop()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def retire() -> None:
    """Before this process ends with rollouts running: begin no call any more, store the answers of those in flight."""
    with _lock:
        runtimes = list(_runtimes.values())
    for waiting in [runtime.submit(runtime.client.retire(GRACE)) for runtime in runtimes]:
        with contextlib.suppress(Exception):  # there is nobody left to tell
            waiting.result(GRACE + 5.0)


def obtain(models: Models) -> Runtime:
    """The process's runtime for these models, started by whoever asks first. Pair with `release`.

    Raises:
        RunStopped, ServerFailed, ...: a server cannot be started or the cache cannot be opened.
    """
    key = repr(models)
    with _lock:
        runtime = _runtimes.get(key)
        if runtime is None:
            runtime = _runtimes[key] = Runtime(models)
        runtime.users += 1
        return runtime


def release(runtime: Runtime) -> None:
    """Give the runtime back; the last user closes it."""
    with _lock:
        runtime.users -= 1
        if runtime.users:
            return
        _runtimes.pop(repr(runtime.models), None)
    runtime.close()

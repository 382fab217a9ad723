"""What caches have in common: gather concurrent writes, commit them together, keep the ledger.

Puts, releases and requests for budget that arrive while a commit is under way, or within one short window, form a
`Batch`, and the store commits it in one transaction. A store implements `_commit`, `_load`, `_spent` and `_disconnect`.

Each open cache is one *owner* in the ledger. Only the sum of an owner's reservations is in the store; the single
reservations live here, because only the process that made one can settle it. An owner that is dead no longer counts:
what its calls cost, if the endpoint billed them, is known to nobody and is not in the ledger.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import uuid
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tokenmill.inference.cache.base import Codec, Entry
from tokenmill.inference.errors import BudgetSpent, CacheBroken

HEARTBEAT = 15.0
"""Seconds between the signs of life of an owner that holds reservations."""

OWNER_TTL = 60.0
"""Seconds without a sign of life after which an owner's reservations no longer count."""


@dataclass
class Batch:
    """What one transaction carries."""

    puts: list[tuple[str, Entry]]
    billed: int
    """Tokens to add to the run's spending."""
    held: int
    """Tokens that this owner still has reserved once this batch's settlements are through."""
    asks: list[int]
    """Reservations asked for, in order of arrival."""


Ask = tuple[int, "asyncio.Future[str]"]
"""Tokens wanted, and where to deliver the reservation."""


@dataclass
class Outcome:
    """What the store answers to a batch."""

    stored: list[Entry]
    """For each put the entry that the store now holds."""
    spent: int = 0
    """Tokens the run has spent, this batch included."""
    granted: list[bool] = field(default_factory=list)
    """For each ask whether it was reserved."""


def admit(asks: list[int], taken: int, budget: int) -> list[bool]:
    """Which of `asks` fit into `budget` on top of `taken` tokens, first come first served; a small one may overtake."""
    granted = []
    for tokens in asks:
        fits = taken + tokens <= budget
        taken += tokens if fits else 0
        granted.append(fits)
    return granted


class BatchedCache(ABC):
    """A `inference.cache.base.Cache` that commits in batches. Pickles as its configuration; connects on first use."""

    window = 0.0
    """Seconds to gather writes before a commit; 0 gathers what one turn of the event loop brings."""
    poll = 0.05
    """Seconds between looks whether other processes have freed budget that a call here waits for."""

    def __init__(self, location: str, run: str, budget: int | None) -> None:
        self.location, self.run, self.budget = location, run, budget
        self._reset()

    def __reduce__(self) -> tuple[type[BatchedCache], tuple[str, str, int | None]]:
        return type(self), (self.location, self.run, self.budget)

    def _reset(self) -> None:
        self._codec = Codec()
        self._owner = uuid.uuid4().hex
        self._pid = os.getpid()
        self._serial = itertools.count(1)
        self._held: dict[str, int] = {}
        self._recorded = 0  # tokens reserved by this owner, as the store has it
        self._billed = 0
        self._puts: list[tuple[str, Entry, asyncio.Future[Entry]]] = []
        self._settled: list[asyncio.Future[None]] = []
        self._asks: deque[Ask] = deque()
        self._flusher: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    # What callers use

    async def get(self, address: str, *, refusals: bool = True) -> Entry | None:
        entry = await self._load(address)
        return entry if refusals or entry is None or entry.status == 200 else None

    async def put(self, address: str, entry: Entry, *, reservation: str | None = None, tokens: int = 0) -> Entry:
        future: asyncio.Future[Entry] = self._begin()
        self._settle(reservation, tokens)
        self._puts.append((address, entry, future))
        return await future

    async def release(self, reservation: str | None, tokens: int = 0) -> None:
        if reservation is None and not tokens:
            return
        self._begin()
        await self._settle_alone(reservation, tokens)

    async def reserve(self, tokens: int) -> str | None:
        if self.budget is None:
            return None
        if tokens < 0:
            raise ValueError(f"tokens: a reservation cannot be negative ({tokens})")
        future: asyncio.Future[str] = self._begin()
        self._asks.append((tokens, future))
        try:
            return await future
        except asyncio.CancelledError:
            # Granted in the very moment in which the caller gave up: nobody else knows of it.
            if future.done() and not future.cancelled() and future.exception() is None:
                self._settle_alone(future.result(), 0)
                self._kick()
            raise

    async def spent(self) -> int:
        return await self._spent() + self._billed

    async def close(self) -> None:
        if self._flusher and not self._flusher.done() and self._flusher.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._flusher])
        if self._alarm:
            self._alarm.cancel()
        fail([future for _, future in self._asks], CacheBroken("the cache was closed while a call waited for budget"))
        self._asks.clear()
        self._held.clear()
        unwritten = bool(self._puts or self._billed)
        try:
            if unwritten or self._settled or self._recorded:
                await self._flush()
        except CacheBroken:
            # Otherwise there is nothing to lose: a dead owner's reservations lapse.
            if unwritten:
                raise
        finally:
            await self._disconnect()
            self._reset()

    # What a store implements

    @abstractmethod
    def check(self) -> None:
        """Raise `CacheBroken` if the store is unusable. Blocks; leaves nothing open."""

    @abstractmethod
    async def _load(self, address: str) -> Entry | None:
        """Read one entry."""

    @abstractmethod
    async def _commit(self, batch: Batch) -> Outcome:
        """Apply a batch in one transaction; an owner left without reservations leaves the ledger."""

    @abstractmethod
    async def _spent(self) -> int:
        """Tokens spent by the run, as the store has it."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Close the connection, if any."""

    # Batching

    def _begin(self) -> asyncio.Future[Any]:
        self._check_process()
        self._kick()
        return asyncio.get_running_loop().create_future()

    def _check_process(self) -> None:
        if self._pid != os.getpid():  # a fork: the parent's reservations, writes and connection are not ours
            self._reset()

    def _settle(self, reservation: str | None, tokens: int) -> None:
        if tokens < 0:
            raise ValueError(f"tokens: cannot be negative ({tokens})")
        if reservation is not None:
            self._held.pop(reservation, None)
        self._billed += tokens

    def _settle_alone(self, reservation: str | None, tokens: int) -> asyncio.Future[None]:
        self._settle(reservation, tokens)
        future = asyncio.get_running_loop().create_future()
        self._settled.append(future)
        return future

    def _kick(self) -> None:
        loop = asyncio.get_running_loop()
        if self._flusher is None or self._flusher.done() or self._flusher.get_loop() is not loop:
            self._flusher = loop.create_task(self._flush_soon())

    async def _flush_soon(self) -> None:
        await asyncio.sleep(self.window)
        while True:
            waiting = await self._flush(told=True)
            fresh = bool(self._puts or self._settled or self._asks)
            self._asks.extendleft(reversed(waiting))
            if not fresh:
                break
        if self._alarm:
            self._alarm.cancel()
        if self._asks or self._held:  # look for freed budget soon, or just show that we live
            self._alarm = asyncio.get_running_loop().call_later(self.poll if self._asks else HEARTBEAT, self._kick)

    async def _flush(self, *, told: bool = False) -> list[Ask]:
        """Commit what has gathered and answer its callers; returns the requests for budget that still have to wait.

        Raises:
            CacheBroken: the commit failed; raised only to the callers concerned when `told`.
        """
        puts, self._puts = self._puts, []
        settled, self._settled = self._settled, []
        billed, self._billed = self._billed, 0
        asks = [ask for ask in self._asks if not ask[1].done()]
        self._asks.clear()
        batch = Batch(
            [(address, entry) for address, entry, _ in puts],
            billed,
            sum(self._held.values()),
            [tokens for tokens, _ in asks],
        )
        try:
            outcome = await self._commit(batch)
        except asyncio.CancelledError:  # the loop is shutting down: keep everything for close()
            self._puts[:0], self._settled[:0] = puts, settled
            self._asks.extendleft(reversed(asks))
            self._billed += billed
            raise
        except Exception as error:
            self._billed += billed
            fail([*(put[2] for put in puts), *settled, *(ask[1] for ask in asks)], error)
            if told:
                return []
            raise
        self._recorded = batch.held + sum(itertools.compress(batch.asks, outcome.granted))
        for (_, _, future), entry in zip(puts, outcome.stored, strict=True):
            if not future.done():
                future.set_result(entry)
        for waiting in settled:
            if not waiting.done():
                waiting.set_result(None)
        granted = zip(asks, outcome.granted, strict=True)
        return [ask for ask, fits in granted if self._must_wait(*ask, fits, outcome.spent)]

    def _must_wait(self, tokens: int, future: asyncio.Future[str], granted: bool, spent: int) -> bool:
        """Answer a request for budget; True if other reservations have to settle first."""
        assert self.budget is not None
        if granted:
            reservation = f"{self._owner}:{next(self._serial)}"
            self._held[reservation] = tokens
            if future.done():  # given up while the commit was under way
                self._settle_alone(reservation, 0)
            else:
                future.set_result(reservation)
        elif not future.done():
            if spent + tokens <= self.budget:
                return True
            future.set_exception(
                BudgetSpent(
                    f"the budget of {self.budget:,} tokens is spent: {spent:,} were billed (by earlier runs into this folder, "
                    f"too) and the next call may need {tokens:,}; raise it and repeat the command to go on"
                )
            )
        return False


def fail(futures: list[asyncio.Future[Any]], error: Exception) -> None:
    """Raise `error` in whoever still awaits one of `futures`."""
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # a caller that is gone is no reason for a warning

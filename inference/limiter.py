"""How many calls may be in flight: shrinks when the endpoint says it is congested, recovers when it no longer does."""

from __future__ import annotations

import asyncio
from collections import deque

TOLERATED = 0.10
"""Share of 429/503 answers that is taken for noise. A random few percent must not starve the run; real congestion
(a rate limit, a full queue) answers far more than that."""
WINDOW = 16
"""Fewest completed calls on which a decision rests."""


class AdaptiveLimiter:
    """A semaphore whose size follows the share of congested answers among the calls started since it last changed.

    Above `TOLERATED` the limit shrinks in proportion (by half at most), otherwise it grows by a tenth and one. Answers
    to calls started under an older limit say nothing about the present one and are ignored.
    """

    def __init__(self, maximum: int) -> None:
        if maximum < 1:
            raise ValueError("max_concurrency must be at least 1")
        self.maximum = maximum
        self.limit = maximum
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._epoch = 0
        self._done = 0
        self._congested = 0
        self._hold: asyncio.TimerHandle | None = None

    async def acquire(self) -> int:
        """Wait for a slot. The number returned goes back to `release`."""
        if self._hold is None and not self._waiting and self.in_flight < self.limit:
            self.in_flight += 1
            return self._epoch
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.in_flight -= 1  # the slot had just been given to us
                self._wake()
            raise
        return self._epoch

    def release(self, epoch: int, *, congested: bool = False, retry_after: float = 0.0) -> None:
        """Give a slot back and say how the call went; `retry_after` in seconds, as the endpoint asked."""
        self.in_flight -= 1
        if epoch == self._epoch:
            self._done += 1
            self._congested += congested
            if self._done >= max(WINDOW, self.limit // 2) or self._congested >= max(WINDOW, self.limit // 2) * 0.5:
                self._adapt(retry_after)
        self._wake()

    def resize(self, limit: int) -> None:
        """Set how many may be in flight from now on; 0 lets none begin. What is in flight goes on."""
        self.maximum = self.limit = limit
        self._epoch += 1
        self._done = self._congested = 0
        self._wake()

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return sum(not turn.done() for turn in self._waiting)

    def _adapt(self, retry_after: float) -> None:
        share = self._congested / self._done
        # Two above the tolerated share: in a small window chance alone may exceed it.
        if self._congested > TOLERATED * self._done + 2:
            self.limit = max(1, int(self.limit * max(0.5, 1.0 - share)))
            self._epoch += 1
            if share >= 0.5 and retry_after > 0:
                self._pause(min(retry_after, 60.0))
        elif self.limit < self.maximum:
            self.limit = min(self.maximum, int(self.limit * 1.1) + 1)
            self._epoch += 1
        self._done = self._congested = 0

    def _pause(self, seconds: float) -> None:
        if self._hold is not None:
            self._hold.cancel()
        self._hold = asyncio.get_running_loop().call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._hold = None
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._hold is None and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

"""Waiting for an endpoint that has gone away, and knowing when to give up."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from tokenmill.inference.errors import EndpointDown

FAILURES = 5
"""Failures in a row, with no success between them, after which the endpoint counts as down until a probe is answered."""
PROBE_MAX = 5.0
"""Longest pause between two probes, in seconds."""


class Circuit:
    """Lets calls through while the endpoint answers; when it does not, one prober at a time and the rest wait.

    What is probed with is not a call that failed: one request that the endpoint always breaks on cannot be told from an
    endpoint that is gone. A server that answers 429 lives; one that answers nothing else for longer than the patience is
    as good as gone.
    """

    def __init__(self, endpoint: str, patience: float, gone: Callable[[], str | None] = lambda: None) -> None:
        """
        Args:
            patience: seconds for which an endpoint may be down.
            gone: why it will not come back, in one line; None as long as it may. Asked only after failures.
        """
        self.endpoint = endpoint
        self.patience = patience
        self._gone = gone
        self._failures = 0
        self._silent_since = 0.0
        self._open_since = 0.0
        self._next_probe = 0.0
        self._pause = 0.25
        self._changed = asyncio.Event()
        self._prober = False
        self._refusing_since: float | None = None
        self.last_error = ""

    @property
    def open(self) -> bool:
        """True while the endpoint counts as down."""
        return self._failures >= FAILURES

    async def passage(self) -> bool:
        """Return when the caller may send something: False, its call; True, the one probe for all, of whose end it tells
        with `probed`.

        Raises:
            EndpointDown: the endpoint has been silent for longer than the patience, or is gone for good.
        """
        if self._refusing_since is not None:
            refusing = time.monotonic() - self._refusing_since
            if refusing > self.patience:
                raise EndpointDown(
                    f"{self.endpoint} has answered nothing but {self.last_error} for {refusing:.0f} s; repeat the "
                    "command when it accepts requests again: no answer received so far is lost"
                )
        while self._failures:
            if gone := self._gone():
                raise EndpointDown(f"{gone}; repeat the command to start it anew: no answer received so far is lost")
            if not self.open:
                break
            now = time.monotonic()
            # From when it counts as down, not from the first failure: five requests that each time out take long, and
            # nothing has probed it until then.
            if now - self._open_since > self.patience:
                raise EndpointDown(
                    f"{self.endpoint} has not answered for {now - self._silent_since:.0f} s ({self.last_error}); "
                    "repeat the command when it is back: no answer received so far is lost"
                )
            if not self._prober and now >= self._next_probe:
                self._prober = True
                return True
            wait = 0.5 if self._prober else min(0.5, max(0.01, self._next_probe - now))
            try:
                await asyncio.wait_for(self._changed.wait(), wait)
            except TimeoutError:
                continue
        return False

    def congested(self, error: str) -> None:
        """The server lives but sends us away."""
        self.alive()
        self.last_error = error
        if self._refusing_since is None:
            self._refusing_since = time.monotonic()

    def succeeded(self) -> None:
        """The server gave an answer."""
        self._refusing_since = None
        self.alive()

    def alive(self) -> None:
        if self._failures:
            self._failures = 0
            self._prober = False
            self._pause = 0.25
            self._changed.set()
            self._changed = asyncio.Event()

    def failed(self, error: str) -> None:
        """A call met no server, a hang or a 5xx."""
        now = time.monotonic()
        self._failures += 1
        self.last_error = error
        if self._failures == 1:
            self._silent_since = now
        if self._failures == FAILURES:
            self._open_since = now
            self._wait_for_next(now)

    def probed(self, problem: str) -> None:
        """The probe was answered, be it with a refusal; or met no server, a hang or a 5xx, which is the problem."""
        if not problem:
            self.succeeded()
        elif self.open:  # unless it was sent away, or an older call was answered meanwhile
            self._prober = False
            self.last_error = problem
            self._wait_for_next(time.monotonic())

    def _wait_for_next(self, now: float) -> None:
        self._pause = min(PROBE_MAX, self._pause * 2)
        self._next_probe = now + self._pause * (0.5 + random.random() / 2)

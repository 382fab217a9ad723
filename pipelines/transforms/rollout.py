"""`Rollout`, the only PTransform that calls models."""

from __future__ import annotations

import asyncio
import platform
import queue
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue
from tokenmill.inference import runtime as runtimes
from tokenmill.inference.call import Answer, Ask
from tokenmill.inference.errors import RunStopped, Waiting
from tokenmill.inference.roles import Models
from tokenmill.pipelines.transforms import DATA, FAILED, PAIRS, REJECTED
from tokenmill.pipelines.transforms.counts import COUNTS, Tallying, keep, tally
from tokenmill.schemas.documents import FailedRow
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable

HANDED_OVER = 32
"""Rows that the two threads of a worker hand each other at a time,"""
HELD = 0.005
"""and the seconds after which fewer will do."""

EXTRA = "extra"
"""Count of the rows beyond one for each element."""

WAITING = "waiting"
"""Count of the elements that wait for answers from a batch; they have no row yet."""

In = TypeVar("In", contravariant=True)


@dataclass(frozen=True)
class Accepted:
    """What a step returns for a row that goes to `data/`."""

    row: Any


@dataclass(frozen=True)
class Rejected:
    """What a step returns for a row that a judge refused, with the evidence in the row."""

    row: Any
    reason: str
    counted: str = ""
    """A counter that goes up with it, beside that of its reason."""


@dataclass(frozen=True)
class Paired:
    """A row of `pairs/`, beside the others: it counts for none of them. The step says their type, `pair_type`."""

    row: Any


@dataclass(frozen=True)
class Several:
    """What a step returns for a row of which several come, or none."""

    outcomes: Sequence[Accepted | Rejected | FailedRow | Paired]


class Step(Protocol, Generic[In]):
    """One rollout: a picklable dataclass whose fields are its configuration."""

    @property
    def row_type(self) -> type:
        """Row type of `data`."""

    @property
    def rejected_type(self) -> type:
        """Row type of `rejected`."""

    async def __call__(self, row: In, ask: Ask, /) -> Accepted | Rejected | Several: ...

    # A step may also have `check_worker(self)`: raises SandboxUnavailable where a worker cannot do its work, before any call;
    # `warm(self)`: what is slow to load or start, once per worker while its first calls are made; and
    # `preload(self)`: plain data to be loaded before worker processes are forked.

    def failed(self, row: In, error: str, message: str, /) -> FailedRow:
        """The row of `failed/` for an input that could not be processed."""
        ...


class Rollout(beam.PTransform[Any, Any]):
    """Runs a step on every element, many at once, and sorts what comes of them into `data`, `rejected`, `failed`.

    Inside a worker an event loop runs on a thread. `process` starts an element and yields whatever has finished in the
    meantime, `finish_bundle` drains: the window of running rollouts rolls on without a batch barrier, so one slow
    document idles nobody. An error in one element is a row of `failed`; only `RunStopped`, and a step that
    cannot even say which row failed, end the run.
    """

    def __init__(self, step: Step[Any], models: Models, *, window: int | None = None, follows: str = "") -> None:
        """
        Args:
            window: rollouts running at once; by default half as many again as calls may be in flight.
            follows: name of this rollout where another one in the same job has made its rows: they are counted under
                that name, and not as the job's tasks a second time.
        """
        super().__init__()
        self.step = step
        self.models = models
        self.follows = follows
        # More rollouts than calls, so that slots are not idle while answers are checked and rows change threads, a few dozen at a
        # time. With too few, calls go out and come back in bursts, and the processor waits between them.
        self.window = window or models.max_concurrency + max(2, models.max_concurrency // 2)

    def expand(self, rows: beam.PCollection[Any]) -> beam.pvalue.DoOutputsTuple:
        outputs = rows | beam.ParDo(_Roll(self.step, self.models, self.window, self.follows)).with_outputs(
            REJECTED, FAILED, PAIRS, COUNTS, main=DATA
        )
        keep(outputs[COUNTS])
        outputs[DATA].element_type = self.step.row_type
        outputs[REJECTED].element_type = self.step.rejected_type
        outputs[FAILED].element_type = FailedRow
        if pair_type := getattr(self.step, "pair_type", None):
            outputs[PAIRS].element_type = pair_type
        return outputs


class _Outbox:
    """What the loop's thread has finished, handed to the worker's thread a few at a time: waking a thread for every row
    costs more than a row's checks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sent: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()

    def put(self, finished: Any) -> None:
        """On the loop's thread."""
        self._held.append(finished)
        if len(self._held) >= HANDED_OVER:
            self._send()
        elif self._timer is None:
            self._timer = self._loop.call_later(HELD, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            self._sent.put(self._held)
            self._held = []

    @property
    def filled(self) -> bool:
        return not self._sent.empty()

    def get(self) -> list[Any]:
        """On the worker's thread: wait for the next few."""
        return self._sent.get()


class _Roll(Tallying):
    def __init__(self, step: Step[Any], models: Models, window: int, follows: str) -> None:
        self.step = step
        self.models = models
        self.size = window
        self.follows = follows

    def setup(self) -> None:
        self._runtime = runtimes.obtain(self.models)
        try:
            getattr(self.step, "check_worker", lambda: None)()
        except SandboxUnavailable as error:
            stopped = RunStopped(f"a worker on {platform.node()} cannot isolate programs: {error}")
            self._runtime.stopped(stopped)
            raise stopped from None
        aside = ThreadPoolExecutor(1, "tokenmill-warm")
        self._warmed = aside.submit(getattr(self.step, "warm", lambda: None))
        aside.shutdown(wait=False)

    def teardown(self) -> None:
        runtime = getattr(self, "_runtime", None)
        if runtime is not None:
            del self._runtime
            for roll in getattr(self, "_waiting", ()):  # the bundle broke further on
                roll.close()
            runtimes.release(runtime)

    def start_bundle(self) -> None:
        super().start_bundle()
        self._running = 0
        self._waiting: list[Any] = []
        self._ready: deque[Any] = deque()
        self._finished = _Outbox(self._runtime.loop)

    def process(
        self, row: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        while self._running >= self.size:
            yield from self._next()
        self._running += 1
        self._waiting.append(self._roll(row, timestamp, window, self._finished))
        if len(self._waiting) >= HANDED_OVER:
            self._start()
        while self._ready or self._finished.filled:
            yield from self._next()

    def finish_bundle(self) -> Iterator[Any]:
        while self._running:
            yield from self._next()
        self._count_calls()
        yield from super().finish_bundle()

    def _start(self) -> None:
        if self._waiting:
            self._runtime.start(self._waiting)
            self._waiting = []

    async def _roll(self, row: Any, timestamp: Any, window: Any, finished: _Outbox) -> None:
        """Run one element. Whatever ends it is handed over: the worker's thread waits for every rollout that has begun."""
        try:
            outcome = await self._outcome(row)
        except GeneratorExit:  # let go of; nobody waits any more
            raise
        except BaseException as error:
            outcome = error
        finished.put((outcome, timestamp, window))

    async def _outcome(self, row: Any) -> Any:
        ask = self._runtime.client.ask if self._warmed.done() else self._ask_while_warming
        try:
            return await self.step(row, ask)
        except RunStopped:
            raise
        except Exception as error:
            return self.step.failed(row, type(error).__name__, " ".join(str(error).split())[:2000])

    async def _ask_while_warming(self, *args: Any, **params: Any) -> Answer:
        """An answer, not before the checks that look at it are ready."""
        answer = await self._runtime.client.ask(*args, **params)
        await asyncio.wrap_future(self._warmed)
        return answer

    def _next(self) -> Iterator[Any]:
        """What came of the next finished element, under its own time and window, which need not be those of this call."""
        outcome, timestamp, window = self._take()
        if isinstance(outcome, Waiting):
            self._runtime.tally(WAITING)
            self._count(WAITING)
            return
        if isinstance(outcome, BaseException):
            self._drain()
            if not isinstance(outcome, RunStopped):
                raise RuntimeError(f"a rollout broke: {type(outcome).__name__}: {outcome}") from outcome
            self._runtime.stopped(outcome)
            raise outcome
        if not isinstance(outcome, Several):
            yield self._sorted(outcome, timestamp, window)
            return
        rows = [one for one in outcome.outcomes if not isinstance(one, Paired)]
        if len(rows) != 1:
            self._count(EXTRA, len(rows) - 1)
        for row in rows:
            yield self._sorted(row, timestamp, window)
        for one in outcome.outcomes:
            if isinstance(one, Paired):
                yield beam.pvalue.TaggedOutput(PAIRS, WindowedValue(one.row, timestamp, (window,)))

    def _sorted(self, outcome: Accepted | Rejected | FailedRow, timestamp: Any, window: Any) -> Any:
        if isinstance(outcome, Accepted):
            kind, reason, row = DATA, "", outcome.row
        elif isinstance(outcome, Rejected):
            kind, reason, row = REJECTED, outcome.reason, outcome.row
        else:
            kind, reason, row = FAILED, outcome.error, outcome
        if not self.follows:
            self._runtime.tally(kind, reason)
        self._count(kind)
        if isinstance(outcome, Rejected) and outcome.counted:
            self._count(outcome.counted)
        if reason:
            self._count(f"{kind}: {reason}")
        value = WindowedValue(row, timestamp, (window,))
        return value if kind == DATA else beam.pvalue.TaggedOutput(kind, value)

    def _take(self) -> tuple[Any, Any, Any]:
        if not self._ready:
            if not self._finished.filled:
                self._start()
            self._ready.extend(self._finished.get())
            self._warmed.result()  # raises what kept the checks from being loaded: no row is to blame
            if all(isinstance(one, Waiting) or not isinstance(one, BaseException) for one, *_ in self._ready):
                self._start()
        self._running -= 1
        return self._ready.popleft()

    def _drain(self) -> None:
        """Let calls that are in flight arrive, since they are paid for; the cache keeps them for the next run. Rows that
        have not begun are left for it altogether."""
        self._running -= len(self._waiting)
        for roll in self._waiting:
            roll.close()
        self._waiting = []
        while self._running:
            self._take()

    def _count_calls(self) -> None:
        """What the client counted since the last time anyone in this process asked."""
        for role, stats in self._runtime.unreported().items():
            for name, value in stats.as_dict().items():
                if value:
                    tally(f"{role}/{name}", value)

    def _count(self, name: str, number: int = 1) -> None:
        tally(f"{self.follows}: {name}" if self.follows else name, number)

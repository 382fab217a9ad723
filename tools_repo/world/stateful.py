"""A world over a typed state: what the simulator and executable tools have in common.

A call is checked, its outcome drawn, the tool run, and the outcome put into effect. Calls run one after another in the
order in which they come, so that parallel calls of one turn end the same whenever they are repeated.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import orjson
from tokenmill.schemas.agentic import EMPTY, PARTIAL, PERMISSION, STALE, SUCCESS, TRUNCATED
from tokenmill.schemas.tools import ToolSpec, dump, to_openai
from tokenmill.tools_repo.world import ToolResult
from tokenmill.tools_repo.world.call_checks import ENGINE as CHECKS
from tokenmill.tools_repo.world.call_checks import Checks
from tokenmill.tools_repo.world.entities import EntityModel, State
from tokenmill.tools_repo.world.outcomes import (
    CERTAIN,
    REFUSALS,
    Odds,
    draw,
    emptied,
    partly,
    recoverable,
    refusal,
    shortened,
)
from tokenmill.tools_repo.world.patch import diff

_NOW = "2025-06-02T09:00:00Z"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})?)?")
_TEXT_KEPT = 400


@dataclass(frozen=True)
class Ran:
    """What a tool did."""

    result: Any
    """JSON value; of a failed call the error as the agent shall see it."""
    state: State
    """The state afterwards; the very object that was given when nothing changed."""
    error: str = ""
    engine: str = ""


@dataclass(frozen=True)
class Past:
    """A call that was made earlier in the trajectory."""

    tool: str
    arguments: str
    content: str
    changed: bool


class StatefulWorld:
    """A `World` whose tools act on a state. Subclasses say how a tool runs (`_run`)."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        entities: EntityModel | str,
        state: State | str,
        *,
        odds: Odds = CERTAIN,
        seed: Sequence[object] = (0,),
        first: str = "",
        needed: Collection[str] = (),
        now: str = "",
    ) -> None:
        """
        Args:
            state: the state at the start, a JSON document or its text; not changed here.
            odds: of the outcomes of valid calls.
            seed: what the draws depend on beside a call's number, such as (run seed, task id, sample).
            first: an outcome for call 0, whatever the odds: an error for a task about recovering from one.
            needed: tools without which the task cannot be done. Their permission is never refused, which would doom
                the try from the outset; where that is drawn, they fail in a way that another try gets over.
            now: the world's time, ISO 8601; left out, one at which the state makes sense (see `clock`).

        Raises:
            ValueError: the entity model, the state or a tool is invalid; one line says how.
        """
        self.specs = tuple(tools)
        self.entities = EntityModel.parse(entities) if isinstance(entities, str) else entities
        self.checks = Checks(tools, self.entities)
        self.tools: list[dict[str, Any]] = [to_openai(spec) for spec in tools]
        self._state: State = _read(self.entities, state) if isinstance(state, str) else state
        if not isinstance(state, str):
            _meets(self.entities, state)
        self._before_change = self._state
        self.now = now or clock(self._state)
        """The world's time, ISO 8601, the same during the whole trajectory."""
        self.odds = odds
        self.seed = tuple(seed)
        self.first = first
        self.needed = frozenset(needed)
        self.past: list[Past] = []
        self._denied: set[str] = set()

    @cached_property
    def _lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    @property
    def state(self) -> State:
        """The state as it is now; not to be changed by the reader."""
        return self._state

    async def call(self, name: str, arguments: str, number: int) -> ToolResult:
        """Run a call. See `World.call`.

        Raises:
            RowError: what stands behind the tools failed by itself; that must not become training data.
        """
        async with self._lock:
            before = self._state
            result = await self._call(name, arguments, number)
            changed = self._state is not before
            self.past.append(Past(name, arguments, result.content, changed))
            if changed:
                self._before_change = before
            return result

    async def call_all(self, calls: Sequence[tuple[str, str, int]]) -> list[ToolResult]:
        """Run the calls of one turn, given as for `call`: neighbours that only read at the same time, as nothing that one of
        them does can show in another; the others one after another.

        Raises:
            RowError: see `call`.
        """
        results: list[ToolResult] = []
        for reading, run in groupby(calls, lambda call: self._reads(call[0])):
            group = list(run)
            if not reading or len(group) == 1:
                results += [await self.call(*call) for call in group]
                continue
            async with self._lock:
                done = await asyncio.gather(*(self._call(*call) for call in group), return_exceptions=True)
                for (name, arguments, _), result in zip(group, done, strict=True):
                    if isinstance(result, BaseException):
                        raise result
                    self.past.append(Past(name, arguments, result.content, False))
                    results.append(result)
        return results

    def _reads(self, name: str) -> bool:
        tool = self.checks.tools.get(name)
        return tool is not None and reads_only(tool.spec)

    async def close(self) -> None:
        """Nothing is held."""

    async def _run(self, spec: ToolSpec, arguments: dict[str, Any], state: State, number: int, stale: bool) -> Ran:
        """Run a valid call over `state`; `stale` when that is not the state as it is now."""
        raise NotImplementedError

    async def _call(self, name: str, arguments: str, number: int) -> ToolResult:
        parsed = self.checks(name, arguments, self._state)
        if isinstance(parsed, ToolResult):
            return parsed
        spec = self.checks.tools[name].spec
        outcome = self.first if self.first and number == 0 else draw(self.odds, *self.seed, number)
        if outcome == PERMISSION and name in self.needed:
            outcome = recoverable(*self.seed, number)
        if name in self._denied:
            outcome = PERMISSION
        if outcome in REFUSALS:
            if outcome == PERMISSION:
                self._denied.add(name)
            # A permission is refused in the same words every time.
            parts = (name,) if outcome == PERMISSION else (number,)
            content = refusal(outcome, name, *self.seed, *parts)
            return ToolResult(content, error=outcome, outcome=outcome, engine=CHECKS)
        stale = outcome == STALE and reads_only(spec) and self._before_change is not self._state
        given = self._before_change if stale else self._state
        ran = await self._run(spec, parsed, given, number, stale)
        if not stale:
            ran, outcome = self._put_into_effect(ran, given, outcome)
        result = ToolResult(
            as_text(ran.result),
            error=ran.error,
            outcome=outcome,
            patch="[]" if stale else dump(diff(given, ran.state)),
            engine=ran.engine,
        )
        if not stale:
            self._state = ran.state
        return result

    def _put_into_effect(self, ran: Ran, before: State, outcome: str) -> tuple[Ran, str]:
        """What is left of a successful call under the outcome; a success where it cannot have that one."""
        if ran.error:
            return ran, SUCCESS
        if outcome == PARTIAL and ran.state is not before:
            part = partly(before, ran.state, self.entities)
            if part is not None:
                state, said = part
                return replace(ran, state=state, result=orjson.loads(said), error="partial_failure"), outcome
        if outcome == EMPTY and ran.state is before and (left := emptied(ran.result)) is not None:
            return replace(ran, result=left), outcome
        if outcome == TRUNCATED and ran.state is before:
            left = shortened(ran.result)
            if left is None and isinstance(ran.result, str) and len(ran.result) > _TEXT_KEPT:
                half = ran.result[: len(ran.result) // 2]
                left = f"{half}… [truncated, {len(ran.result) - len(half)} characters omitted]"
            if left is not None:
                return replace(ran, result=left), outcome
        return ran, SUCCESS


@lru_cache(maxsize=64)
def _read(entities: EntityModel, state: str) -> State:
    """A state at the start: several samples of a task begin with the same, and none changes it."""
    try:
        parsed = orjson.loads(state)
    except ValueError as error:
        raise ValueError(f"the state is no JSON: {error}") from None
    _meets(entities, parsed)
    return parsed


def _meets(entities: EntityModel, state: Any) -> None:
    if faults := entities.check(state):
        raise ValueError(f"the state does not meet the entity model: {faults[0]}")


def reads_only(spec: ToolSpec) -> bool:
    """Whether it is known that a tool changes nothing."""
    semantics = spec.semantics
    if semantics.writes:
        return False
    try:
        hints = orjson.loads(spec.annotations)
    except ValueError:
        hints = {}
    if isinstance(hints, dict) and hints.get("readOnlyHint") is not None:
        return hints["readOnlyHint"] is True
    return bool(semantics.reads)


def as_text(result: Any) -> str:
    """A result as the agent is shown it: text as it is, everything else as JSON."""
    return result if isinstance(result, str) else dump(result)


def clock(state: State | str) -> str:
    """A time at which a state, or its JSON, makes sense: the median of the dates in it, at nine in the morning UTC."""
    dates = []
    for text in _DATE.findall(state if isinstance(state, str) else dump(state)):
        try:
            dates.append(datetime.fromisoformat(text[:10]).replace(tzinfo=UTC))
        except ValueError:
            continue
    if not dates:
        return _NOW
    middle = sorted(dates)[len(dates) // 2]
    return middle.replace(hour=9).strftime("%Y-%m-%dT%H:%M:%SZ")

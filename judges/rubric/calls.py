"""Which calls meet a criterion, and how they stand to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tokenmill.judges.rubric.conditions import Condition, holds, leaves
from tokenmill.judges.rubric.criteria import EITHER, SUCCEEDS, CallSpec, parse
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.schemas.agentic import CALL, Criterion


class Calls:
    """The calls of a trajectory, matched with the `call` criteria of a rubric."""

    def __init__(self, evidence: Evidence, rubric: Sequence[Criterion]) -> None:
        self.evidence = evidence
        self._specs = {c.id: spec for c in rubric if c.kind == CALL and isinstance(spec := parse(c), CallSpec)}
        self._attempts: dict[str, tuple[int, ...]] = {}

    def attempts(self, criterion: str) -> tuple[int, ...]:
        """Indices of the calls whose tool and arguments meet a `call` criterion, whatever came of them."""
        if criterion not in self._specs:
            return ()
        if criterion not in self._attempts:
            self._attempts[criterion] = ()  # criteria that refer to each other in a circle are met by nothing
            self._attempts[criterion] = tuple(self.matching(self._specs[criterion]))
        return self._attempts[criterion]

    def meeting(self, criterion: str) -> tuple[int, ...]:
        """Indices of the calls that meet a `call` criterion, their result included."""
        spec = self._specs.get(criterion)
        return tuple(i for i in self.attempts(criterion) if spec and self.came_out(spec, i))

    def came_out(self, spec: CallSpec, index: int) -> bool:
        return spec.result == EITHER or (spec.result == SUCCEEDS) == (not self.evidence.calls[index].error)

    def matching(self, spec: CallSpec) -> Iterator[int]:
        """Indices of the calls with this tool and arguments."""
        for index, call in enumerate(self.evidence.calls):
            if call.tool == spec.tool and not self.misses(spec.arguments, index):
                yield index

    def misses(self, conditions: Sequence[Condition], index: int) -> list[Condition]:
        """The conditions that a call's arguments do not meet."""
        given, filled = self.evidence.arguments[index], self.evidence.filled[index]
        return [
            condition
            for condition in conditions
            if not holds(
                condition,
                given if condition.op == "absent" else filled,
                given=lambda criterion: self._given(criterion, index),
            )
        ]

    def _given(self, criterion: str, index: int) -> Iterator[Any]:
        """The values in results that a criterion's calls had given before the call at `index`."""
        turn = self.evidence.calls[index].turn
        for earlier in self.meeting(criterion):
            if self.evidence.calls[earlier].turn < turn:
                yield from leaves(self.evidence.results[earlier])

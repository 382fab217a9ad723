"""The end state decides: what a trajectory may change is what the task's reference solution changes, by record and field.

    for difference in differences(task, evidence):
        ...  # `/Order/A-18/status: expected "shipped", found "cancelled"`

A trajectory that changes less is the rubric's matter. Where the rubric itself gives a choice, or where a value was made up by
the world (a time stamp, the number of a new record), another value than the reference's will do; free text in a field that the
solution writes is told in many words, and is left to the judge.

tau-bench (Yao et al. 2024, section 3) compares end states likewise; it takes them whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenmill.judges.rubric.calls import Calls
from tokenmill.judges.rubric.conditions import Condition, holds, leaves, same, values_at
from tokenmill.judges.rubric.criteria import CallSpec, StateSpec, parse
from tokenmill.judges.rubric.evidence import Evidence, State
from tokenmill.judges.rubric.feasible import enact
from tokenmill.schemas.agentic import DECLINE, MISSING_TOOL, AgentTask
from tokenmill.schemas.tools import dump

_MISSING = object()
_STAMP = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")
_FREE_WORDS = 3
"""Words from which text is taken for prose rather than for a name or a status."""
_SAYS_NOTHING = ("any", "absent")
"""Operators of a condition that leaves a value open."""


@dataclass(frozen=True)
class Difference:
    """Something at the end that the reference solution does not make so."""

    path: str
    """JSON Pointer into the state."""
    expected: str
    """What the reference solution leaves there, as JSON, or `nothing`."""
    found: str
    doubtful: bool = False
    """Whether only a reader can say if it is wrong."""

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def differences(task: AgentTask, evidence: Evidence) -> list[Difference]:
    """Where the end state goes beyond the reference solution's; nothing where the task has none and is not to be declined.

    Raises:
        ValueError: the reference solution does not apply to the state at the start.
    """
    if not task.solution and task.level not in (DECLINE, MISSING_TOOL):
        return []
    before, after = evidence.state_before, evidence.state_after
    if before == after:
        return []
    reference = enact(
        task.rubric, tools=task.agent.tools, state=before, solution=task.solution, reply=task.reply
    ).state_after
    return list(_Comparison(task, evidence, reference).kinds(before, reference, after))


@dataclass(frozen=True)
class _Comparison:
    task: AgentTask
    evidence: Evidence
    reference: State

    def kinds(self, before: State, reference: State, after: State) -> Iterator[Difference]:
        for kind in sorted(before.keys() | reference.keys() | after.keys()):
            states = [state.get(kind, {}) for state in (before, reference, after)]
            if all(isinstance(records, dict) for records in states):
                yield from self._records(f"/{_step(kind)}", *states)
            else:
                yield from self._value(f"/{_step(kind)}", *states)

    def _records(self, path: str, before: Any, reference: Any, after: Any) -> Iterator[Difference]:
        new = {name: after[name] for name in after if name not in before}
        wanted = {name: reference[name] for name in reference if name not in before}
        for name in sorted(before):
            states = [state.get(name, _MISSING) for state in (before, reference, after)]
            yield from self._value(f"{path}/{_step(name)}", *states)
        # A record's identifier is the world's to give, unless somebody named it.
        for name in sorted(new, key=lambda name: (name not in wanted, name)):
            yield from self._added(f"{path}/{_step(name)}", name, new[name], wanted)

    def _added(self, path: str, name: str, record: Any, wanted: dict[str, Any]) -> Iterator[Difference]:
        """A new record against the nearest of those that the reference adds, which is then taken from `wanted`."""
        named = [name] if name in wanted else [other for other in wanted if not self._named(other)]
        compared = [(other, list(self._value(path, _MISSING, wanted[other], record))) for other in named]
        if not compared:
            yield Difference(path, "nothing", _shown(record))
            return
        other, found = min(compared, key=lambda pair: [sum(not d.doubtful for d in pair[1]), len(pair[1])])
        del wanted[other]
        yield from (d for d in found if d.found.strip('"') != name)  # it repeats its own identifier

    def _value(self, path: str, before: Any, reference: Any, after: Any) -> Iterator[Difference]:
        if _equal(after, reference) or _equal(after, before):
            return
        parts = [part for part in (before, reference, after) if part is not _MISSING]
        if len(parts) > 1 and after is not _MISSING and all(isinstance(part, dict) for part in parts):
            for key in sorted(set().union(*parts)):
                states = [p.get(key, _MISSING) if p is not _MISSING else _MISSING for p in (before, reference, after)]
                yield from self._value(f"{path}/{_step(key)}", *states)
            return
        if isinstance(after, list) and isinstance(reference, list) and len(after) == len(reference):
            for index, (theirs, ours) in enumerate(zip(reference, after, strict=True)):
                known = before[index] if isinstance(before, list) and index < len(before) else _MISSING
                yield from self._value(f"{path}/{index}", known, theirs, ours)
            return
        if not self._ruled(path):
            yield from self._leaf(path, before, reference, after)

    def _leaf(self, path: str, before: Any, reference: Any, after: Any) -> Iterator[Difference]:
        new, written = self._record(path)
        if _equal(reference, before) and not new:  # the reference leaves this field alone
            # When something was changed, a world may note it beside.
            doubtful = written and _stamp(after) and (before is _MISSING or _stamp(before))
        elif reference is _MISSING or after is _MISSING:
            doubtful = new
        elif self._chosen(after) or (self._made_up(reference) and _alike(reference, after)):
            return
        else:
            doubtful = _prose(reference) or _prose(after)
        yield Difference(path, _shown(reference), _shown(after), doubtful)

    def _record(self, path: str) -> tuple[bool, bool]:
        """Whether the record that a field belongs to is new, and whether the reference changes it."""
        _, kind, name, *field = path.split("/")
        steps = f"/{kind}/{name}" if field else ""
        here, theirs = (list(values_at(state, steps)) for state in (self.evidence.state_before, self.reference))
        return not here, here != theirs

    def _named(self, identifier: str) -> bool:
        return identifier.casefold() in self._told

    def _made_up(self, value: Any) -> bool:
        """Whether the world gave a value itself: nobody in the task, and no argument of the solution, tells it."""
        return isinstance(value, str) and not self._named(value)

    def _chosen(self, value: Any) -> bool:
        """Whether it is an argument that the rubric asked about and let pass."""
        return any(same(value, choice) for choice in self._choices)

    @cached_property
    def _told(self) -> str:
        task = self.task
        arguments = (call.arguments for call in task.solution)
        facts = (fact.value for fact in task.facts)
        return "\n".join((*arguments, *facts, task.situation, task.goal, task.opening)).casefold()

    @cached_property
    def _choices(self) -> tuple[Any, ...]:
        calls = Calls(self.evidence, self.task.rubric)
        return tuple(
            value
            for criterion in self.task.rubric
            if isinstance(spec := parse(criterion), CallSpec)
            for index in calls.meeting(criterion.id)
            for condition in spec.arguments
            if condition.op not in _SAYS_NOTHING
            for found in values_at(self.evidence.filled[index], condition.path)
            for value in leaves(found)
        )

    def _ruled(self, path: str) -> bool:
        """Whether a criterion says what must stand at a path, so that it decides."""
        return any(_leads_to(ruled, path) for ruled in self._rules)

    @cached_property
    def _rules(self) -> tuple[str, ...]:
        rules: list[str] = []
        for criterion in self.task.rubric:
            spec = parse(criterion)
            if isinstance(spec, StateSpec) and criterion.mandatory:
                rules += [c.path for c in spec.conditions if _decides(c)]
                for record in spec.records:
                    at = f"/{_step(record.kind)}"
                    records = self.evidence.state_after.get(record.kind, {})
                    fitting = [n for n, r in records.items() if all(holds(c, r) for c in record.where)]
                    rules += [f"{at}/{_step(name)}{c.path}" for name in fitting for c in record.where if _decides(c)]
        return tuple(rules)


def _decides(condition: Condition) -> bool:
    return condition.op not in (*_SAYS_NOTHING, "unchanged")


def _leads_to(pattern: str, path: str) -> bool:
    """Whether a pointer, in which `*` stands for any step, leads to a path or to something above it."""
    wanted, steps = pattern.split("/"), path.split("/")
    return len(wanted) <= len(steps) and all(w in ("*", s) for w, s in zip(wanted, steps, strict=False))


def _equal(a: Any, b: Any) -> bool:
    return a is b or (a is not _MISSING and b is not _MISSING and same(a, b))


def _stamp(value: Any) -> bool:
    return isinstance(value, str) and _STAMP.fullmatch(value) is not None


def _prose(value: Any) -> bool:
    return isinstance(value, str) and len(value.split()) >= _FREE_WORDS and not _stamp(value)


def _alike(a: Any, b: Any) -> bool:
    """Whether two texts may both be what a world makes up: instants, or identifiers with digits in them."""
    if not (isinstance(a, str) and isinstance(b, str)):
        return False
    return _stamp(a) == _stamp(b) and all(any(c.isdigit() for c in text) and not _prose(text) for text in (a, b))


def _shown(value: Any) -> str:
    text = "nothing" if value is _MISSING else dump(value)
    return text if len(text) <= 160 else f"{text[:159]}…"


def _step(key: str) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")

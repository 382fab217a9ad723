"""Criteria that code can decide: calls, their order, the state, and values that stand in what the agent said.

verdict = decide(criterion, evidence, rubric)  # None: only the judge can tell
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenmill.judges.rubric.calls import Calls
from tokenmill.judges.rubric.conditions import holds, values_at
from tokenmill.judges.rubric.criteria import (
    AFTER_USER,
    SAME_TURN,
    SUCCEEDS,
    AnswerSpec,
    CallSpec,
    ForbiddenSpec,
    OrderSpec,
    RecordSpec,
    StateSpec,
    parse,
)
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.values import tells
from tokenmill.schemas.agentic import Criterion, CriterionVerdict

CODE = "code"
_MAX_DETAIL = 300
_MAX_WORDS = 5
"""Words of a result that the agent is expected to repeat as they are."""


def decide(
    criterion: Criterion, evidence: Evidence, rubric: Sequence[Criterion] = (), calls: Calls | None = None
) -> CriterionVerdict | None:
    """The verdict on one criterion, or None where only the judge can tell.

    Args:
        rubric: the rubric that it belongs to; criteria refer to each other by id.
        calls: the calls matched with that rubric, when several criteria are decided.

    Raises:
        ValueError: the criterion's spec is none.
    """
    spec = parse(criterion)
    calls = calls or Calls(evidence, rubric or (criterion,))
    fault = _FAULTS[type(spec)](spec, evidence, calls)
    if fault:
        reason, detail = fault
        return CriterionVerdict(
            criterion=criterion.id,
            passed=False,
            score=0.0,
            decided_by=CODE,
            reason=reason,
            detail=" ".join(detail.split())[:_MAX_DETAIL],
        )
    if isinstance(spec, AnswerSpec) and spec.judged:
        return None
    return CriterionVerdict(criterion=criterion.id, passed=True, score=1.0, decided_by=CODE)


_Fault = tuple[str, str] | None


def broken(rubric: Sequence[Criterion], evidence: Evidence) -> CriterionVerdict | None:
    """The verdict on the first mandatory criterion that calls already made have broken for good: a forbidden one, or one too
    many. The evidence may be of a trajectory that is not over.

    Raises:
        ValueError: a criterion's spec is none.
    """
    watched = [c for c in rubric if c.mandatory and _breakable(parse(c))]
    if not watched:
        return None
    calls = Calls(evidence, rubric)
    verdicts = (decide(criterion, evidence, rubric, calls) for criterion in watched)
    return next((v for v in verdicts if v is not None and v.reason in ("forbidden_call", "too_many_calls")), None)


def _breakable(spec: Any) -> bool:
    return isinstance(spec, ForbiddenSpec) or (isinstance(spec, CallSpec) and spec.at_most is not None)


def _call(spec: CallSpec, evidence: Evidence, calls: Calls) -> _Fault:
    attempts = list(calls.matching(spec))
    meeting = [index for index in attempts if calls.came_out(spec, index)]
    if len(meeting) < spec.at_least:
        return _lacking(spec, evidence, calls, attempts, meeting)
    if spec.at_most is not None and len(meeting) > spec.at_most:
        return "too_many_calls", f"{spec.tool} was called {len(meeting)} times, at most {spec.at_most} were allowed"
    return None


def _lacking(spec: CallSpec, evidence: Evidence, calls: Calls, attempts: list[int], meeting: list[int]) -> _Fault:
    if meeting:
        return "call_missing", f"{spec.tool} was called {len(meeting)} times, needed were {spec.at_least}"
    if attempts:
        if spec.result != SUCCEEDS:
            return "call_missing", f"no call of {spec.tool} failed"
        return "call_failed", f"{spec.tool} was called as needed but failed: {evidence.calls[attempts[-1]].error}"
    tried = [index for index, call in enumerate(evidence.calls) if call.tool == spec.tool]
    if not tried:
        return "call_missing", f"{spec.tool} was not called"
    missed = min((calls.misses(spec.arguments, index) for index in tried), key=len)
    return "wrong_arguments", f"{spec.tool}: no call with {'; '.join(map(str, missed))}"


def _order(spec: OrderSpec, evidence: Evidence, calls: Calls) -> _Fault:
    if spec.form == SAME_TURN:
        shared = set.intersection(*({evidence.calls[i].turn for i in calls.attempts(name)} for name in spec.calls))
        return None if shared else ("not_in_one_turn", f"{', '.join(spec.calls)} were not called in one turn")
    if spec.form == AFTER_USER:
        return _after_user(spec, evidence, calls)
    last, before = -1, ""
    for name in spec.calls:
        turns = [evidence.calls[i].turn for i in calls.meeting(name)]
        if not turns:
            return "order_broken", f"no call meets {name}"
        if min(turns) <= last:
            return "order_broken", f"{name} was called before {before} had succeeded"
        last, before = min(turns), name
    return None


def _after_user(spec: OrderSpec, evidence: Evidence, calls: Calls) -> _Fault:
    for name in spec.calls:
        attempts = calls.attempts(name)
        if not attempts:
            return "order_broken", f"no call meets {name}"
        turn = min(evidence.calls[i].turn for i in attempts)
        earlier = [(index, text) for index, text in evidence.heard if index < turn]
        if spec.about:
            if not any(tells(text, value) for _, text in earlier for value in spec.about):
                return "did_not_ask", f"{name} was called before the user had said {' or '.join(spec.about)}"
            continue
        answered = [index for index, _ in earlier[1:] if any(earlier[0][0] < at < index for at, _ in evidence.said)]
        if not answered:
            return "did_not_ask", f"{name} was called before the user was asked and answered"
    return None


def _forbidden(spec: ForbiddenSpec, evidence: Evidence, calls: Calls) -> _Fault:
    for index, call in enumerate(evidence.calls):
        if (call.tool == spec.tool if spec.tool else evidence.wrote(index)) and not calls.misses(spec.arguments, index):
            return "forbidden_call", f"{call.tool} was called: {call.id}"
    return None


def _state(spec: StateSpec, evidence: Evidence, calls: Calls) -> _Fault:
    for condition in spec.conditions:
        if not holds(condition, evidence.state_after, evidence.state_before):
            return "wrong_state", f"at the end does not hold: {condition}"
    for record in spec.records:
        count = count_records(record, evidence.state_after)
        if count < record.at_least or (record.at_most is not None and count > record.at_most):
            where = " and ".join(map(str, record.where)) or "any"
            return "wrong_state", f"{count} records of {record.kind} at the end with {where}"
    for kind in _kinds(spec, evidence):
        if evidence.state_before.get(kind, {}) != evidence.state_after.get(kind, {}):
            return "state_changed", f"records of {kind} were changed"
    return None


def count_records(spec: RecordSpec, state: dict[str, Any]) -> int:
    """Number of records in a state that a `RecordSpec` describes."""
    records = state.get(spec.kind)
    values = records.values() if isinstance(records, dict) else ()
    return sum(all(holds(condition, record) for condition in spec.where) for record in values)


def _kinds(spec: StateSpec, evidence: Evidence) -> list[str]:
    if "*" in spec.unchanged:
        return sorted(evidence.state_before.keys() | evidence.state_after.keys())
    return list(spec.unchanged)


def _answer(spec: AnswerSpec, evidence: Evidence, calls: Calls) -> _Fault:
    if not evidence.said:
        return "said_nothing", "the agent told the user nothing"
    text = "\n\n".join(text for _, text in evidence.said)
    for value in spec.never:
        if tells(text, value):
            return "told_forbidden", f"the agent told {value}"
    for options in spec.values:
        if not any(tells(text, option) for option in options):
            return "value_not_told", f"the agent did not tell {' or '.join(map(str, options))}"
    for wanted in spec.results:
        meeting = calls.meeting(wanted.call)
        if not meeting:
            return "value_not_told", f"no call meets {wanted.call}, whose result was to be told"
        # What the results do not hold (one cut short, say) cannot be told, and prose is told in other words.
        given = [v for i in meeting for v in values_at(evidence.results[i], wanted.path) if _tellable(v)]
        if given and not any(tells(text, value) for value in given):
            return "value_not_told", f"the agent did not tell {given[-1]} from {wanted.call}"
    return None


def _tellable(value: Any) -> bool:
    return not isinstance(value, bool | dict | list | None) and len(str(value).split()) <= _MAX_WORDS


_FAULTS: dict[type, Any] = {
    CallSpec: _call,
    OrderSpec: _order,
    ForbiddenSpec: _forbidden,
    StateSpec: _state,
    AnswerSpec: _answer,
}

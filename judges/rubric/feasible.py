"""Can a rubric be met, and not by doing nothing? Shown with the task's reference solution."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import orjson
from tokenmill.judges.rubric.calls import Calls
from tokenmill.judges.rubric.code_criteria import decide
from tokenmill.judges.rubric.criteria import AFTER_USER, SAME_TURN, OrderSpec, parse
from tokenmill.judges.rubric.evidence import Evidence, State
from tokenmill.schemas.agentic import (
    DECLINE,
    CallRecord,
    ChatMessage,
    Criterion,
    CriterionVerdict,
    ReferenceCall,
    ToolCall,
    ToolCallFunction,
)
from tokenmill.schemas.tools import ToolSpec
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "rubric"
UNSOLVABLE, TRIVIAL = "unsolvable", "trivial"

Apply = Callable[[State, str], State]
"""The state after a JSON Patch (RFC 6902, as JSON text); raises ValueError when it does not apply."""


def apply_patch(state: State, patch: str) -> State:
    """A changed copy of the state.

    Raises:
        ValueError: the patch is none, or does not apply.
    """
    import jsonpatch

    try:
        return jsonpatch.apply_patch(state, orjson.loads(patch))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
        raise ValueError(f"the patch does not apply: {error}") from error


def feasible(
    rubric: Sequence[Criterion],
    *,
    tools: Sequence[ToolSpec],
    state: State,
    solution: Sequence[ReferenceCall],
    reply: str,
    level: str = "",
    threshold: float = 0.8,
    apply: Apply = apply_patch,
) -> Verdict:
    """Refuses with `unsolvable` a rubric that the reference solution does not meet, and with `trivial` one that is met by
    doing nothing, or (unless the task is to decline) by saying the reply without doing anything.

    What only the judge can decide counts as met. `score` is the share that the solution reaches.
    """
    try:
        evidence = enact(rubric, tools=tools, state=state, solution=solution, reply=reply, apply=apply)
    except ValueError as error:
        return Verdict(CHECK, False, 0.0, UNSOLVABLE, (Finding(UNSOLVABLE, f"the reference solution: {error}"),))
    missed, score = _missed(rubric, evidence)
    if any(criterion.mandatory for criterion, _ in missed) or score < threshold:
        findings = tuple(Finding(UNSOLVABLE, _line(*miss)) for miss in missed)
        return Verdict(CHECK, False, round(score, 4), UNSOLVABLE, findings)
    idle = enact(rubric, tools=tools, state=state, solution=(), reply="", apply=apply)
    if _met(rubric, idle, threshold):
        return _trivial("doing nothing meets the rubric; ask for what must be done")
    talk = enact(rubric, tools=tools, state=state, solution=(), reply=reply, apply=apply)
    if level != DECLINE and _met(rubric, talk, threshold):
        return _trivial("only saying the reply, without any call, meets the rubric; ask for the calls or the state")
    return Verdict(CHECK, True, round(score, 4))


def _line(criterion: Criterion, verdict: CriterionVerdict) -> str:
    return f"the reference solution does not meet {criterion.id!r}: {verdict.detail}"


def _trivial(detail: str) -> Verdict:
    return Verdict(CHECK, False, 0.0, TRIVIAL, (Finding(TRIVIAL, detail),))


def _missed(rubric: Sequence[Criterion], evidence: Evidence) -> tuple[list[tuple[Criterion, CriterionVerdict]], float]:
    calls = Calls(evidence, rubric)
    decided = [(criterion, decide(criterion, evidence, rubric, calls)) for criterion in rubric]
    missed = [(criterion, verdict) for criterion, verdict in decided if verdict is not None and not verdict.passed]
    whole = sum(criterion.weight for criterion in rubric)
    return missed, (1 - sum(criterion.weight for criterion, _ in missed) / whole if whole else 0.0)


def _met(rubric: Sequence[Criterion], evidence: Evidence, threshold: float) -> bool:
    missed, score = _missed(rubric, evidence)
    return score >= threshold and not any(criterion.mandatory for criterion, _ in missed)


def enact(
    rubric: Sequence[Criterion],
    *,
    tools: Sequence[ToolSpec],
    state: State,
    solution: Sequence[ReferenceCall],
    reply: str,
    apply: Apply = apply_patch,
) -> Evidence:
    """The trajectory that makes the calls of a reference solution and says its reply.

    Each call has a turn of its own, but for neighbours that the rubric wants in one turn. Where the rubric wants the user
    asked, it is, and says what is asked for.

    Raises:
        ValueError: a patch does not apply.
    """
    orders = [spec for c in rubric if isinstance(spec := parse(c), OrderSpec)]
    messages = [ChatMessage(role="system", content="-"), ChatMessage(role="user", content="-")]
    if any(order.form == AFTER_USER for order in orders):
        told = "; ".join(value for order in orders for value in order.about)
        messages += [ChatMessage(role="assistant", content="?"), ChatMessage(role="user", content=told or "-")]
    records: list[CallRecord] = []
    after = copy.deepcopy(state)
    for _, group in groupby(enumerate(_grouped(rubric, orders, tools, solution)), key=lambda item: item[1][0]):
        turn = [(number, call) for number, (_, call) in group]
        asked = [_tool_call(number, call) for number, call in turn]
        at = len(messages)
        messages.append(ChatMessage(role="assistant", tool_calls=asked))
        for number, call in turn:
            after = apply(after, call.patch)
            record = CallRecord(
                id=f"functions.{call.tool}:{number}",
                turn=at,
                tool=call.tool,
                arguments=call.arguments,
                result=call.result,
                error=_error(call.result),
                patch=call.patch,
            )
            records.append(record)
            messages.append(ChatMessage(role="tool", content=call.result, tool_call_id=record.id, name=call.tool))
    if reply.strip():
        messages.append(ChatMessage(role="assistant", content=reply))
    return Evidence(messages, records, state, after, tools)


def _tool_call(number: int, call: ReferenceCall) -> ToolCall:
    function = ToolCallFunction(name=call.tool, arguments=call.arguments)
    return ToolCall(id=f"functions.{call.tool}:{number}", function=function)


def _error(result: str) -> str:
    """A reference call whose result is nothing but an error has failed; a recovery has one."""
    try:
        value: Any = orjson.loads(result)
    except orjson.JSONDecodeError:
        return ""
    return "error" if isinstance(value, dict) and value.get("error") else ""


def _grouped(
    rubric: Sequence[Criterion],
    orders: Sequence[OrderSpec],
    tools: Sequence[ToolSpec],
    solution: Sequence[ReferenceCall],
) -> list[tuple[int, ReferenceCall]]:
    """Each call with the number of its turn."""
    lone = [
        CallRecord(id="", turn=number, tool=c.tool, arguments=c.arguments, result=c.result, error=_error(c.result))
        for number, c in enumerate(solution)
    ]
    calls = Calls(Evidence((), lone, {}, {}, tools), rubric)
    together = [
        {index for name in order.calls for index in calls.attempts(name)} for order in orders if order.form == SAME_TURN
    ]
    turns: list[tuple[int, ReferenceCall]] = []
    for index, call in enumerate(solution):
        joined = any({index - 1, index} <= group for group in together)
        turns.append((turns[-1][0] if joined else index, call))
    return turns

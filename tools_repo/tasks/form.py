"""The form in which a model writes a task, and the parts of a task row that are made of it.

JSON of any shape (arguments, results, records) is asked for as JSON text, since strict decoders know no free objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from tokenmill.judges.rubric.criteria import criterion_of, criterion_schema
from tokenmill.judges.rubric.validate import MAX_CRITERIA
from tokenmill.schemas.agentic import DECLINE, Criterion, Fact, ReferenceCall
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, array, choice, record
from tokenmill.schemas.tools import ToolSpec, dump

MAX_FACTS, MAX_CALLS, MAX_CHANGES = 16, 12, 40


_SOME = {"type": "string", "minLength": 1}
_CHANGES = array(record(op=choice(["add", "replace", "remove"]), path=TEXT, value=TEXT), MAX_CHANGES, 0)


def task_schema(tools: Sequence[ToolSpec], level: str) -> dict[str, Any]:
    """JSON Schema of a task for these tools."""
    names = [tool.name for tool in tools]
    call = record(tool=choice(names), arguments=TEXT, result=TEXT, changes=_CHANGES)
    violation = {"violation": array(call, MAX_CALLS, 1)} if level == DECLINE else {}
    return record(
        title=_SOME,
        situation=_SOME,
        goal=_SOME,
        opening=_SOME,
        facts=array(record(name=_SOME, value=_SOME, volunteered=BOOLEAN), MAX_FACTS, 0),
        changes=_CHANGES,
        solution=array(call, MAX_CALLS, 0),
        **violation,
        reply=_SOME,
        rubric=array(criterion_schema(names), MAX_CRITERIA, 1),
    )


@dataclass(frozen=True)
class Draft:
    """A task as it was written, its JSON texts parsed where they could be."""

    level: str
    title: str
    situation: str
    goal: str
    opening: str
    facts: list[Fact]
    changes: str
    """What is different from the agent's sample state, as JSON Patch."""
    solution: list[ReferenceCall]
    reply: str
    rubric: list[Criterion]
    violation: list[ReferenceCall] = field(default_factory=list)
    faults: tuple[tuple[str, str], ...] = ()
    """(reason, what is wrong) of the parts that could not be made."""


def draft_of(answer: dict[str, Any], level: str) -> Draft:
    """A draft from an answer to `task_schema`; never raises."""
    faults: list[tuple[str, str]] = []
    return Draft(
        level=level,
        title=_line(answer["title"]),
        situation=answer["situation"].strip(),
        goal=answer["goal"].strip(),
        opening=answer["opening"].strip(),
        facts=[
            Fact(name=_line(f["name"]), value=f["value"].strip(), volunteered=f["volunteered"]) for f in answer["facts"]
        ],
        changes=_patch(answer["changes"], "changes", faults),
        solution=_calls(answer["solution"], "solution", faults),
        reply=answer["reply"].strip(),
        rubric=_rubric(answer["rubric"], faults),
        violation=_calls(answer.get("violation", []), "violation", faults),
        faults=tuple(faults),
    )


def _line(text: str) -> str:
    return " ".join(text.split())


def _rubric(given: list[dict[str, Any]], faults: list[tuple[str, str]]) -> list[Criterion]:
    made = []
    for value in given:
        try:
            made.append(criterion_of(value))
        except ValueError as error:
            faults.append(("invalid_rubric", str(error)))
    return made


def _calls(given: list[dict[str, Any]], where: str, faults: list[tuple[str, str]]) -> list[ReferenceCall]:
    made = []
    for number, call in enumerate(given, start=1):
        here = f"{where} {number} ({call['tool']})"
        arguments = _json(call["arguments"].strip() or "{}")
        if not isinstance(arguments, dict):
            faults.append(("invalid_solution", f"{here}: its arguments are no JSON object"))
            arguments = {}
        result = _json(call["result"])
        if result is _NONE:
            faults.append(("invalid_solution", f"{here}: its result is no JSON"))
            result = None
        changes = _patch(call["changes"], here, faults)
        made.append(ReferenceCall(tool=call["tool"], arguments=dump(arguments), result=dump(result), patch=changes))
    return made


def _patch(given: list[dict[str, Any]], where: str, faults: list[tuple[str, str]]) -> str:
    patch = []
    for change in given:
        operation = {"op": change["op"], "path": change["path"]}
        if change["op"] != "remove":
            value = _json(change["value"])
            if value is _NONE and change["value"].lstrip()[:1] in ("{", "["):
                faults.append(("invalid_state", f"{where}: the value at {change['path'][:80]} is broken JSON"))
                value = None
            operation["value"] = change["value"] if value is _NONE else value  # a bare word is that text
        patch.append(operation)
    return dump(patch)


_NONE = object()


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return _NONE

"""What `Criterion.spec` holds for each kind of criterion, as JSON Schemas and as typed values.

    spec = parse(criterion)          # CallSpec | OrderSpec | ForbiddenSpec | StateSpec | AnswerSpec
    schema = criterion_schema(names) # for a model that writes criteria; `criterion_of` makes rows of its answers

Kimi K2 report, section 3.1.1: every task comes with an explicit rubric of success criteria, expected tool-use patterns
and checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from tokenmill.judges.rubric.conditions import OPERATORS, Condition
from tokenmill.schemas.agentic import ANSWER, CALL, CRITERIA, FORBIDDEN, ORDER, STATE, Criterion
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, Schema, array, choice, record
from tokenmill.schemas.tools import dump

SEQUENCE, SAME_TURN, AFTER_USER = "sequence", "same_turn", "after_user"
FORMS = (SEQUENCE, SAME_TURN, AFTER_USER)
"""Forms of `order`: each call succeeds before the next begins; all are called in one turn of the agent; the agent asked
the user and was answered before the first of them."""
SUCCEEDS, FAILS, EITHER = "success", "error", "either"


@dataclass(frozen=True)
class CallSpec:
    """A call that must be made: `at_least` to `at_most` times (None: any number)."""

    tool: str
    arguments: tuple[Condition, ...] = ()
    at_least: int = 1
    at_most: int | None = None
    result: str = SUCCEEDS


@dataclass(frozen=True)
class OrderSpec:
    """How the calls that meet other criteria stand to each other, or to the user's answers."""

    form: str
    calls: tuple[str, ...]
    """Ids of `call` criteria."""
    about: tuple[str, ...] = ()
    """For `after_user`: what the user's answer must have told, one of these; empty for anything."""


@dataclass(frozen=True)
class ForbiddenSpec:
    """A call that must not even be tried; without a tool, any call that changes the state."""

    tool: str = ""
    arguments: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class RecordSpec:
    """How many records of a kind must meet all conditions, whose paths begin at the record."""

    kind: str
    where: tuple[Condition, ...] = ()
    at_least: int = 1
    at_most: int | None = None


@dataclass(frozen=True)
class StateSpec:
    """What must hold of the final state: all of it."""

    conditions: tuple[Condition, ...] = ()
    records: tuple[RecordSpec, ...] = ()
    unchanged: tuple[str, ...] = ()
    """Kinds whose records are as they were at the start; `*` for every kind."""


@dataclass(frozen=True)
class ResultValue:
    """A value that only a tool's result gives, such as the number of a new booking."""

    call: str
    """Id of a `call` criterion."""
    path: str
    """JSON Pointer into that call's result."""


@dataclass(frozen=True)
class AnswerSpec:
    """What the agent must have told the user."""

    values: tuple[tuple[Any, ...], ...] = ()
    """Each of them must be told, in one of the given ways; numbers and dates in any notation."""
    results: tuple[ResultValue, ...] = ()
    never: tuple[Any, ...] = ()
    """Values that it must not tell."""
    statement: str = ""
    """What it must have said, for the judge; empty when the values are all."""
    declines: bool = False
    """Whether it must have declined the request, and said why."""

    @property
    def judged(self) -> str:
        """What the judge is asked whether the agent said, empty for nothing."""
        declined = "The agent clearly declined the request and said why." if self.declines else ""
        return " ".join(filter(None, (declined, self.statement.strip())))


Spec = CallSpec | OrderSpec | ForbiddenSpec | StateSpec | AnswerSpec

_SCALAR: list[dict[str, Any]] = [{"type": kind} for kind in ("string", "number", "boolean", "null")]
_VALUES = array({"anyOf": _SCALAR}, 30)


def _list(items: Schema, most: int, least: int = 0) -> Schema:
    return array(items, most, least)


_POINTER = {"type": "string", "pattern": "^(/.*)?$"}
_COUNT = {"type": "integer", "minimum": 0}
_AT_MOST = {"anyOf": [_COUNT, {"type": "null"}]}
CONDITION = record(
    path=_POINTER,
    **{"is": choice(OPERATORS)},
    value={"anyOf": [*_SCALAR, _VALUES]},
)
_CONDITIONS = _list(CONDITION, 20)

SCHEMAS: dict[str, dict[str, Any]] = {
    CALL: record(
        tool=TEXT,
        arguments=_CONDITIONS,
        at_least=_COUNT,
        at_most=_AT_MOST,
        result=choice([SUCCEEDS, FAILS, EITHER]),
    ),
    ORDER: record(form=choice(FORMS), calls=_list(TEXT, 12, 1), about=_list(TEXT, 10)),
    FORBIDDEN: record(tool=TEXT, arguments=_CONDITIONS),
    STATE: record(
        conditions=_CONDITIONS,
        records=_list(record(kind=TEXT, where=_CONDITIONS, at_least=_COUNT, at_most=_AT_MOST), 10),
        unchanged=_list(TEXT, 20),
    ),
    ANSWER: record(
        values=_list(_list({"anyOf": _SCALAR[:2]}, 8, 1), 12),
        results=_list(record(call=TEXT, path=_POINTER), 8),
        never=_list({"anyOf": _SCALAR[:2]}, 12),
        statement=TEXT,
        declines=BOOLEAN,
    ),
}
"""JSON Schema of `spec` for each kind, in the subset that structured decoding takes: every property is required and
nothing else allowed. `parse` fills in what is missing."""

_DEFAULTS: dict[str, dict[str, Any]] = {
    CALL: {"arguments": [], "at_least": 1, "at_most": None, "result": SUCCEEDS},
    ORDER: {"about": []},
    FORBIDDEN: {"tool": "", "arguments": []},
    STATE: {"conditions": [], "records": [], "unchanged": []},
    ANSWER: {"values": [], "results": [], "never": [], "statement": "", "declines": False},
}
_RECORD: dict[str, Any] = {"where": [], "at_least": 1, "at_most": None}
_CHECKS = {kind: Draft202012Validator(schema) for kind, schema in SCHEMAS.items()}


def criterion_schema(tools: Sequence[str] = ()) -> dict[str, Any]:
    """JSON Schema of one criterion as a model writes it; tools are limited to those named, where any are."""
    kinds = []
    for kind, spec in SCHEMAS.items():
        if tools and "tool" in spec["properties"]:
            names = list(tools) + ([""] if kind == FORBIDDEN else [])
            spec = {**spec, "properties": {**spec["properties"], "tool": choice(names)}}
        kinds.append(
            record(
                id={"type": "string", "minLength": 1, "maxLength": 40},
                kind=choice([kind]),
                description={"type": "string", "minLength": 1, "maxLength": 400},
                spec=spec,
                mandatory=BOOLEAN,
                weight={"type": "number", "exclusiveMinimum": 0, "maximum": 10},
                checkpoint={"type": "integer", "minimum": 0, "maximum": 20},
            )
        )
    return {"anyOf": kinds}


def criterion_of(value: dict[str, Any]) -> Criterion:
    """A row from what a model wrote by `criterion_schema`.

    Raises:
        ValueError: its spec is none; one line says what is wrong.
    """
    criterion = Criterion(
        id=value["id"],
        kind=value["kind"],
        description=" ".join(value["description"].split()),
        spec=dump(value["spec"]),
        mandatory=value["mandatory"],
        weight=float(value["weight"]),
        checkpoint=value["checkpoint"],
    )
    parse(criterion)
    return criterion


def parse(criterion: Criterion) -> Spec:
    """What decides a criterion.

    Raises:
        ValueError: an unknown kind, or a spec that is none; one line names the criterion and says what is wrong.
    """
    return _parse(criterion.id, criterion.kind, criterion.spec)


@lru_cache(maxsize=8192)
def _parse(name: str, kind: str, spec: str) -> Spec:
    where = f"criterion {name[:60]!r}"
    if kind not in CRITERIA:
        raise ValueError(f"{where}: its kind is one of {', '.join(CRITERIA)}, not {kind!r}")
    try:
        given = orjson.loads(spec)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{where}: its spec is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError(f"{where}: its spec is no JSON object")
    value = _DEFAULTS[kind] | given
    if kind == STATE and isinstance(value["records"], list):
        value["records"] = [_RECORD | r if isinstance(r, dict) else r for r in value["records"]]
    fault = best_match(_CHECKS[kind].iter_errors(value))
    if fault is not None:
        at = "/".join(map(str, fault.absolute_path)) or "its spec"
        raise ValueError(f"{where}: {at}: {fault.message[:200]}")
    try:
        return _BUILD[kind](value)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _conditions(listed: list[dict[str, Any]], *, state: bool = False) -> tuple[Condition, ...]:
    conditions = tuple(Condition(item["path"], item["is"], item["value"]) for item in listed)
    for condition in conditions:
        if condition.op == "unchanged" and not state:
            raise ValueError("`unchanged` is for the state only")
        if condition.op == "from_call" and state:
            raise ValueError("`from_call` is for arguments only")
    return conditions


def _bounds(value: dict[str, Any]) -> tuple[int, int | None]:
    least, most = value["at_least"], value["at_most"]
    if most is not None and most < least:
        raise ValueError(f"at_most {most} is below at_least {least}")
    return least, most


def _call(value: dict[str, Any]) -> CallSpec:
    if not value["tool"]:
        raise ValueError("it names no tool")
    return CallSpec(value["tool"], _conditions(value["arguments"]), *_bounds(value), value["result"])


def _order(value: dict[str, Any]) -> OrderSpec:
    calls = tuple(value["calls"])
    if value["form"] != AFTER_USER and len(calls) < 2:
        raise ValueError(f"the form {value['form']} needs two calls or more")
    if len(set(calls)) < len(calls):
        raise ValueError("a call is named twice")
    return OrderSpec(value["form"], calls, tuple(value["about"]))


def _forbidden(value: dict[str, Any]) -> ForbiddenSpec:
    return ForbiddenSpec(value["tool"], _conditions(value["arguments"]))


def _state(value: dict[str, Any]) -> StateSpec:
    records = tuple(RecordSpec(r["kind"], _conditions(r["where"]), *_bounds(r)) for r in value["records"])
    spec = StateSpec(_conditions(value["conditions"], state=True), records, tuple(value["unchanged"]))
    if not (spec.conditions or spec.records or spec.unchanged):
        raise ValueError("it asks nothing of the state")
    return spec


def _answer(value: dict[str, Any]) -> AnswerSpec:
    spec = AnswerSpec(
        tuple(map(tuple, value["values"])),
        tuple(ResultValue(r["call"], r["path"]) for r in value["results"]),
        tuple(value["never"]),
        value["statement"],
        value["declines"],
    )
    if not (spec.values or spec.results or spec.never or spec.judged):
        raise ValueError("it asks nothing of the answer")
    if any(option == "" for options in (*spec.values, spec.never) for option in options):
        raise ValueError("a value to be told is empty")
    return spec


_BUILD: dict[str, Callable[[dict[str, Any]], Spec]] = {
    CALL: _call,
    ORDER: _order,
    FORBIDDEN: _forbidden,
    STATE: _state,
    ANSWER: _answer,
}

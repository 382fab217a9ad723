"""Conditions on JSON values: what a rubric asks of an argument, of a record, of the state.

    condition = Condition("/amount", "between", [10, 20])
    holds(condition, {"amount": "12.50"})  # True

Values are compared as a person would who reads them: 12.5 is "12.50", "OSLO" is "Oslo", one instant is one instant
however it is written. `exactly` compares JSON values to the letter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from tokenmill.schemas.json_schema import compiled, found, linear

OPERATORS = {
    "equals": "the value, or for text the same words whatever the case; numbers and dates by what they mean",
    "exactly": "the same JSON value to the letter",
    "one_of": "equals one of the values in the list",
    "contains": "text that contains the given text, or a list with an item that equals it; with a list given: all of it",
    "same_items": "a list of these items in any order",
    "between": "a number, or a date as text, from the first to the second value of the list, both included",
    "near": "a number that differs from the first value of the list by at most the second",
    "at_least": "a number, or a date as text, not below the value",
    "at_most": "a number, or a date as text, not above the value",
    "matches": "text in which the regular expression (RE2 syntax) is found; use ^ and $ for all of it",
    "schema": "meets the JSON Schema, which is given as JSON text",
    "count": "a list or object with that many entries",
    "any": "there, whatever it is; value null",
    "absent": "not there; value null",
    "from_call": "a value that a result of the call criterion with this id gave",
    "unchanged": "as it was at the start; value null (in `state` criteria only)",
}
"""What `is` may say of a value."""

LISTS = frozenset(["one_of", "same_items", "between", "near"])
ORDERED = frozenset(["between", "near", "at_least", "at_most"])
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?")
_PHONE = re.compile(r"\+?[\d\s().-]{7,24}")
_SPACES = re.compile(r"\s+")
_MISSING = object()


@dataclass(frozen=True)
class Condition:
    """One thing that must hold of the value at a JSON Pointer; a `*` in it stands for every key or index."""

    path: str
    op: str
    value: Any = None

    def __post_init__(self) -> None:
        if self.op not in OPERATORS:
            raise ValueError(f"`is` is one of {', '.join(OPERATORS)}, not {self.op!r}")
        if self.path and not self.path.startswith("/"):
            raise ValueError(f"the path {self.path!r} is no JSON Pointer: it begins with /")
        problem = _operand_fault(self.op, self.value)
        if problem:
            raise ValueError(f"{self.path or '/'} {self.op}: {problem}")

    def __str__(self) -> str:
        return f"{self.path or '/'} {self.op} {orjson.dumps(self.value).decode()[:200]}"


def _operand_fault(op: str, value: Any) -> str:
    if op in LISTS and not (isinstance(value, list) and value):
        return "the value is a list that is not empty"
    if op in ("between", "near") and len(value) != 2:
        return "the value is a list of two"
    if op == "near" and any(number(part) is None for part in value):
        return "the values are numbers"
    if op in ORDERED and any(_rank(part) is None for part in (value if isinstance(value, list) else [value])):
        return "the value is a number or a date such as 2026-03-04"
    if op == "count" and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        return "the value is a whole number from 0"
    if op in ("matches", "schema", "from_call") and not (isinstance(value, str) and value):
        return "the value is text"
    try:
        if op == "matches":
            compiled(value)
        if op == "schema":
            _validator(value)
    except ValueError as error:
        return str(error)
    return ""


def holds(
    condition: Condition,
    document: Any,
    before: Any = None,
    given: Callable[[str], Iterator[Any]] | None = None,
) -> bool:
    """Whether the condition holds in `document`; with `*` in the path: for some value that it leads to.

    Args:
        before: the document as it was at the start, for `unchanged`.
        given: all values in the results of a call criterion, for `from_call`.
    """
    found = list(values_at(document, condition.path))
    if condition.op == "absent":
        return not found
    if condition.op == "unchanged":
        return found == list(values_at(before, condition.path))
    if condition.op == "from_call":
        sources = list(given(condition.value)) if given else []
        return any(any(same(value, source) for source in sources) for value in found)
    return any(_meets(condition.op, value, condition.value) for value in found)


def values_at(document: Any, path: str) -> Iterator[Any]:
    """The values at a JSON Pointer (RFC 6901) in which `*` stands for every key or index."""
    level = [document]
    for step in path.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values() if step == "*" else [value[key]] if key in value else []
            elif isinstance(value, list):
                if step == "*":
                    below += value
                elif key.isdecimal() and int(key) < len(value):
                    below.append(value[int(key)])
        level = below
    yield from level


def leaves(value: Any) -> Iterator[Any]:
    """Every scalar in a JSON value, and every key of an object, which may be an identifier."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def _meets(op: str, value: Any, wanted: Any) -> bool:
    match op:
        case "any":
            return True
        case "exactly":
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)
        case "equals":
            return same(value, wanted)
        case "one_of":
            return any(same(value, option) for option in wanted)
        case "contains":
            return all(_contains(value, part) for part in (wanted if isinstance(wanted, list) else [wanted]))
        case "same_items":
            return isinstance(value, list) and _same_items(value, wanted)
        case "near":
            left, middle, margin = (number(each) for each in (value, *wanted))
            return left is not None and middle is not None and margin is not None and abs(left - middle) <= margin
        case "between" | "at_least" | "at_most":
            low = wanted[0] if op == "between" else wanted if op == "at_least" else None
            high = wanted[1] if op == "between" else wanted if op == "at_most" else None
            return (low is None or _not_above(low, value)) and (high is None or _not_above(value, high))
        case "matches":
            written = value if isinstance(value, str) else _text(value)
            return not isinstance(value, dict | list) and found(wanted, written)
        case "schema":
            return _validator(wanted).is_valid(value)
        case "count":
            return isinstance(value, dict | list) and len(value) == wanted
    raise ValueError(f"no operator {op!r}")


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values mean the same: numbers by value, text by its words whatever the case, instants by time."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict | list) or isinstance(b, dict | list):
        return False
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b or ((isinstance(a, str) or isinstance(b, str)) and _text(a) == _text(b))
    left, right = number(a), number(b)
    if left is not None and right is not None and not (_padded(a) or _padded(b)):
        return left == right
    if _text(a) == _text(b):
        return True
    here, there = _instant(a), _instant(b)
    if here is not None and there is not None:
        if (here.tzinfo is None) != (there.tzinfo is None):
            return here.replace(tzinfo=None) == there.replace(tzinfo=None)
        return here == there
    return (
        isinstance(a, str)
        and isinstance(b, str)
        and bool(_PHONE.fullmatch(a) and _PHONE.fullmatch(b))
        and (re.sub(r"\D", "", a) == re.sub(r"\D", "", b))
    )


def number(value: Any) -> Decimal | None:
    """A number, or text that is nothing but one: `1,240.50`, `$12`; None otherwise."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        value = repr(value)
        if value in ("nan", "inf", "-inf"):
            return None
    elif not isinstance(value, str) or len(value) > 64 or not _NUMBER.fullmatch(value := value.strip().lstrip("$€£")):
        return None
    try:
        return Decimal(value.replace(",", ""))
    except InvalidOperation:
        return None


def _text(value: Any) -> str:
    """Text as it is compared: compatibility forms, case and runs of spaces made one."""
    if not isinstance(value, str):
        return orjson.dumps(value).decode() if not isinstance(value, int) or isinstance(value, bool) else str(value)
    folded = unicodedata.normalize("NFKC", value).casefold()
    return _SPACES.sub(" ", folded.replace("’", "'")).strip()


def _padded(value: Any) -> bool:
    """Whether text is a code rather than a number: leading zeros mean something in `0042`."""
    return isinstance(value, str) and len(value) > 1 and value[0] == "0" and value[1].isdigit()


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, list):
        return any(same(item, part) for item in value)
    if isinstance(value, dict):
        return isinstance(part, str) and part in value
    return isinstance(value, str) and _text(part) in _text(value)


def _same_items(value: list[Any], wanted: list[Any]) -> bool:
    left = list(value)
    for item in wanted:
        at = next((i for i, other in enumerate(left) if same(item, other)), None)
        if at is None:
            return False
        del left[at]
    return not left


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, str) or not _DATE.fullmatch(value := value.strip()):
        return None
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None


def _rank(value: Any) -> Decimal | datetime | None:
    amount = number(value)
    return amount if amount is not None else _instant(value)


def _not_above(low: Any, high: Any) -> bool:
    a, b = _rank(low), _rank(high)
    if isinstance(a, datetime) and isinstance(b, datetime):
        return a.replace(tzinfo=None) <= b.replace(tzinfo=None)
    return isinstance(a, Decimal) and isinstance(b, Decimal) and a <= b


@lru_cache(maxsize=1024)
def _validator(text: str) -> Any:
    """A validator that neither backtracks nor fetches: references lead into the schema itself only."""
    try:
        schema = orjson.loads(text)
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"no JSON Schema: {error.message[:200]}") from None
    except orjson.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    for reference in _references(schema):
        if not str(reference).startswith("#"):
            raise ValueError("a schema may refer to itself only")
    for pattern in _patterns(schema):
        compiled(pattern)
    if "patternProperties" in text and "unevaluatedProperties" in text:
        raise ValueError("a schema cannot have patternProperties and unevaluatedProperties")
    return linear(Draft202012Validator)(schema, registry=Registry())


def _references(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef"):
                yield value
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "pattern" and isinstance(value, str):
                yield value
            if key == "patternProperties" and isinstance(value, dict):
                yield from value
            yield from _patterns(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _patterns(item)

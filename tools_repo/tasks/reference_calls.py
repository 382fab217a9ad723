"""What a reference call says of itself: whether it failed, what it names, whether its tool may do this."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from jsonschema.exceptions import best_match
from tokenmill.schemas.agentic import ReferenceCall
from tokenmill.schemas.json_schema import validator_for
from tokenmill.schemas.tools import ToolSpec

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}.*")
_PLAIN = re.compile(r"[^a-z0-9]")


def canonical_calls(calls: Sequence[ReferenceCall]) -> list[tuple[str, str]]:
    """(tool, canonical arguments) of each call."""
    return [
        (call.tool, orjson.dumps(orjson.loads(call.arguments), option=orjson.OPT_SORT_KEYS).decode()) for call in calls
    ]


def reads_only(spec: ToolSpec) -> bool:
    """Whether a tool says of itself that it changes nothing; one that says nothing may."""
    hints = orjson.loads(spec.annotations or "{}")
    semantics = spec.semantics
    return not semantics.writes and (hints.get("readOnlyHint") is True or bool(semantics.reads))


def has_failed(call: ReferenceCall) -> bool:
    """Whether its result is an error."""
    result = orjson.loads(call.result)
    return isinstance(result, dict) and bool(result.get("error"))


def result_fault(call: ReferenceCall, spec: ToolSpec) -> str:
    """How its result breaks the tool's output schema; empty when it meets it or there is none."""
    schema = spec.returns
    if schema is None:
        return ""
    fault = best_match(validator_for(schema)(schema).iter_errors(orjson.loads(call.result)))
    return "" if fault is None else fault.message[:200]


def texts_of(value: Any) -> Iterator[str]:
    """Every text and number in a JSON value, as text."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def stands(value: str, text: str) -> bool:
    """Whether a value stands in a text as a word of its own, whatever the case."""
    return bool(value) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None


def identifier(value: str) -> bool:
    """Whether text looks like something that nobody can guess: letters and digits mixed, or many digits."""
    bare = plain(value)
    if _DATE.fullmatch(value) or " " in value.strip() or len(bare) < 4:
        return False
    digits = sum(character.isdigit() for character in bare)
    return (digits > 0 and any(c.isalpha() for c in bare)) or (digits >= 6 and digits == len(value))


def plain(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return _PLAIN.sub("", text.lower())

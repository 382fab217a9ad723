"""Untrusted text inside TypeScript: comments, literals and names out of which nothing can break."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_LANGUAGE = """
break case catch class const continue debugger default delete do else enum export extends false finally for function if
import in instanceof new null return super switch this throw true try typeof var void while with implements interface
let package private protected public static yield await async of unique keyof infer readonly asserts is abstract as satisfies
accessor declare module namespace type
"""
_NO_ALIAS = "any bigint boolean never number object string symbol undefined unknown intrinsic"
_RESERVED = frozenset(f"{_LANGUAGE} {_NO_ALIAS}".split())
"""Words of the language, and names that a type alias must not have."""
_LINE_ENDS = re.compile(r"\r\n|[\n\r\u2028\u2029]")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_DIRECTIVE = re.compile(r"\s*/*\s*@ts-", re.IGNORECASE)
_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_LONGEST_NUMBER = 300
"""Digits of a number that is still written as itself."""
_LONGEST_NAME = 64
_SHOWN = 500
"""Characters of a default or a pattern shown in a comment."""
_DEEPEST = 48
"""Nesting of a constant beyond which it is `any`."""


def is_identifier(name: str) -> bool:
    """Whether a type can have this name: ASCII only, and no word of the language."""
    return _IDENTIFIER.fullmatch(name) is not None and name not in _RESERVED


def identifier(name: str, taken: set[str]) -> str:
    """A name for a type, like `name` and not in `taken`; it is added there."""
    plain = re.sub(r"[^A-Za-z0-9_$]+", "_", name)[:_LONGEST_NAME] or "_"
    if not is_identifier(plain):
        plain = f"_{plain}"
    chosen, count = plain, 2
    while chosen in taken:
        chosen, count = f"{plain}_{count}", count + 1
    taken.add(chosen)
    return chosen


def key(name: str) -> str:
    """A property's name, quoted unless it is plain."""
    return name if _IDENTIFIER.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """A string literal."""
    return _ESCAPED.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(text, ensure_ascii=False))


def literal(value: Any, depth: int = 0) -> str:
    """A JSON value as the type that only it has, on one line: structures become object and tuple types."""
    if depth > _DEEPEST:
        return "any"
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, list):
        return f"[{', '.join(literal(item, depth + 1) for item in value)}]"
    if isinstance(value, dict):
        fields = ", ".join(f"{key(str(name))}: {literal(item, depth + 1)}" for name, item in value.items())
        return f"{{ {fields} }}" if fields else "{}"
    return "any"


def _number(value: int | float) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            return "number"
        # JSON does not tell 1.0 from 1; beyond 2**53 the two part ways.
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return str(value) if abs(value) < 10**_LONGEST_NUMBER else "number"


def comment(text: Any) -> list[str]:
    """`//` lines of a description; none for what is no text. A line cannot end early nor instruct the compiler."""
    if not isinstance(text, str) or not text.strip():
        return []
    lines = []
    for line in _LINE_ENDS.split(text.strip()):
        line = _UNPRINTABLE.sub(" ", line).rstrip()
        mark = "//:" if _DIRECTIVE.match(line) else "//"
        lines.append(f"{mark} {line}".rstrip())
    return lines


_WORDS = (
    ("minimum", "minimum"),
    ("maximum", "maximum"),
    ("exclusiveMinimum", "above"),
    ("exclusiveMaximum", "below"),
    ("multipleOf", "multiple of"),
    ("minLength", "minimum length"),
    ("maxLength", "maximum length"),
    ("minItems", "minimum items"),
    ("maxItems", "maximum items"),
    ("pattern", "pattern"),
    ("format", "format"),
)


def constraints(schema: dict[str, Any]) -> str:
    """What a schema demands beyond its type, as one phrase: `Integer, minimum 1, maximum 100`. Empty if nothing."""
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    said = ["integer"] if "integer" in kinds else []
    for word, phrase in _WORDS:
        value = schema.get(word)
        if isinstance(value, int | float) and not isinstance(value, bool):
            said.append(f"{phrase} {_number(value)}")
        elif isinstance(value, str) and value:
            said.append(f"{phrase} {value[:_SHOWN]}")
    if schema.get("uniqueItems") is True:
        said.append("no item twice")
    return (said[0][:1].upper() + ", ".join(said)[1:]) if said else ""

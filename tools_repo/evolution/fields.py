"""Parameters and results as models write them, lists of typed fields, compiled to JSON Schema.

A list of fields is what every model manages, and a strict decoder can be held to it; what comes out is always a valid
schema. What makes no sense is told, field by field, so that it can be mended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, array, choice, record

TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"},
    "duration": {"type": "string", "format": "duration"},
    "email": {"type": "string", "format": "email"},
    "uri": {"type": "string", "format": "uri"},
    "uuid": {"type": "string", "format": "uuid"},
}
OBJECT, MAP = "object", "map"
LIST = "[]"
DEPTH = 2
"""Levels of objects below the arguments themselves."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_LIMITS = re.compile(r"\s*(-?\d+(?:\.\d+)?)?\s*\.\.\s*(-?\d+(?:\.\d+)?)?\s*")
_ALL_TYPES = [*TYPES, OBJECT, MAP]
_MAX_FIELDS = 30


def field_schema(*, results: bool = False, depth: int = DEPTH) -> dict[str, Any]:
    """JSON Schema of one field, every property required, as strict decoders want it. Results have neither limits nor
    defaults."""
    types = _ALL_TYPES if depth else list(TYPES)
    properties: dict[str, Any] = {
        "name": TEXT,
        "description": TEXT,
        "type": choice([*types, *(name + LIST for name in types)]),
        "required": BOOLEAN,
        "choices": array(TEXT),
    }
    if not results:
        properties |= {"limits": TEXT, "default": TEXT}
    properties["refers_to"] = TEXT
    if depth:
        properties["fields"] = array(field_schema(results=results, depth=depth - 1))
    return record(**properties)


def compile_fields(fields: Any, kinds: Iterable[str], where: str, faults: list[str]) -> dict[str, Any]:
    """The JSON Schema of an object with these fields. Fields that make no sense are left out and told in `faults`.

    Args:
        kinds: kinds of entity that a field may refer to.
        where: name of the object, for the faults.
    """
    return _object(fields, set(kinds), where, faults, 0)


def _object(fields: Any, kinds: set[str], where: str, faults: list[str], level: int) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    if not isinstance(fields, list) or len(fields) > _MAX_FIELDS:
        faults.append(f"{where}: give a list of at most {_MAX_FIELDS} fields")
        fields = []
    for field in fields:
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            faults.append(f"{where}: a field has a name in snake_case, not {_cut(name)!r}")
            continue
        at = f"{where}.{name}"
        if name in properties:
            faults.append(f"{at} is there twice")
            continue
        schema = _field(field, kinds, at, faults, level)
        if schema is not None:
            properties[name] = schema
            if field.get("required", True) is True:
                required.append(name)
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    return made | {"additionalProperties": False}


def _field(field: dict[str, Any], kinds: set[str], at: str, faults: list[str], level: int) -> dict[str, Any] | None:
    said, inner = field.get("type"), field.get("fields") or []
    kind = said.removesuffix(LIST) if isinstance(said, str) else ""
    if kind in TYPES:
        schema = dict(TYPES[kind])
    elif kind == OBJECT and level < DEPTH:
        if not inner:
            faults.append(f'{at}: an object lists its own "fields"')
        schema = _object(inner, kinds, at, faults, level + 1)
    elif kind == MAP and level < DEPTH:
        if not isinstance(inner, list) or len(inner) != 1 or not isinstance(inner[0], dict):
            faults.append(f'{at}: a map has exactly one field in "fields", that of its values')
            return None
        schema = {"type": "object", "additionalProperties": _field(inner[0], kinds, at, faults, level + 1) or {}}
    else:
        faults.append(f"{at}: its type is one of {', '.join(_ALL_TYPES)}, with {LIST} for a list, not {_cut(said)!r}")
        return None
    _refine(schema, field, kind, kinds, at, faults)
    many = said != kind
    description = field.get("description")
    if not isinstance(description, str) or not description.strip():
        faults.append(f"{at}: it has no description")
        description = ""
    told = {"description": " ".join(description.split())} if description else {}
    schema = {"type": "array", "items": schema} if many else schema
    default = field.get("default") or ""
    if default and isinstance(default, str) and not many and kind in TYPES:
        _default(schema, default, kind, at, faults)
    return told | schema


def _refine(
    schema: dict[str, Any], field: dict[str, Any], kind: str, kinds: set[str], at: str, faults: list[str]
) -> None:
    """Choices, limits and the kind referred to."""
    target = field.get("refers_to") or ""
    if target:
        if target not in kinds:
            faults.append(f"{at}: it refers to {_cut(target)!r}, which is no kind of entity")
        elif kind in ("text", "uuid"):
            schema["x-ref"] = target
    choices = [c for c in field.get("choices") or () if isinstance(c, str) and c]
    if choices and not target and kind in ("text", "integer"):
        choices = list(dict.fromkeys(choices))
        if kind == "integer":
            try:
                schema["enum"] = [int(choice) for choice in choices]
            except ValueError:
                faults.append(f"{at}: the choices of an integer are integers")
        else:
            schema["enum"] = choices
    limits = field.get("limits") or ""
    if limits and kind in ("integer", "number"):
        _limit(schema, limits, kind, at, faults)


def _limit(schema: dict[str, Any], limits: Any, kind: str, at: str, faults: list[str]) -> None:
    found = _LIMITS.fullmatch(limits) if isinstance(limits, str) else None
    if not found or not any(found.groups()):
        faults.append(f'{at}: limits are written like "1..100" or "0.."')
        return
    number = int if kind == "integer" else float
    try:
        least, most = (number(text) if text else None for text in found.groups())
    except ValueError:
        faults.append(f"{at}: the limits of an integer are integers")
        return
    if least is not None and most is not None and least > most:
        faults.append(f"{at}: its limits are the wrong way round")
        return
    for name, value in (("minimum", least), ("maximum", most)):
        if value is not None:
            schema[name] = value


def _default(schema: dict[str, Any], text: str, kind: str, at: str, faults: list[str]) -> None:
    try:
        value: Any = text
        if kind == "boolean":
            value = {"true": True, "false": False}[text.strip().lower()]
        elif kind in ("integer", "number"):
            value = int(text) if kind == "integer" else float(text)
            if not math.isfinite(value):
                raise ValueError
    except (ValueError, KeyError):
        faults.append(f"{at}: its default {_cut(text)!r} is no {kind}")
        return
    out = "enum" in schema and value not in schema["enum"]
    if kind in ("integer", "number"):
        out |= not schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if out:
        faults.append(f"{at}: its default {_cut(text)!r} is none of the values that it may have")
    else:
        schema["default"] = value


def properties(schema: dict[str, Any]) -> Sequence[tuple[str, dict[str, Any]]]:
    """(name, schema) of every property of a compiled schema, those of nested objects included."""
    found, stack = [], [schema]
    while stack:
        at = stack.pop()
        for name, inner in (at.get("properties") or {}).items():
            found.append((name, inner))
            stack.append(inner)
        stack += [at[key] for key in ("items", "additionalProperties") if isinstance(at.get(key), dict)]
    return found


def _cut(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"

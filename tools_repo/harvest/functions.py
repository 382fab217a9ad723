"""Tools from function specifications, as requests to a model carry them: OpenAI's (wrapped in `function` or bare), Anthropic's
(`input_schema`), and Google's (`response`), by themselves, in lists, or in the rows of a data set.

Many such lists were written for Python and say `dict`, `float` or `tuple` where JSON Schema says `object`, `number` and
`array`. Those names have one meaning each and are put right; all else stands as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

_SCHEMAS = ("parameters", "input_schema", "inputSchema")
_LISTS = ("tools", "functions", "function")
"""Where a request, or the row of a data set, carries its functions."""
_TYPES = {
    "dict": "object", "list": "array", "tuple": "array", "float": "number", "double": "number", "int": "integer",
    "long": "integer", "str": "string", "bool": "boolean", "none": "null",
}  # fmt: skip
_JSON = frozenset(("object", "array", "number", "integer", "string", "boolean", "null"))
_ANY = frozenset(("any", "object?"))
_DATA = frozenset(("enum", "const", "default", "examples", "example", "required"))
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_DEPTH = 64
_PLAIN = re.compile(r"[A-Za-z]+")


def is_function(value: Any) -> bool:
    """Whether a JSON value is one function specification; one without arguments says at least what it does."""
    inner = _inner(value)
    if inner is None or not isinstance(inner.get("name"), str):
        return False
    return any(isinstance(inner.get(key), dict) for key in _SCHEMAS[:2]) or (
        inner is not value and set(inner) <= {"name", "description", "strict", "parameters"}
    )


def functions_of(document: Any) -> list[dict[str, Any]] | None:
    """The functions that a document holds, as elements of an MCP `tools/list`; None where it holds none.

    A document is one function, a list of functions, or an object that carries such a list (a request's body, a row of a
    data set, of which the list may itself be JSON text).
    """
    found = _list_of(document)
    return None if found is None else [as_mcp(function) for function in found]


def as_mcp(function: dict[str, Any]) -> dict[str, Any]:
    """One function as an element of an MCP `tools/list`."""
    inner = _inner(function)
    assert inner is not None
    schema = next((inner[key] for key in _SCHEMAS if inner.get(key) is not None), None)
    tool: dict[str, Any] = {
        "name": inner["name"],
        "description": inner.get("description") or "",
        "inputSchema": {"type": "object", "properties": {}} if not schema else _mended(schema),
    }
    if isinstance(tool["inputSchema"], dict) and "properties" in tool["inputSchema"]:
        tool["inputSchema"].setdefault("type", "object")
    if isinstance(inner.get("response"), dict) and inner["response"]:
        tool["outputSchema"] = _mended(inner["response"])
    return tool


def _inner(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    wrapped = value.get("function")
    return wrapped if isinstance(wrapped, dict) and value.get("type", "function") == "function" else value


def _list_of(document: Any) -> list[dict[str, Any]] | None:
    if is_function(document):
        return [document]
    if isinstance(document, list):
        return document if document and all(is_function(item) for item in document) else None
    if not isinstance(document, dict):
        return None
    for key in _LISTS:
        inner = document.get(key)
        if isinstance(inner, str) and inner.lstrip()[:1] in ("[", "{"):
            try:
                inner = orjson.loads(inner)
            except orjson.JSONDecodeError:
                continue
        if inner is not None and (found := _list_of(inner)) is not None:
            return found
    return None


def _mended(schema: Any, depth: int = 0) -> Any:
    """A schema whose types are JSON Schema's. Data in it (`enum`, `default`, …) is left alone."""
    if depth > _DEPTH or not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DATA:
            out[key] = value
        elif key == "type":
            out.update(_type(value))
        elif key in _NAMED and isinstance(value, dict):
            out[key] = {name: _mended(inner, depth + 1) for name, inner in value.items()}
        elif isinstance(value, list):
            out[key] = [_mended(item, depth + 1) for item in value]
        else:
            out[key] = _mended(value, depth + 1)
    return out


def _type(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"type": [next(_names(item), item) for item in value]}
    if isinstance(value, str) and value.strip().lower() in _ANY:
        return {}
    return {"type": next(_names(value), value)}


def _names(value: Any) -> Iterator[str]:
    """JSON Schema's name for a type, where there is one."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        lower = value.lower()
        name = _TYPES.get(lower, lower)
        if name in _JSON:
            yield name

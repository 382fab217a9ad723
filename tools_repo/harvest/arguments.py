"""Arguments for trying a tool, drawn from its input schema: defaults and examples where it has some, else plain values that
suit the parameter's name. The same schema gives the same arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tokenmill.schemas.typescript.render import resolve

_DEPTH = 6
_FORMATS = {
    "date": "2025-06-02", "date-time": "2025-06-02T09:00:00Z", "time": "09:00:00Z", "email": "ada@example.org",
    "uri": "https://example.org/", "url": "https://example.org/", "uuid": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "ipv4": "192.0.2.1", "hostname": "example.org",
}  # fmt: skip
_NAMED = (
    (("timezone", "time_zone"), "Europe/Paris"), (("datetime", "timestamp"), "2025-06-02T09:00:00Z"),
    (("date", "day"), "2025-06-02"), (("time",), "16:30"), (("email",), "ada@example.org"),
    (("url", "uri", "link"), "https://example.org/"), (("country",), "France"), (("city", "place", "location"), "Paris"),
    (("language", "lang"), "en"), (("currency",), "EUR"), (("sql",), "SELECT 1"), (("expression", "formula"), "2 + 2"),
    (("regex", "pattern"), "a.*"), (("query", "search", "keyword", "term"), "test"), (("code",), "print(1)"),
    (("json",), "{}"), (("color", "colour"), "#336699"), (("id",), "1"), (("name", "title"), "example"),
)  # fmt: skip
_PATHS = ("path", "file", "filename", "directory", "dir", "folder", "repo", "root")
PLAIN = "hello"


def drawn(schema: Mapping[str, Any], folder: str) -> Iterator[dict[str, Any]]:
    """Arguments to try, without repetition: what is required, then everything, then (where something is required) nothing,
    which shows how the tool refuses a call.

    Args:
        folder: one that is there, for parameters that ask for a path.
    """
    root = dict(schema)
    properties = root.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    required = [name for name in root.get("required") or () if name in names]
    seen: list[dict[str, Any]] = []
    for wanted in (required, names, *([[]] if required else [])):
        made = {name: _value(root, properties[name], name, folder, 0) for name in wanted} if properties else {}
        if made not in seen:
            seen.append(made)
            yield made


def _value(root: dict[str, Any], schema: Any, name: str, folder: str, depth: int) -> Any:
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        schema = resolve(root, schema["$ref"])
    if not isinstance(schema, dict) or depth > _DEPTH:
        return PLAIN
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if isinstance(options, list) and "type" not in schema:
        real = [option for option in options if isinstance(option, dict) and option.get("type") != "null"]
        return _value(root, {**real[0], **_told(schema)}, name, folder, depth + 1) if real else None
    kind = schema.get("type")
    kind = next((k for k in kind if k != "null"), "null") if isinstance(kind, list) else kind
    if kind == "object" or (kind is None and "properties" in schema):
        inner = schema.get("properties") or {}
        wanted = [key for key in schema.get("required") or () if key in inner]
        return {key: _value(root, inner[key], key, folder, depth + 1) for key in wanted}
    if kind == "array":
        least = max(1, schema.get("minItems") or 1)
        return [_value(root, schema.get("items") or {}, name, folder, depth + 1) for _ in range(min(least, 5))]
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "boolean":
        return False
    return None if kind == "null" else _text(schema, name, folder)


def _told(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("title", "description") if key in schema}


def _number(schema: Mapping[str, Any]) -> int | float:
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    value = 1 if low is None else low + ("exclusiveMinimum" in schema)
    return min(value, high) if isinstance(high, int | float) else value


def _text(schema: Mapping[str, Any], name: str, folder: str) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    lower = name.lower()
    words = set(lower.replace("-", "_").split("_")) | {lower}
    if words & set(_PATHS) or lower.endswith(("path", "file", "dir", "directory")):
        return folder if not lower.endswith(("file", "filename")) else f"{folder}/example.txt"
    text = next((value for keys, value in _NAMED if any(k in words or lower.endswith(k) for k in keys)), PLAIN)
    least = schema.get("minLength") or 0
    return text * (-(-least // len(text))) if isinstance(least, int) and least > len(text) else text

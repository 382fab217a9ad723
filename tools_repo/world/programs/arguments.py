"""Arguments to try a tool with: valid by its schema, about records that exist, and about records that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.world import ToolResult
from tokenmill.tools_repo.world.call_checks import NOT_FOUND, Checks
from tokenmill.tools_repo.world.entities import State

UNKNOWN = "NO-SUCH-RECORD-404"
_VARIANTS = 12
_DEPTH = 6


def valid(spec: ToolSpec, checks: Checks, state: State, now: str, most: int = 6) -> list[dict[str, Any]]:
    """Up to `most` different arguments that pass the checks over this state; none where a schema asks for more than is
    tried here (patterns, combinations)."""
    found: dict[str, dict[str, Any]] = {}
    for turn in range(_VARIANTS):
        arguments = _Maker(spec.parameters, checks, state, now, turn).whole()
        if not isinstance(checks(spec.name, dump(arguments), state), ToolResult):
            found.setdefault(dump(arguments), arguments)
        if len(found) == most:
            break
    return list(found.values())


def dangling(spec: ToolSpec, checks: Checks, state: State, now: str) -> list[dict[str, Any]]:
    """Arguments that are valid but for naming a record that does not exist, where the checks can tell that."""
    found: dict[str, dict[str, Any]] = {}
    for arguments in valid(spec, checks, state, now, most=2):
        for name, value in arguments.items():
            for other in (UNKNOWN, [UNKNOWN]):
                if type(other) is type(value):
                    changed = {**arguments, name: other}
                    refused = checks(spec.name, dump(changed), state)
                    if isinstance(refused, ToolResult) and refused.error == NOT_FOUND:
                        found.setdefault(dump(changed), changed)
    return list(found.values())


class _Maker:
    def __init__(self, schema: Mapping[str, Any], checks: Checks, state: State, now: str, turn: int) -> None:
        self.root, self.checks, self.state, self.now, self.turn = schema, checks, state, now, turn

    def whole(self) -> dict[str, Any]:
        made = self._value(self.root, "", 0)
        return made if isinstance(made, dict) else {}

    def _value(self, schema: Any, name: str, depth: int) -> Any:
        schema = schema if isinstance(schema, dict) else {}
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, list) and options:
            return self._value(options[self.turn % len(options)], name, depth)
        for key in ("enum", "examples"):
            if isinstance(schema.get(key), list) and schema[key]:
                return schema[key][self.turn % len(schema[key])]
        for key in ("const", "default"):
            if key in schema and (key == "const" or self.turn % 2):
                return schema[key]
        kind = schema.get("type")
        kind = kind[self.turn % len(kind)] if isinstance(kind, list) and kind else kind
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        if kind == "array":
            count = max(int(schema.get("minItems", 0)), 1)
            items = [self._value(schema.get("items"), name, depth + 1) for _ in range(min(count, 20))]
            return items if depth < _DEPTH else []
        if kind in ("integer", "number"):
            return self._number(schema, whole=kind == "integer")
        if kind == "boolean":
            return self.turn % 2 == 0
        if kind == "null":
            return None
        return self._text(schema, name)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or depth > _DEPTH:
            return {}
        required = schema.get("required", ())
        wanted = [name for at, name in enumerate(properties) if name in required or (self.turn >> at % 3) % 2 == 0]
        return {name: self._value(properties[name], name, depth + 1) for name in wanted}

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> Any:
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0 if self.turn % 3 == 2 else 1))
        value = least + (1 if "exclusiveMinimum" in schema else 0) + (self.turn % 3 if self.turn > 3 else 0)
        if "maximum" in schema:
            value = min(value, schema["maximum"])
        if schema.get("multipleOf"):
            value = schema["multipleOf"] * max(1, round(value / schema["multipleOf"]))
        return int(value) if whole else value

    def _text(self, schema: Mapping[str, Any], name: str) -> str:
        form = schema.get("format")
        if form in ("date", "date-time", "time"):
            return {"date": self.now[:10], "date-time": self.now, "time": self.now[11:]}[form]
        if form == "email":
            return "pat@example.org"
        identifiers = [i for kind in self._kinds(schema, name) for i in self.state.get(kind, {})]
        if identifiers:
            return identifiers[self.turn % len(identifiers)]
        text = self._seen(name) or "sample text"
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
        text = text + "x" * max(0, min(least, 1_000) - len(text))
        return text[:most] if isinstance(most, int) else text

    def _kinds(self, schema: Mapping[str, Any], name: str) -> Iterator[str]:
        entities = self.checks.entities
        if entities is None:
            return
        if isinstance(schema.get("x-ref"), str):
            yield schema["x-ref"]
        elif (kind := entities.kind_of(name)) is not None:
            yield kind
        elif name == "id":
            yield from entities.kinds

    def _seen(self, name: str) -> str:
        """What records hold under this name."""
        texts = [
            record[name]
            for records in self.state.values()
            for record in records.values()
            if isinstance(record.get(name), str)
        ]
        return texts[self.turn % len(texts)] if texts else ""

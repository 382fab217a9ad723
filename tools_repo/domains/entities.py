"""What records of an imported domain look like: an entity model read off the data itself, and a part of the data to show.

Nobody vouches for such a model. It describes the records to those who write tasks; what the tools may leave behind is for the
tools to decide, and is not held to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenmill.schemas.tools import dump
from tokenmill.tools_repo.world.entities import MAX_KINDS, State

SAMPLE = 48 * 1024
"""Bytes of the records that an agent's row shows of a larger one."""
_READ = 200
"""Records of a kind that its schema is read off."""
_KEYS, _ENUM, _DEPTH = 40, 8, 3
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def inferred(state: State) -> str:
    """An entity model that a state meets, as JSON; kinds past the limit of a model are left out."""
    model = {}
    for kind, records in list(state.items())[:MAX_KINDS]:
        seen = list(records.values())[:_READ]
        schema = _schema(seen, 0, {name: found for name, found in state.items() if name != kind and found})
        model[kind] = {"description": f"{len(records):,} records", "schema": {"type": "object", **schema}}
        if name := _identifier(records):
            model[kind]["identifier"] = name
    return dump(model)


def _identifier(records: Mapping[str, Any]) -> str:
    """The property in which every record repeats its own identifier."""
    first: dict[str, Any] = next(iter(records.values()), {})
    for name, value in first.items():
        if isinstance(value, str) and all(record.get(name) == key for key, record in records.items()):
            return name
    return ""


def _schema(values: Sequence[Any], depth: int, others: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that all the values meet. Records that were not looked at may have more and other properties."""
    types = sorted({_TYPES.get(type(value), "string") for value in values})
    if types == ["integer", "number"] or types == ["integer"]:
        types = ["number"]
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
    objects = [value for value in values if isinstance(value, dict)]
    if objects and depth < _DEPTH:
        names = list(dict.fromkeys(name for value in objects for name in value))
        if len(names) <= _KEYS:
            schema["properties"] = {
                name: _schema([value[name] for value in objects if name in value], depth + 1, others) for name in names
            }
        return schema
    if types == ["string"] and len(values) >= 2 * _ENUM:
        distinct = sorted(set(values))
        if len(distinct) <= _ENUM and all(len(text) < 40 for text in distinct):
            schema["description"] = f"such as {', '.join(distinct)}"
    return schema


def sampled(state: State, room: int = SAMPLE) -> State:
    """Some records of every kind, and those that they name, within so many bytes."""
    shown: State = {kind: {} for kind in state}
    share = room // max(1, len(state))
    for kind, records in state.items():
        left = share
        for name, record in records.items():
            left -= len(dump(record)) + len(name)
            if left < 0 and shown[kind]:
                break
            shown[kind][name] = record
            for other, found in state.items():  # what a record names is shown with it
                for value in _strings(record):
                    if other != kind and value in found and value not in shown[other]:
                        shown[other][value] = found[value]
                        left -= len(dump(found[value]))
    return {kind: {name: state[kind][name] for name in state[kind] if name in shown[kind]} for kind in state}


def _strings(value: Any) -> list[str]:
    found, stack = [], [value]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            stack += [*at.values(), *at.keys()]
        elif isinstance(at, list):
            stack += at
        elif isinstance(at, str):
            found.append(at)
    return found

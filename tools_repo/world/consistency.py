"""Does a result agree with the state? What code can tell, without knowing the tool.

An object in a result that holds a kind's identifier (`order_id`) names a record: that must exist. When most of its
other properties are properties of that kind as well, it is a view of the record, and what it shows must be what the
record holds. Values that the record could not hold (`"status": "ok"`) belong to the result itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from tokenmill.tools_repo.world.entities import EntityModel, Kind, State

_MAX_NODES = 5_000


def disagreements(result: Any, state: State, model: EntityModel, echoed: Any = None) -> list[str]:
    """Where a result contradicts the state, one line each, at most 5. `echoed` are the call's arguments, whose values a
    result may repeat."""
    repeated = set(_texts(echoed))
    found: list[str] = []
    stack: list[tuple[Any, str]] = [(result, "")]
    for _ in range(_MAX_NODES):
        if not stack or len(found) >= 5:
            break
        at, where = stack.pop()
        if isinstance(at, list):
            stack += [(item, f"{where}/{index}") for index, item in enumerate(at)]
        elif isinstance(at, dict):
            stack += [(value, f"{where}/{key}") for key, value in at.items()]
            found += _object(at, where, state, model, repeated)
    return found[:5]


def _object(at: dict[str, Any], where: str, state: State, model: EntityModel, repeated: set[str]) -> Iterator[str]:
    for key, value in at.items():
        kind = model.kind_of(key)
        if kind is None or kind not in state:
            continue
        for identifier in value if isinstance(value, list) else [value]:
            known = not isinstance(identifier, str) or not identifier or identifier in state[kind]
            if not known and identifier not in repeated:
                yield f"{where}/{key}: there is no {kind} {identifier!r} in the state"
        if isinstance(value, str) and key == model.kinds[kind].identifier and value in state[kind]:
            yield from _view(at, key, model.kinds[kind], state[kind][value], where)


def _view(at: dict[str, Any], identifier: str, kind: Kind, record: dict[str, Any], where: str) -> Iterator[str]:
    properties = kind.schema.get("properties", {})
    others = [key for key in at if key != identifier]
    shared = [key for key in others if key in properties and key in record]
    if len(shared) * 2 < len(others):
        return
    for key in shared:
        if not _same(at[key], record[key]) and kind.validator.evolve(schema=properties[key]).is_valid(at[key]):
            yield f"{where}/{key}: the state has {orjson.dumps(record[key]).decode()[:200]}"


def _same(a: Any, b: Any) -> bool:
    if (
        isinstance(a, int | float)
        and isinstance(b, int | float)
        and not isinstance(a, bool)
        and not isinstance(b, bool)
    ):
        return abs(a - b) < 1e-6
    return a == b


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        at = stack.pop()
        if isinstance(at, str):
            yield at
        elif isinstance(at, dict):
            stack += at.values()
        elif isinstance(at, list):
            stack += at

"""JSON Patch (RFC 6902) on states: applied whole or not at all, bounded, and only to a state that the model allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch
import jsonpointer
import orjson
from tokenmill.tools_repo.world.entities import EntityModel, State

MAX_OPERATIONS = 200
MAX_BYTES = 64 * 1024
MAX_DEPTH = 16
OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")

Patch = list[dict[str, Any]]


class PatchInvalid(ValueError):
    """The patch does not apply, or leads to a state that the entity model does not allow; the text says why."""


def apply(state: State, patch: Sequence[Mapping[str, Any]], model: EntityModel | None = None) -> State:
    """The state after a patch; the given one stays as it is, and what the patch does not touch is shared with it.

    A kind that the model knows and the state lacks counts as empty.

    Args:
        model: the state is known to meet it, and the new one must.

    Raises:
        PatchInvalid
    """
    touched = _check(patch)
    after: State = dict(state)
    for kind in touched:
        if kind in after:
            after[kind] = orjson.loads(orjson.dumps(after[kind]))
        elif model is not None and kind in model.kinds:
            after[kind] = {}
    room = MAX_BYTES + sum(len(orjson.dumps(after.get(kind, {}))) for kind in touched)
    for number, operation in enumerate(patch):
        try:
            after = jsonpatch.JsonPatch([dict(operation)]).apply(after, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError) as error:
            what = f"{operation['op']} {operation['path']}"[:200]
            raise PatchInvalid(f"operation {number} ({what}) does not apply: {str(error)[:200]}") from None
        # Copies of copies grow exponentially; nothing else does.
        if operation["op"] == "copy" and sum(len(orjson.dumps(after.get(k, {}))) for k in touched) > room:
            raise PatchInvalid(f"operation {number} makes the state too large")
    if model is not None:
        after = {
            kind: records for kind, records in after.items() if records or kind in state or kind not in model.kinds
        }
        if faults := model.check(after, before=state):
            raise PatchInvalid(f"after the patch the state is invalid: {'; '.join(faults[:5])}")
    return after


def _check(patch: Any) -> set[str]:
    """The kinds that a patch touches, those it copies from included."""
    if not isinstance(patch, list | tuple) or not all(isinstance(operation, dict) for operation in patch):
        raise PatchInvalid("a JSON Patch is a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise PatchInvalid(f"the patch has {len(patch)} operations, more than {MAX_OPERATIONS}")
    try:
        if len(orjson.dumps(patch)) > MAX_BYTES:
            raise PatchInvalid(f"the patch is larger than {MAX_BYTES} bytes")
    except TypeError as error:
        raise PatchInvalid(f"the patch is no JSON: {error}") from None
    kinds = set()
    for number, operation in enumerate(patch):
        op = operation.get("op")
        if op not in OPERATIONS:
            raise PatchInvalid(f"operation {number}: op must be one of {', '.join(OPERATIONS)}")
        if op in ("add", "replace", "test") and "value" not in operation:
            raise PatchInvalid(f"operation {number}: {op} needs a value")
        for key in ("path", "from") if op in ("move", "copy") else ("path",):
            kinds.add(_steps(operation.get(key), number, key)[0])
        if _deeper(operation.get("value"), MAX_DEPTH):
            raise PatchInvalid(f"operation {number}: its value nests more than {MAX_DEPTH} levels")
    return kinds


def _steps(pointer: Any, number: int, key: str) -> list[str]:
    try:
        steps = jsonpointer.JsonPointer(pointer).parts
    except (jsonpointer.JsonPointerException, TypeError):
        raise PatchInvalid(
            f"operation {number}: {key} must be a JSON Pointer such as /Kind/identifier/property"
        ) from None
    if not steps:
        raise PatchInvalid(f"operation {number}: {key} must not be the whole state")
    if len(steps) > MAX_DEPTH:
        raise PatchInvalid(f"operation {number}: {key} has more than {MAX_DEPTH} steps")
    return steps


def _deeper(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels + 1):
        inner: list[Any] = []
        for item in level:
            inner += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        if not inner:
            return False
        level = inner
    return True


def diff(before: State, after: State) -> Patch:
    """The patch that makes `after` of `before`, record by record in the states' order."""
    patch: Patch = []
    for kind in before:
        if kind not in after:
            patch.append({"op": "remove", "path": _pointer(kind)})
    for kind, records in after.items():
        old = before.get(kind)
        if records is old:
            continue
        if old is None:
            patch.append({"op": "add", "path": _pointer(kind), "value": records})
            continue
        patch += [
            {"op": "remove", "path": _pointer(kind, identifier)} for identifier in old if identifier not in records
        ]
        for identifier, record in records.items():
            where = _pointer(kind, identifier)
            if identifier not in old:
                patch.append({"op": "add", "path": where, "value": record})
            elif not _same(record, old[identifier]):
                steps = jsonpatch.make_patch(old[identifier], record).patch
                patch += [_below(where, step) for step in steps]
    return patch


def changed_records(before: State, after: State) -> list[tuple[str, str]]:
    """`(kind, identifier)` of every record that was added, changed or removed, in the order of `diff`."""
    found: dict[tuple[str, str], None] = {}
    for kind in [*before, *after]:
        old, new = before.get(kind, {}), after.get(kind, {})
        if old is new:
            continue
        for identifier in [*old, *new]:
            if identifier not in old or identifier not in new or not _same(old[identifier], new[identifier]):
                found[kind, identifier] = None
    return list(found)


def _same(a: Any, b: Any) -> bool:
    return a is b or orjson.dumps(a, option=orjson.OPT_SORT_KEYS) == orjson.dumps(b, option=orjson.OPT_SORT_KEYS)


def _pointer(*steps: str) -> str:
    return jsonpointer.JsonPointer.from_parts(steps).path


def _below(where: str, operation: dict[str, Any]) -> dict[str, Any]:
    return {key: where + value if key in ("path", "from") else value for key, value in operation.items()}

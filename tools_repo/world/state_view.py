"""The part of a state that matters for a call, cut to what a prompt can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.world.entities import EntityModel, State
from tokenmill.tools_repo.world.patch import changed_records

ROOM = 24_000
"""Characters of state in a prompt."""
BESIDE = 2_000
"""Characters of other records of a kind of which a call names one: enough to see how they look."""
WHOLE = 256 * 1024
"""Bytes up to which a state stands in a row as it is; of a larger one the records that matter do."""
_MISSES = 1_000
"""Records in a row that do not fit before no more are tried: a large state has very many."""


def relevant(
    spec: ToolSpec, named: Mapping[str, Sequence[str]], state: State, model: EntityModel, room: int = ROOM
) -> tuple[State, dict[str, int]]:
    """What of the state to show, and how many records of each kind are left out.

    The records that the call names come first, then those that they refer to, then the kinds that the tool touches and
    those they refer to, record by record in the state's order while there is room: few of a kind of which the call names one,
    since it is about that one. A tool whose semantics are unknown may touch any kind.
    """
    touched = [kind for kind in dict.fromkeys((*spec.semantics.reads, *spec.semantics.writes)) if kind in model.kinds]
    kinds = touched or list(model.kinds)
    kinds += sorted({target for kind in kinds for target in model.kinds[kind].refers_to} - {*kinds})
    order: dict[tuple[str, str], None] = {}
    for kind, identifiers in named.items():
        for identifier in identifiers:
            order[kind, identifier] = None
            order.update(dict.fromkeys(_referred(state[kind][identifier], state, model.kinds[kind].refers_to)))
    about = set(order)
    for kind in kinds:
        order.update(dict.fromkeys((kind, identifier) for identifier in state.get(kind, {})))
    beside = BESIDE if touched else room
    shown: State = {kind: {} for kind in kinds if kind in state}
    missed = 0
    for kind, identifier in order:
        record = state[kind][identifier]
        size = len(dump(record)) + len(identifier) + 4
        other = bool(named.get(kind)) and (kind, identifier) not in about
        free = min(room, beside) if other else room
        missed = missed + 1 if size > free else 0
        if missed == _MISSES:
            break
        if size > free:
            continue
        room -= size
        beside -= size if other else 0
        shown.setdefault(kind, {})[identifier] = record
    left = {kind: len(state[kind]) - len(records) for kind, records in shown.items()}
    return shown, {kind: count for kind, count in left.items() if count}


def _referred(record: Any, state: State, targets: frozenset[str]) -> list[tuple[str, str]]:
    """The records of the kinds in `targets` whose identifiers stand anywhere in a record."""
    found, stack = [], [record]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            stack += at.values()
        elif isinstance(at, list):
            stack += at
        elif isinstance(at, str):
            found += [(kind, at) for kind in sorted(targets) if at in state.get(kind, {})]
    return found


def span(before: State, after: State, named: State) -> tuple[State, State]:
    """The states of a trajectory at its start and end as a row holds them: whole, or of a large one the records that differ
    and those that the task names."""
    if len(orjson.dumps(before)) <= WHOLE:
        return before, after
    matter = {(kind, name): None for kind, records in named.items() for name in records}
    matter.update(dict.fromkeys(changed_records(before, after)))
    parts: tuple[State, State] = ({}, {})
    for state, part in zip((before, after), parts, strict=True):
        for kind, name in matter:
            if name in state.get(kind, {}):
                part.setdefault(kind, {})[name] = state[kind][name]
    return parts

"""A world as a writer is shown it: what its records hold, and some of them, within a bounded number of characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.tools import dump

ROOM = 12_000


def world_shown(entities: Mapping[str, Any], state: Mapping[str, Any], room: int = ROOM) -> str:
    """The schema of each kind, then its records, as many of each as fit when all kinds share what is left."""
    schemas = {
        name: f"{name}: {kind.get('description', '')}\n{dump(kind['schema'])}" for name, kind in entities.items()
    }
    share = max(400, (room - sum(map(len, schemas.values()))) // max(1, len(schemas)))
    return "\n\n".join(f"{text}\n{_records(state.get(name) or {}, share)}" for name, text in schemas.items())


def _records(records: Mapping[str, Any], room: int) -> str:
    shown: dict[str, Any] = {}
    for identifier, record in records.items():
        room -= len(dump(record)) + len(identifier)
        if room < 0 and shown:
            break
        shown[identifier] = record
    left = len(records) - len(shown)
    return dump(shown) + (f"\n({left} more records)" if left else "")

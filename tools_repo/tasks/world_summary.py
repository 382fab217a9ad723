"""A world as a writer is shown it: what its records hold, and some of them; what its tools do. All of it bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.world.design import declared

ROOM = 12_000
"""Characters of records, with their schemas."""
TOOLS_ROOM = 16_000
"""Characters of declarations, and as many of what the tools do."""


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


def tools_shown(tools: Sequence[ToolSpec], room: int = TOOLS_ROOM) -> str:
    """The tools' declarations, then what is known of their results, conditions and effects."""
    told = []
    for tool in tools:
        does = _does(tool)
        room -= len(does)
        if does and room >= 0:
            told.append(f"{tool.name}: {does}")
    return "\n".join([declared(tools), "", *told]) if told else declared(tools)


def _does(tool: ToolSpec) -> str:
    known = tool.semantics
    parts = [
        f"reads {', '.join(known.reads)}" if known.reads else "",
        f"changes {', '.join(known.writes)}" if known.writes else "changes nothing" if known.reads else "",
        f"requires: {' '.join(known.preconditions)}" if known.preconditions else "",
        f"effects: {' '.join(known.effects)}" if known.effects else "",
        f"fails: {' '.join(known.errors)}" if known.errors else "",
        f"returns {tool.output_schema}" if tool.output_schema else "",
    ]
    return "; ".join(filter(None, parts))

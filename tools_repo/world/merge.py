"""One world for tools of several domains: their entity models and sample states put together, where they go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.world.entities import MAX_KINDS, EntityModel


@dataclass(frozen=True)
class DomainWorld:
    """The kinds of entity of a domain, and a sample state."""

    id: str
    kinds: dict[str, Any]
    state: dict[str, Any]


def worlds_of(domains: Sequence[Domain]) -> dict[str, DomainWorld]:
    """Worlds by the name that tools know their domain by (its path); domains without a valid model are left out."""
    found: dict[str, DomainWorld] = {}
    for domain in domains:
        if not domain.entities or not domain.state:
            continue
        try:
            state = orjson.loads(domain.state)
            if EntityModel.parse(domain.entities).check(state):
                continue
        except ValueError:
            continue
        world = DomainWorld(domain.id, orjson.loads(domain.entities), state)
        for name in ("/".join(domain.path), domain.id):
            found.setdefault(name, world)
    return found


@dataclass
class MergedWorld:
    """Grows with the tools of a set."""

    worlds: Mapping[str, DomainWorld]
    used: dict[str, DomainWorld] = field(default_factory=dict)
    kinds: dict[str, Any] = field(default_factory=dict)

    def add(self, tool: ToolSpec) -> bool:
        """Take a tool's world in; False, and nothing taken in, if a kind of it means something else here."""
        world = self._world(tool)
        if world is None or world.id in self.used:
            return True
        if any(self.kinds.get(name, kind) != kind for name, kind in world.kinds.items()):
            return False
        if len(self.kinds.keys() | world.kinds.keys()) > MAX_KINDS:
            return False
        self.used[world.id] = world
        self.kinds |= world.kinds
        return True

    def merged(self, needed: Sequence[ToolSpec]) -> tuple[str, str]:
        """(entity model, state) as JSON; empty texts where one of the needed tools has no world."""
        if not self.used or any(self._world(tool) is None for tool in needed):
            return "", ""
        state: dict[str, dict[str, Any]] = {}
        for world in self.used.values():
            for kind, records in world.state.items():
                state[kind] = {**records, **state.get(kind, {})}
        text = dump(self.kinds)
        return ("", "") if EntityModel.parse(text).check(state) else (text, dump(state))

    def _world(self, tool: ToolSpec) -> DomainWorld | None:
        return self.worlds.get(tool.toolset)

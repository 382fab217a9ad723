"""Levels of tasks: which a tool-set can carry, and which of them a task gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenmill.schemas.agentic import (
    DEPENDENT_CALLS,
    LEVELS,
    MISSING_INFORMATION,
    ONE_CALL,
    PARALLEL_CALLS,
    SEVERAL_CALLS,
)
from tokenmill.schemas.draws import uniform
from tokenmill.schemas.tools import ToolSpec


@dataclass(frozen=True)
class LevelWeights:
    """How often each level is drawn, relative to the others; a level that is not named is never drawn."""

    of: dict[str, float] = field(default_factory=lambda: dict.fromkeys(LEVELS, 1.0))

    def __post_init__(self) -> None:
        for name, weight in self.of.items():
            if name not in LEVELS:
                raise ValueError(f"{name!r} is no level; levels are {', '.join(LEVELS)}")
            if not 0 <= weight < float("inf"):
                raise ValueError(f"the weight of {name} is 0 or more, not {weight}")
        if not any(self.of.values()):
            raise ValueError("no level has a weight above 0")

    @classmethod
    def parse(cls, text: str) -> LevelWeights:
        """From a flag: `one_call=1,decline=0.5`, or names alone for a weight of 1. Empty: all alike.

        Raises:
            ValueError: not of that form.
        """
        if not text.strip():
            return cls()
        of: dict[str, float] = {}
        for part in text.split(","):
            name, equals, weight = (piece.strip() for piece in part.partition("="))
            try:
                if name in of:
                    raise ValueError
                of[name] = float(weight) if equals else 1.0
            except ValueError:
                raise ValueError(f"{part.strip()!r}: write levels as one_call=1,decline=0.5") from None
        return cls(of)

    def draw(self, tools: Sequence[ToolSpec], *parts: object) -> str:
        """A level that these tools can carry; one call where they carry none that has a weight."""
        able = [(name, self.of.get(name, 0.0)) for name in LEVELS if carries(name, tools)]
        place = uniform(*parts, "level") * sum(weight for _, weight in able)
        for name, weight in able:
            place -= weight
            if place < 0:
                return name
        return ONE_CALL


def carries(level: str, tools: Sequence[ToolSpec]) -> bool:
    """Whether a task of a level can be made of these tools, as far as their parameters tell."""
    takes = sum(bool(_arguments(tool)) for tool in tools)
    needs = sum(bool(_arguments(tool) & _required(tool)) for tool in tools)
    able = {
        SEVERAL_CALLS: len(tools) > 1 or takes > 0,
        PARALLEL_CALLS: takes > 0,
        DEPENDENT_CALLS: len(tools) > 1 and needs > 0,
        MISSING_INFORMATION: needs > 0,
    }
    return able.get(level, True)


def _arguments(tool: ToolSpec) -> set[str]:
    properties = tool.parameters.get("properties")
    return set(properties) if isinstance(properties, dict) else set()


def _required(tool: ToolSpec) -> set[str]:
    required = tool.parameters.get("required")
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()

"""The world that runs an agent's tools (Kimi K2 report, section 3.1.1, "tool execution environment").

A world belongs to one trajectory. Whatever runs the tools (a model that simulates them, Python written for them, a real
sandbox), the trajectory sees the same interface, and every call leaves a `CallRecord`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tokenmill.schemas.agentic import SUCCESS


@dataclass(frozen=True)
class ToolResult:
    """What a tool call gave back."""

    content: str
    """What the agent is shown, JSON text unless the tool prints plain text."""
    error: str = ""
    """Kind of error (`unknown_tool`, `invalid_arguments`, `not_found`, ...), empty for success."""
    outcome: str = SUCCESS
    """The outcome that was drawn, one of `schemas.agentic.OUTCOMES`."""
    patch: str = "[]"
    """What the call changed in the state, as JSON Patch (RFC 6902)."""
    engine: str = ""
    """What decided it: `checks`, `simulator`, `executable`, `sandbox`."""


class World(Protocol):
    """What stands behind an agent's tools during one trajectory."""

    tools: list[dict[str, Any]]
    """OpenAI `tools`, as the agent gets them."""

    @property
    def state(self) -> dict[str, Any]:
        """The state as it is now; not to be changed by the reader."""
        ...

    async def call(self, name: str, arguments: str, number: int) -> ToolResult:
        """Run a call, `arguments` being the text that the agent wrote; `number` counts the trajectory's calls from 0, and
        every draw depends on it alone (beside the world's own seed).

        Errors that an agent can make are results. Raises only what ends the trajectory (`inference.errors`).
        """
        ...

    async def close(self) -> None:
        """Give back processes and files."""
        ...

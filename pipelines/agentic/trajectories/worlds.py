"""Makers of worlds: which engine runs the tools of a trajectory."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from typing import Protocol as Interface

from tokenmill.inference.call import Ask
from tokenmill.schemas.agentic import RECOVERY, AgentTask
from tokenmill.tools_repo.world import World, simulator
from tokenmill.tools_repo.world.outcomes import Odds, recoverable
from tokenmill.tools_repo.world.stateful import clock

SIMULATOR, EXECUTABLE, DOMAIN = "simulator", "executable", "domain"
ENGINES = (SIMULATOR, EXECUTABLE, DOMAIN)


class Worlds(Interface):
    """Makes the world of a trajectory. Picklable; its fields are its configuration."""

    @property
    def engine(self) -> str: ...

    def __call__(self, task: AgentTask, ask: Ask, *parts: object) -> World | Awaitable[World]:
        """A fresh world at the task's initial state; draws depend on `parts`."""
        ...

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """Names of the prompts that its worlds may use."""
        ...


@dataclass(frozen=True)
class SimulatedWorlds:
    """Worlds whose tools the model of the role `tools` simulates."""

    odds: Odds = field(default_factory=Odds)
    params: dict[str, Any] = field(default_factory=lambda: {"temperature": 0.3, "max_tokens": 2048})
    """Sampling parameters of the simulator's calls."""

    engine: ClassVar[str] = SIMULATOR

    def __call__(self, task: AgentTask, ask: Ask, *parts: object) -> World:
        """Raises: ValueError: the task's state does not meet its entity model, or a tool is invalid."""
        agent = task.agent
        return simulator.Simulator(
            agent.tools,
            agent.entities,
            task.state,
            ask,
            **circumstances(task, self.odds, parts),
            **self.params,
        )

    @property
    def prompt_names(self) -> tuple[str, ...]:
        return simulator.PROMPTS


def circumstances(task: AgentTask, odds: Odds, parts: Sequence[object]) -> dict[str, Any]:
    """How the world of a try goes beside its state: arguments of every `StatefulWorld`."""
    return {
        "odds": odds,
        "seed": parts,
        # A task about recovery has an error to recover from.
        "first": recoverable(*parts) if task.level == RECOVERY else "",
        "needed": {call.tool for call in task.solution},
        # The time that the agent was told, whatever the task changes in the data at the start.
        "now": clock(task.agent.state),
    }

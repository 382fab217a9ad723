"""What every try at a task has, whatever runs its tools: its name, its players, its draws, its ending."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from typing import Protocol as Interface

from tokenmill.pipelines.agentic.trajectories.dialogue import USER_DONE, Dialogue
from tokenmill.schemas.agentic import CriterionVerdict
from tokenmill.schemas.draws import digest
from tokenmill.tools_repo.world import World

ENDED = "ended"
"""Name of the check that a trajectory came to its end."""

Task = TypeVar("Task")


@dataclass(frozen=True)
class Try(Generic[Task]):
    """One try at a task."""

    task: Task
    sample: int
    """0-based number of the try."""

    @property
    def id(self) -> str:
        return f"{self.task.id}/{self.sample}"  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Players:
    """Names of the models that play the roles, as rows carry them; empty for none."""

    writer: str
    user: str = ""
    tools: str = ""
    judge: str = ""


class Sampled(Interface):
    """A step that says how the agent's answers are drawn."""

    seed: int
    temperature: float | None
    top_p: float | None
    max_tokens: int


def agent_sampling(step: Sampled, task_id: str, sample: int, turn: int) -> dict[str, Any]:
    """Parameters of the agent's call in a turn: they depend on the run's seed, the task, the try and the turn alone."""
    drawn = digest(step.seed, task_id, sample, turn, "agent") >> 33
    return {
        "attempt": drawn,  # the same words in another try are another call
        "seed": drawn,
        "temperature": step.temperature,
        "top_p": step.top_p,
        "max_tokens": step.max_tokens,
    }


def ending(dialogue: Dialogue) -> CriterionVerdict:
    """Whether the user had what it wanted before a limit was reached."""
    done = dialogue.ended == USER_DONE
    return CriterionVerdict(
        criterion=ENDED,
        passed=done,
        score=float(done),
        decided_by="code",
        reason="" if done else dialogue.ended,
        detail="" if done else f"after {dialogue.turns} turns and {len(dialogue.calls)} calls",
    )


def names_of(world: World) -> list[str]:
    """Names of the tools that a world has."""
    return [tool["function"]["name"] for tool in world.tools]

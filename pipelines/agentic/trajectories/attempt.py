"""One attempt at a task, whatever runs its tools: its name, the models that take part, how the agent's answers are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from typing import Protocol as Interface

from tokenmill.schemas.draws import digest

Task = TypeVar("Task")


@dataclass(frozen=True)
class Attempt(Generic[Task]):
    """One attempt at a task: an element of the rollout."""

    task: Task
    sample: int
    """0-based number of the attempt."""

    @property
    def id(self) -> str:
        return f"{self.task.id}/{self.sample}"  # type: ignore[attr-defined]  # every kind of task has one


@dataclass(frozen=True)
class ModelNames:
    """Names of the models that play the roles, as rows carry them; empty for none."""

    writer: str
    user: str = ""
    tools: str = ""
    judge: str = ""


class Sampled(Interface):
    """A step that says how the agent's answers are drawn."""

    @property
    def seed(self) -> int: ...

    @property
    def temperature(self) -> float | None: ...

    @property
    def top_p(self) -> float | None: ...

    @property
    def max_tokens(self) -> int: ...


def agent_sampling(step: Sampled, task_id: str, sample: int, turn: int) -> dict[str, Any]:
    """Parameters of the agent's call in a turn: they depend on the run's seed, the task, the attempt and the turn alone."""
    drawn = digest(step.seed, task_id, sample, turn, "agent") >> 33
    return {
        "attempt": drawn,  # the same words in another attempt are another call
        "seed": drawn,
        "temperature": step.temperature,
        "top_p": step.top_p,
        "max_tokens": step.max_tokens,
    }

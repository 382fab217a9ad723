"""One attempt at a task of an environment, as the gym's jobs make it: drawn, metered, rewarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenmill.gym.environment import Episode
from tokenmill.inference.call import Answer, Ask, Message
from tokenmill.inference.roles import Models
from tokenmill.pipelines.gym.environments import find
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

WRITER = "writer"
ROLLOUTS_PER_CALL = 4
"""Rollouts at once for each call that may be in flight: an environment that takes its time must not idle the endpoint."""


def window(models: Models) -> int:
    """Rollouts at once in a worker."""
    return ROLLOUTS_PER_CALL * models.max_concurrency


@dataclass(frozen=True)
class Sampling:
    """How attempts are drawn. Travels to workers; environments are found by their names there."""

    model: str
    judge_model: str = ""
    folder: str = ""
    """In which modules and files of the user's are looked for."""
    seed: int = 0
    temperature: float | None = 1.0
    top_p: float | None = None
    budget: int | None = None
    """Tokens that an answer may have; None for what the task says."""

    async def attempt(self, task: GymTask, sample: int, meter: Meter) -> Episode:
        """One attempt.

        Raises:
            RowError: the environment or a model broke; never a reward.
        """
        environment = find(task.environment, self.folder)
        return await environment.rollout(task, _Drawn(self, meter, task, sample))

    def prompts(self, task: GymTask) -> tuple[str, ...]:
        """Names of the prompts that the environment uses beside the task's own."""
        return tuple(getattr(find(task.environment, self.folder), "prompts", ()))

    def judged_by(self, task: GymTask) -> str:
        """The judge's model where one takes part in the reward."""
        return self.judge_model if find(task.environment, self.folder).judged else ""


@dataclass
class _Drawn:
    """An `Ask` whose writer's answers depend on the run's seed, the task, the attempt and the turn alone."""

    sampling: Sampling
    ask: Ask
    task: GymTask
    sample: int
    turn: int = 0

    async def __call__(self, messages: list[Message], *, to: str = WRITER, **params: Any) -> Answer:
        if to != WRITER:
            return await self.ask(messages, to=to, **params)
        drawn = digest(self.sampling.seed, self.task.id, self.sample, self.turn, "gym") >> 33
        self.turn += 1
        given = {"temperature": self.sampling.temperature, "top_p": self.sampling.top_p}
        params = {"max_tokens": self.task.budget, **params, **given, "seed": drawn, "attempt": drawn}
        if self.sampling.budget:
            params["max_tokens"] = self.sampling.budget
        return await self.ask(messages, to=to, **{name: value for name, value in params.items() if value is not None})

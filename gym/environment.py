"""What an environment is: a name, seeded tasks, and a rollout that ends in a reward with its evidence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import orjson
from tokenmill.gym.attacks import mutants
from tokenmill.inference.call import Ask, Message
from tokenmill.inference.errors import RowError, RunStopped
from tokenmill.schemas.agentic import ChatMessage
from tokenmill.schemas.gym import CODE, GymTask, RewardPart

ANSWERED, OVER_BUDGET = "answered", "budget"
"""How an episode of one answer ends."""
LONGEST_ANSWER = 100_000
"""Characters of an answer that a reward looks at: one that is longer is refused unread."""


class EnvironmentFault(RowError):
    """An environment broke, not the model: a row of `failed/`, never a reward of 0."""


@dataclass(frozen=True)
class Episode:
    """What came of one attempt at a task."""

    messages: Sequence[ChatMessage]
    parts: tuple[RewardPart, ...]
    ended: str = ANSWERED

    @property
    def reward(self) -> float:
        """The product of all parts: what fails one of them earns nothing for the others."""
        return prod(part.reward for part in self.parts) if self.parts else 0.0


class Environment(Protocol):
    """What the gym's commands run, and what a user brings with `--env module:object`."""

    @property
    def name(self) -> str:
        """As `--env` takes it."""

    @property
    def budget(self) -> int:
        """Tokens that an answer may have: what is longer is cut off and earns nothing."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Topic tags of its tasks."""

    @property
    def judged(self) -> bool:
        """Whether a model takes part in its rewards."""

    def tasks(self, seed: int) -> Iterator[GymTask]:
        """Tasks, the same for a seed on every machine; without end where they are generated."""
        ...

    async def rollout(self, task: GymTask, ask: Ask) -> Episode:
        """One attempt. `ask` reaches the model under test as `writer`, and `judge`, `user`, `tools` where it needs them.

        Raises:
            EnvironmentFault: the environment broke.
            RowError, RunStopped: a model cannot be brought to answer.
        """
        ...

    # It may also have `wrong(self, task) -> list[str]`: answers that are wrong by construction, for `gym check`; `script(self,
    # task) -> list[Answer]`, the turns of a reference where one text does not do; `prompts`, the names of the prompts it uses.


def part(name: str, right: bool | float, evidence: str, decided_by: str = CODE) -> RewardPart:
    """A part of a reward; the evidence is cut to one short line."""
    return RewardPart(name=name, reward=float(right), evidence=" ".join(evidence.split())[:300], decided_by=decided_by)


def messages_of(task: GymTask) -> list[Message]:
    """What the model is shown of a task."""
    system: list[Message] = [{"role": "system", "content": task.system}] if task.system else []
    return [*system, {"role": "user", "content": task.prompt}]


class SingleAnswer(ABC):
    """An environment in which the model answers once; subclasses make tasks and say what an answer is worth."""

    name: str = ""
    budget: int = 2048
    topics: tuple[str, ...] = ()
    judged: bool = False
    prompts: tuple[str, ...] = ()

    @abstractmethod
    def tasks(self, seed: int) -> Iterator[GymTask]: ...

    @abstractmethod
    async def parts(self, task: GymTask, text: str, ask: Ask) -> Sequence[RewardPart]:
        """What an answer is worth. Whatever it raises is the environment's fault."""

    async def rollout(self, task: GymTask, ask: Ask) -> Episode:
        """Ask once and look at the answer.

        Raises:
            EnvironmentFault: the reward broke.
        """
        asked = messages_of(task)
        answer = await ask(asked, max_tokens=task.budget)
        messages = [ChatMessage(**message) for message in asked]
        messages.append(ChatMessage(role="assistant", content=answer.text))
        if answer.finish_reason == "length":
            cut = part("budget", False, f"the answer was cut off after {task.budget} tokens")
            return Episode(messages, (cut,), OVER_BUDGET)
        return Episode(messages, await self.worth(task, answer.text, ask))

    async def worth(self, task: GymTask, text: str, ask: Ask) -> tuple[RewardPart, ...]:
        """`parts`, with what breaks in them told apart from a bad answer.

        Raises:
            EnvironmentFault: the reward broke.
        """
        if not text.strip():
            return (part("answer", False, "there is no answer"),)
        if len(text) > LONGEST_ANSWER:
            return (part("answer", False, f"the answer is longer than {LONGEST_ANSWER} characters"),)
        try:
            parts = tuple(await self.parts(task, text, ask))
        except (RowError, RunStopped):
            raise
        except Exception as error:
            raise EnvironmentFault(
                f"{self.name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            ) from error
        if not parts or not all(0 <= one.reward <= 1 for one in parts):  # NaN is refused as well
            raise EnvironmentFault(f"{self.name}: its reward is not between 0 and 1")
        return parts


@dataclass(frozen=True)
class Drawn:
    """What a generator makes of one draw."""

    prompt: str
    reference: str
    data: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    topics: tuple[str, ...] = ()


class Generated(SingleAnswer):
    """Tasks drawn by code, decided by code."""

    @abstractmethod
    def draw(self, seed: int, number: int) -> Drawn:
        """The task of this number, from `schemas.draws` alone."""

    @abstractmethod
    def fault(self, data: dict[str, Any], text: str) -> str:
        """What is wrong with an answer; empty for a right one."""

    def wrong(self, task: GymTask) -> list[str]:
        """Answers that are wrong by construction; where a subclass says nothing else, the reference with a number changed or a
        part lost."""
        return list(mutants(task.reference))

    def tasks(self, seed: int) -> Iterator[GymTask]:
        number = 0
        while True:
            drawn = self.draw(seed, number)
            yield GymTask(
                id=f"{self.name}/{seed}/{number}",
                environment=self.name,
                kind=drawn.kind or self.name,
                topics=[*(drawn.topics or self.topics)],
                prompt=drawn.prompt,
                budget=self.budget,
                reference=drawn.reference,
                data=orjson.dumps(drawn.data).decode(),
            )
            number += 1

    async def parts(self, task: GymTask, text: str, ask: Ask) -> Sequence[RewardPart]:
        fault = self.fault(orjson.loads(task.data), text)
        return (part("answer", not fault, fault or "right"),)

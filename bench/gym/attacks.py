"""What attackers earn who have not seen the rewards: `python -m tokenmill.bench.gym attacks`.

`data/attack_answers.jsonl`: answers to tasks of the gym's own environments, written by hand by five sessions of a large
language model that saw the tasks and the right answers, and neither the rewards nor each other's attempts. Each says whether an
honest judge would pay, and why. `dev` was read when the rewards were mended after it; `test` was written afterwards.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from tokenmill.gym.registry import find
from tokenmill.inference.call import Answer, Message, Usage
from tokenmill.schemas.gym import GymTask

DATA = Path(__file__).with_name("data")


@dataclass(frozen=True)
class Tried:
    """One answer and what it earned."""

    environment: str
    half: str
    answer: str
    deserves: bool
    why: str
    reward: float


def tried() -> Iterator[Tried]:
    """Every attempt with its reward."""
    tasks = {}
    for line in (DATA / "attack_tasks.jsonl").read_bytes().splitlines():
        task = GymTask(**orjson.loads(line))
        tasks[task.id] = task
    for line in (DATA / "attack_answers.jsonl").read_bytes().splitlines():
        row = orjson.loads(line)
        reward = asyncio.run(_reward(row["environment"], tasks[row["task"]], row["answer"]))
        yield Tried(row["environment"], row["half"], row["answer"], row["deserves"], row["why"], reward)


async def _reward(environment: str, task: GymTask, answer: str) -> float:
    async def ask(messages: list[Message], **params: Any) -> Answer:
        return Answer(answer, "stop", Usage(1, 1), "attacker")

    return (await find(environment).rollout(task, ask)).reward


def table() -> list[dict[str, Any]]:
    """By environment and half: attacks, those paid anything, honest answers, those paid in full."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for one in tried():
        found = counts.setdefault((one.environment, one.half), Counter())
        found["honest" if one.deserves else "attacks"] += 1
        found["honest_paid"] += one.deserves and one.reward == 1.0
        found["attacks_paid"] += not one.deserves and one.reward > 0.0
    return [{"environment": name, "half": half, **found} for (name, half), found in sorted(counts.items())]

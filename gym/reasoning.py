"""Generators of `reasoning-gym` (extra `gym`), those that pass our check, with its scorers held to exactly right or nothing.

Which ones pass is written down by the check itself (`gym check reasoning-gym --write`) for one version of the package.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import random
import warnings
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Any

import orjson
from tokenmill.gym.answers import stated, stated_block
from tokenmill.gym.environment import EnvironmentFault, SingleAnswer, part
from tokenmill.inference.call import Ask
from tokenmill.schemas.draws import digest
from tokenmill.schemas.flags import UsageError
from tokenmill.schemas.gym import GymTask, RewardPart

PREFIX = "reasoning-gym"
RECORD = "reasoning_gym.json"
"""What the check found, beside this module."""
SETS = 1 << 31
ASK = "End with `Answer:` and after it nothing but the answer, in the form asked for."
_RIGHT = 0.999
"""Score from which an answer is right: scorers pay a little for nonsense, and for answers that are nearly right."""
TASKS_PER_SET = 64


class Reasoning(SingleAnswer):
    """One generator of the package."""

    budget = 8192

    def __init__(self, generator: str) -> None:
        """
        Raises:
            UsageError: the package is not installed, or has no such generator.
        """
        if generator not in generators():
            raise UsageError(f"{PREFIX}:{generator}: there is no such generator in version {version()}")
        self.generator, self.name = generator, f"{PREFIX}:{generator}"
        self.topics = (topic_of(generator), "reasoning-gym")

    def tasks(self, seed: int) -> Iterator[GymTask]:
        for block in range(SETS):
            kind = self._set(seed, block)
            for number in range(len(kind)):
                entry = kind[number]
                reference = entry.get("answer")
                data = {
                    "seed": seed,
                    "block": block,
                    "number": number,
                    "answer": reference,
                    "check": digest(entry["question"]),
                }
                yield GymTask(
                    id=f"{self.name}/{seed}/{block * TASKS_PER_SET + number}",
                    environment=self.name,
                    kind=self.generator,
                    topics=[*self.topics],
                    prompt=f"{entry['question']}\n\n{ASK}",
                    budget=self.budget,
                    reference=_reference(reference),
                    data=orjson.dumps(data, default=str).decode(),
                )

    async def parts(self, task: GymTask, text: str, ask: Ask) -> Sequence[RewardPart]:
        said = stated(text, full_stop=True) or stated_block(text, 20_000)
        if not said:
            return (part("answer", False, "no single answer is stated"),)
        data = orjson.loads(task.data)
        kind = self._set(data["seed"], data["block"])
        entry = kind[data["number"]]
        if digest(entry["question"]) != data["check"]:
            raise EnvironmentFault(f"{self.name} gives another task for the same seed")
        score = float(kind.score_answer(said, entry))
        if not math.isfinite(score):
            raise EnvironmentFault(f"{self.name}: its scorer gives {score}")
        right = score >= _RIGHT
        return (
            part("answer", right, "right" if right else f"its scorer gives {score:.3g}: exactly right is asked for"),
        )

    def _set(self, seed: int, block: int) -> Any:
        return _sets(self.generator, digest(self.name, seed, block) % SETS)

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """What the check found of it, for the version that is installed."""
        return record()["environments"].get(self.name, {})


@cache
def _package() -> Any:
    state = random.getstate()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of what it depends on
            return importlib.import_module("reasoning_gym")
    except ImportError:
        raise UsageError(f"{PREFIX}: the package is not installed: pip install 'tokenmill[gym]'") from None
    finally:
        random.setstate(state)


@cache
def _sets(generator: str, seed: int) -> Any:
    return _package().create_dataset(generator, size=TASKS_PER_SET, seed=seed)


def version() -> str:
    """The installed version.

    Raises:
        UsageError: the package is not installed.
    """
    _package()
    return importlib.metadata.version("reasoning-gym")


@cache
def generators() -> tuple[str, ...]:
    """Names of all its generators, sorted.

    Raises:
        UsageError: the package is not installed.
    """
    _package()
    return tuple(sorted(importlib.import_module("reasoning_gym.factory").DATASETS))


def topic_of(generator: str) -> str:
    """The package's own name for its field: `algebra`, `graphs`, `logic`, …"""
    module = importlib.import_module("reasoning_gym.factory").DATASETS[generator][0].__module__
    return str(module.split(".")[1])


def _reference(answer: Any) -> str:
    if answer is None:
        return ""
    text = answer if isinstance(answer, str) else orjson.dumps(answer, default=str).decode()
    return f"Answer:\n{text}" if "\n" in text else f"Answer: {text}"


@cache
def record() -> dict[str, Any]:
    """What the check found of every generator, and of which version."""
    file = resources.files(__package__).joinpath(RECORD)
    return orjson.loads(file.read_bytes()) if file.is_file() else {"version": "", "environments": {}}


def offered() -> list[str]:
    """Names of the environments that passed, where the version checked is the one installed.

    Raises:
        UsageError: the package is not installed, or is another version.
    """
    known = record()
    if known["version"] != version():
        raise UsageError(
            f"{PREFIX} {version()} is installed, {known['version'] or 'none'} was checked: pip install "
            f"'reasoning-gym=={known['version']}', or check yours with `gym check {PREFIX}`"
        )
    return [name for name, found in known["environments"].items() if found["passed"]]

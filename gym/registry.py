"""Environments by name: our own, those of `reasoning-gym`, a user's module, a folder."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill.gym import reasoning
from tokenmill.gym.environment import Environment
from tokenmill.judges.own import CheckUnusable, found
from tokenmill.schemas.flags import UsageError


class Shipped(NamedTuple):
    """An environment of ours, loaded when it is asked for."""

    place: str
    about: str
    argument: str = ""
    """What follows its name after a colon, for people; empty for nothing."""


SHIPPED = {
    "game24": Shipped("puzzles.game24:Game24", "four numbers that make 24"),
    "sudoku": Shipped("puzzles.sudoku:Sudoku", "grids of 4, 6 and 9 with one solution"),
    "cryptarithm": Shipped("puzzles.cryptarithm:Cryptarithm", "additions in letters with one solution"),
    "morse": Shipped("puzzles.morse:Morse", "messages to decode and encode"),
    "riddles": Shipped("puzzles.riddles:Riddles", "queues and liars, one arrangement fits"),
    "tables": Shipped("puzzles.tables:Tables", "questions over several tables, in several hops"),
    "mathematics": Shipped("mathematics:Mathematics", "drawn problems with exact answers"),
    "instructions": Shipped(
        "instructions.environment:Instructions", "several instructions at once, and claims of compliance"
    ),
    "instructions-judged": Shipped(
        "instructions.environment:JudgedInstructions", "the same, and a judge reads the text"
    ),
    "grounding": Shipped("grounding:Grounded", "answers from a report, every sentence supported by it"),
    "safety": Shipped("safety:Safety", "an attacker, the model, a judge; harmless requests beside harmful ones"),
}
"""By name."""
WITH_FILE = {
    "mathematics": Shipped("mathematics:Problems", "problems and answers of your own", "FILE"),
}
"""By name, those that take a file of the user's."""


@cache
def find(spec: str, folder: str = "") -> Environment:
    """An environment by what `--env` says: `game24`, `mathematics:problems.jsonl`, `reasoning-gym:chain_sum`,
    `my_module:MyEnvironment`, `envs/mine.py:MyEnvironment`, or a folder with `tasks.jsonl` and `reward.py`.

    Args:
        folder: where modules and files may lie beside those on the path; the working directory by default.

    Raises:
        UsageError: there is none, or it cannot be loaded.
    """
    name, colon, argument = spec.partition(":")
    here = Path(folder or ".").resolve()
    if not colon and spec in SHIPPED:
        return _load(SHIPPED[spec].place)()
    if colon and name in WITH_FILE:
        made: Environment = _load(WITH_FILE[name].place)(str(Path(here, argument)), spec)
        return made
    if name == reasoning.PREFIX and colon:
        return reasoning.Reasoning(argument)
    if not colon and Path(here, spec).is_dir():
        from tokenmill.gym.folder import Folder

        return Folder(str(Path(here, spec)), spec)
    if colon:
        return _own(spec, str(here))
    raise UsageError(
        f"--env {spec}: there is no such environment; there are {', '.join(SHIPPED)}, {reasoning.PREFIX}:NAME, module:object, "
        "FILE.py:object, or a folder with tasks.jsonl and reward.py"
    )


def _load(place: str) -> Callable[..., Environment]:
    module, _, attribute = place.partition(":")
    made: Callable[..., Environment] = getattr(importlib.import_module(f"tokenmill.gym.{module}"), attribute)
    return made


def _own(spec: str, folder: str) -> Environment:
    try:
        made: Any = found(spec, folder)
        environment: Any = made() if inspect.isclass(made) else made
    except CheckUnusable as error:
        raise UsageError(f"--env {error}") from None
    lacking = [
        name for name in ("name", "budget", "topics", "judged", "tasks", "rollout") if not hasattr(environment, name)
    ]
    if lacking:
        raise UsageError(f"--env {spec}: it is no environment: it has no {', '.join(lacking)}")
    checked: Environment = environment
    return checked

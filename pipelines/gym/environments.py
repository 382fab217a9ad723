"""All environments that the commands know: the gym's own, and those whose rollouts are jobs of this package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tokenmill.gym import reasoning, registry
from tokenmill.gym.environment import Environment
from tokenmill.gym.registry import Shipped
from tokenmill.schemas.flags import UsageError

WITH_ARGUMENT: dict[str, Shipped] = {
    **registry.WITH_FILE,
    "code": Shipped("agents:Code", "functions and repositories, decided by hidden tests in the sandbox", "FILE"),
    "agentic": Shipped("agents:Agentic", "tasks of `agentic tasks`: agents, simulated users and tools, rubrics", "DIR"),
}
"""By name, those that take the output of another job, or a file of its input."""


def find(spec: str, folder: str = "") -> Environment:
    """An environment by what the command line says; see `gym.registry.find`.

    Raises:
        UsageError: there is none, or it cannot be loaded.
    """
    name, colon, argument = spec.partition(":")
    if colon and name in ("code", "agentic"):
        return _of_a_job(name, argument, folder)
    return registry.find(spec, folder)


@cache
def _of_a_job(name: str, path: str, folder: str) -> Environment:
    from tokenmill.pipelines.gym.agents import Agentic, Code

    whole = str(Path(folder or ".", path).resolve())
    if not Path(whole).exists():
        raise UsageError(f"--env {name}:{path}: there is no such file or folder")
    return Code(whole, f"code:{path}") if name == "code" else Agentic(whole, f"agentic:{path}")


def expanded(specs: tuple[str, ...]) -> tuple[str, ...]:
    """The names meant: `all` stands for what is shipped, `reasoning-gym` for its generators that passed the check.

    Raises:
        UsageError: the package is not installed, or is another version than the one checked.
    """
    names: list[str] = []
    for spec in specs:
        if spec == "all":
            names += registry.SHIPPED
        elif spec == reasoning.PREFIX:
            names += reasoning.offered()
        else:
            names.append(spec)
    return tuple(dict.fromkeys(names))


def found(specs: tuple[str, ...], folder: str = "") -> list[Environment]:
    """The environments that a run uses.

    Raises:
        UsageError: one cannot be found, or did not pass the check.
    """
    made = [find(name, folder) for name in expanded(specs)]
    for environment in made:
        if isinstance(environment, reasoning.Reasoning):
            passed = environment.recorded.get("passed")
            if not passed or environment.name not in reasoning.offered():
                faults = environment.recorded.get("faults", [])
                why = faults[0]["detail"] if faults else "it was not checked"
                raise UsageError(f"{environment.name} did not pass `gym check` and is not offered: {why}")
    return made


def here() -> str:
    """The folder in which modules and files of a user's are looked for."""
    return str(Path.cwd())

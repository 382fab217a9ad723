"""Rollouts of other jobs as environments: coding tasks decided by hidden tests, tasks with rubrics for agents in worlds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from tokenmill.gym.environment import Episode, part
from tokenmill.gym.files import records
from tokenmill.inference.call import Answer, Ask, Usage
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.pipelines.agentic.code.rollout import SYSTEM, RunCodeTask
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt, ModelNames
from tokenmill.pipelines.agentic.trajectories.rollout import RunTrajectory
from tokenmill.pipelines.agentic.trajectories.worlds import SimulatedWorlds
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.agentic import AgentTask
from tokenmill.schemas.code import CodeTask
from tokenmill.schemas.columns import from_values
from tokenmill.schemas.flags import UsageError
from tokenmill.schemas.gym import JUDGE, GymTask, RewardPart
from tokenmill.tools_repo.code.grade import MODULE
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.choose import BUBBLEWRAP, named


class Code:
    """`code:FILE`: functions and repositories, worked on in a sandbox, decided by hidden tests."""

    budget = 4096
    topics: tuple[str, ...] = ("code",)
    judged = False

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name
        self.parser = CodeTaskParser()

    def tasks(self, seed: int) -> Iterator[GymTask]:
        """The tasks in the file's order, whatever the seed."""
        for number, row in enumerate(_rows(self.path)):
            try:
                task = self.parser(row, Path(self.path).name, number)
            except RowUnreadable as error:
                raise UsageError(f"{self.path}: row {number}: {error}") from None
            yield GymTask(
                id=task.id,
                environment=self.name,
                kind=task.kind,
                topics=[*self.topics, task.kind],
                prompt=task.instructions,
                budget=self.budget,
                reference="\n\n".join(file.content for file in task.solution),
                data=orjson.dumps(task).decode(),
            )

    async def rollout(self, task: GymTask, ask: Ask) -> Episode:
        """One attempt; it is paid only where every hidden test passes and nothing was tampered with.

        Raises:
            RowError: the sandbox, the task's own tests or a model broke.
        """
        step = RunCodeTask(ModelNames(""), self._runtime, max_tokens=task.budget)
        made = await step(Attempt(from_values(CodeTask, orjson.loads(task.data)), 0), ask)
        return _episode(made, [_part(verdict) for verdict in made.row.verdicts])

    def script(self, task: GymTask) -> list[Answer]:
        """The turns of the reference: its files are written, then the work is said to be done."""
        given = from_values(CodeTask, orjson.loads(task.data))
        wanted = [(file.path or MODULE, file.content) for file in given.solution]
        calls = [
            _call("write_file", {"path": path, "content": content}, number)
            for number, (path, content) in enumerate(wanted)
        ]
        return [*calls, Answer("Done.", "stop", Usage(1, 1), "check")] if calls else []

    @property
    def prompts(self) -> tuple[str, ...]:
        """Names of the prompts that an attempt uses."""
        return (SYSTEM,)

    @cached_property
    def _runtime(self) -> Runtime:
        isolated = named(BUBBLEWRAP)
        try:
            isolated.check()
        except SandboxUnavailable as error:
            raise UsageError(f"--env {self.name}: code is run in a sandbox only: {error}") from None
        return Runtime.local(isolated)


class Agentic:
    """`agentic:DIR`: tasks of `agentic tasks`, with a simulated user, simulated tools, and a rubric."""

    budget = 2048
    topics: tuple[str, ...] = ("agents", "tool use")
    judged = True

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name

    def tasks(self, seed: int) -> Iterator[GymTask]:
        """The tasks in the files' order, whatever the seed."""
        for number, row in enumerate(_rows(self.path)):
            try:
                task = from_values(AgentTask, row)
            except ValueError as error:
                raise UsageError(f"{self.path}: row {number} is no task of `agentic tasks`: {error}") from None
            yield GymTask(
                id=task.id,
                environment=self.name,
                kind=task.level,
                topics=[*self.topics, task.level],
                system=task.agent.system,
                prompt=task.opening,
                budget=self.budget,
                reference=task.reply,
                data=orjson.dumps(task).decode(),
            )

    async def rollout(self, task: GymTask, ask: Ask) -> Episode:
        """One attempt; it earns its rubric's score where it is kept, and nothing where a mandatory criterion is missed.

        Raises:
            RowError: a model cannot be brought to answer.
        """
        given = from_values(AgentTask, orjson.loads(task.data))
        made = await self._step(task.budget)(Attempt(given, 0), ask)
        if isinstance(made, Accepted):
            return _episode(made, [part("rubric", made.row.score, f"score {made.row.score:g}", JUDGE)])
        return _episode(made, [part("rubric", False, f"{made.row.reason}: {made.row.detail}", JUDGE)])

    def script(self, task: GymTask) -> list[Answer]:
        """The turns of the reference: its calls, then its reply."""
        given = from_values(AgentTask, orjson.loads(task.data))
        calls = [_call(one.tool, orjson.loads(one.arguments), number) for number, one in enumerate(given.solution)]
        return [*calls, Answer(given.reply or "Done.", "stop", Usage(1, 1), "check")]

    @property
    def prompts(self) -> tuple[str, ...]:
        """Names of the prompts that an attempt may use."""
        return self._step(self.budget).prompt_names

    def _step(self, budget: int) -> RunTrajectory:
        return RunTrajectory(ModelNames(""), SimulatedWorlds(), max_tokens=budget)


def _rows(path: str) -> Iterator[dict[str, Any]]:
    """Rows of a file, or of the `data/` of a finished run.

    Raises:
        UsageError: nothing is there.
    """
    here = Path(path)
    files = sorted((here / "data").glob("*.parquet")) if here.is_dir() else [here]
    if not files:
        raise UsageError(f"--env {path}: no finished run with rows is there")
    for file in files:
        yield from records(file)


def _part(verdict: Any) -> RewardPart:
    return part(verdict.criterion, verdict.passed, verdict.detail or verdict.reason or "passed", verdict.decided_by)


def _episode(made: Accepted | Rejected | Any, parts: list[RewardPart]) -> Episode:
    return Episode(made.row.messages, tuple(parts), made.row.ended)


def _call(name: str, arguments: dict[str, Any], number: int) -> Answer:
    """An answer that calls a tool."""
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    call = {"id": f"functions.{name}:{number}", "type": "function", "function": function}
    return Answer("", "tool_calls", Usage(1, 1), "check", (call,))

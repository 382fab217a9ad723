"""An environment in a folder: `tasks.jsonl`, and `reward.py`, which runs in the sandbox.

    tasks.jsonl   {"id": "1", "prompt": "What is 2 + 2?", "reference": "4", …}      one task a line
    reward.py     def reward(task: dict, answer: str) -> float | dict[str, float]

`task` is the line as it stands. A number is the reward; a dict has parts, whose product is the reward. What `reward` raises, and
what is no number from 0 to 1, is the environment's fault.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from tokenmill.gym.environment import EnvironmentFault, SingleAnswer, part
from tokenmill.gym.files import records
from tokenmill.inference.call import Ask
from tokenmill.schemas.code import CodeFile
from tokenmill.schemas.flags import UsageError
from tokenmill.schemas.gym import GymTask, RewardPart
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.code.workspace import Workspace
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.choose import BUBBLEWRAP, named

TASKS, REWARD = "tasks.jsonl", "reward.py"
SECONDS = 20.0
"""For one reward."""
_RESULT = "result.json"
_DRIVER = """
import json
from reward import reward
given = json.load(open("given.json", encoding="utf-8"))
said = reward(given["task"], given["answer"])
parts = said if isinstance(said, dict) else {"reward": said}
json.dump({str(name): float(value) for name, value in parts.items()}, open("result.json", "w"))
"""


class Folder(SingleAnswer):
    """Tasks and a reward of the user's."""

    topics = ("own",)
    budget = 4096

    def __init__(self, path: str, name: str) -> None:
        """
        Raises:
            UsageError: a file is missing.
        """
        self.path, self.name = Path(path), name
        for file in (TASKS, REWARD):
            if not (self.path / file).is_file():
                raise UsageError(f"--env {name}: there is no {file} in it")
        self._reward = (self.path / REWARD).read_text(encoding="utf-8")

    @property
    def sha256(self) -> str:
        """Of the reward, which belongs to what a run is."""
        return hashlib.sha256(self._reward.encode()).hexdigest()

    def tasks(self, seed: int) -> Iterator[GymTask]:
        """The tasks in the file's order, whatever the seed."""
        for number, row in enumerate(records(self.path / TASKS)):
            if not isinstance(row.get("prompt"), str) or not row["prompt"].strip():
                raise UsageError(f"{self.path / TASKS}: line {number + 1} has no `prompt`")
            yield GymTask(
                id=str(row.get("id") or f"{self.path.name}/{number}"),
                environment=self.name,
                kind=str(row.get("kind") or self.path.name),
                topics=[str(topic) for topic in row.get("topics") or self.topics],
                system=str(row.get("system") or ""),
                prompt=row["prompt"],
                budget=int(row.get("budget") or self.budget),
                reference=str(row.get("reference") or ""),
                data=orjson.dumps(row).decode(),
            )

    async def parts(self, task: GymTask, text: str, ask: Ask) -> Sequence[RewardPart]:
        given = orjson.dumps({"task": orjson.loads(task.data), "answer": text}).decode()
        files = {REWARD: self._reward, "given.json": given, "driver.py": _DRIVER}
        workspace = Workspace.of([CodeFile(path, content) for path, content in files.items()])
        runtime = self._runtime
        done = await runtime.execute(workspace, (runtime.python, "driver.py"), seconds=SECONDS, keep=2000)
        entry = done.workspace.get(_RESULT)
        if done.exceeded or done.exit_code or entry is None:
            said = " ".join(done.output.split())[-300:]
            raise EnvironmentFault(
                f"{self.name}: {REWARD} {f'used too much {done.exceeded}' if done.exceeded else f'broke: {said}'}"
            )
        return [part(name, value, f"{REWARD} says {value:g}") for name, value in _numbers(entry.content).items()]

    @cached_property
    def _runtime(self) -> Runtime:
        isolated = named(BUBBLEWRAP)
        try:
            isolated.check()
        except SandboxUnavailable as error:
            raise UsageError(f"--env {self.name}: {REWARD} runs in a sandbox only: {error}") from None
        return Runtime.local(isolated)


def _numbers(content: bytes) -> dict[str, float]:
    """What the driver wrote down; JSON has neither NaN nor infinity."""
    found: Any = orjson.loads(content)
    return {str(name): float(value) for name, value in found.items()}

"""Worlds whose tools are Python that `tools implement` wrote: deterministic, without model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from tokenmill.inference.call import Ask
from tokenmill.pipelines.agentic.trajectories.worlds import EXECUTABLE, circumstances
from tokenmill.pipelines.runs import inputs
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.read_rows import tried_rows
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES, RecordParser
from tokenmill.pipelines.transforms.sources import Piece, RowUnreadable
from tokenmill.schemas.agentic import AgentTask
from tokenmill.schemas.engines import Engine
from tokenmill.tools_repo.sandbox.base import Sandbox, SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.world import World, simulator
from tokenmill.tools_repo.world.entities import EntityModel
from tokenmill.tools_repo.world.executable import Executable, by_tool, functions_for
from tokenmill.tools_repo.world.outcomes import Odds
from tokenmill.tools_repo.world.programs.pool import Interpreter


@dataclass(frozen=True)
class ExecutableWorlds:
    """Worlds whose tools run as code; the model of the role `tools` simulates those without."""

    engines: tuple[Piece, ...]
    """Where the rows of `tools implement` stand; every worker reads them once."""
    odds: Odds = field(default_factory=Odds)
    params: dict[str, Any] = field(default_factory=lambda: {"temperature": 0.3, "max_tokens": 2048})
    """Sampling parameters of the simulator's calls."""
    interpreter: Interpreter | None = None
    """Where code runs; None: the machine that the worker runs on."""

    sandbox: Sandbox | None = None
    """What isolates it there; None: bubblewrap."""

    engine: ClassVar[str] = EXECUTABLE

    def check_worker(self) -> None:
        """Raises: SandboxUnavailable."""
        if self.interpreter is None:
            (self.sandbox or Bubblewrap()).check()

    def __call__(self, task: AgentTask, ask: Ask, *parts: object) -> World:
        """Raises: ValueError: the task's state does not meet its entity model, or a tool is invalid."""
        agent = task.agent
        entities = EntityModel.parse(agent.entities)
        return Executable(
            agent.tools,
            entities,
            task.state,
            functions_for(agent.tools, entities, _engines(self.engines)),
            self.interpreter or Interpreter.local(self.sandbox),
            ask=ask,
            **circumstances(task, self.odds, parts),
            **self.params,
        )

    @property
    def prompt_names(self) -> tuple[str, ...]:
        return simulator.PROMPTS


def find_engines(globs: Sequence[str], sandbox: Sandbox | None = None) -> tuple[tuple[Piece, ...], list[list[str]]]:
    """Where the engines stand, and what identifies them (name and stamp of each file), from the values of a flag.

    Raises:
        UsageError: nothing is there, it holds no engines, or there is no sandbox here to run them in.
    """
    try:
        (sandbox or Bubblewrap()).check()
    except SandboxUnavailable as error:
        raise UsageError(f"--engine {EXECUTABLE}: generated code is run in a sandbox only: {error}") from None
    try:
        found = inputs.find(globs)
        inputs.check_columns(found, RecordParser(Engine))
    except UsageError as error:
        line = str(error).replace("--input", "--engines").split(" Name the right one")[0]
        raise UsageError(f"{line} It takes the output of `tools implement`.") from None
    return found.pieces, [[file.name, file.stamp] for file in found.files]


@lru_cache(maxsize=4)
def _engines(pieces: tuple[Piece, ...]) -> dict[str, Engine]:
    """Engines by the ids of their tools.

    Raises:
        ValueError: a row is no engine.
    """
    engines = []
    for place, engine in tried_rows(pieces, RecordParser(Engine), MAX_ROW_BYTES):
        if isinstance(engine, RowUnreadable):
            raise ValueError(f"{place}: {engine}")
        engines.append(engine)
    return by_tool(engines)

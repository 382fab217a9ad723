"""Executable tools: Python for the tools of each domain, written by a model and checked in the sandbox.

domains with their tools | write, run, check, repair | data, rejected, failed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import apache_beam as beam
from tokenmill.inference.call import Ask
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Rollout
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.draws import digest
from tokenmill.schemas.engines import Engine, EngineFault, EngineTask, RefusedEngine
from tokenmill.tools_repo.sandbox.base import Sandbox
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.world.call_checks import Checks
from tokenmill.tools_repo.world.entities import EntityModel
from tokenmill.tools_repo.world.programs.pool import Interpreter
from tokenmill.tools_repo.world.programs.write import BATCH, PROMPTS, Written, write_engine

NO_TOOLS, NO_WORLD, NO_CODE = "no_tools", "no_world", "no_code"


@dataclass(frozen=True)
class ImplementTools:
    """The rollout of one domain."""

    model: str
    """Name of the writer's model, as rows carry it."""
    seed: int = 0
    tries: int = 3
    """Answers for a module: one, and repairs after that."""
    batch: int = BATCH
    """Tools of a module."""
    interpreter: Interpreter | None = None
    """Where code runs; None: the machine that the worker runs on."""
    sandbox: Sandbox | None = None
    """What isolates it there; None: bubblewrap."""
    temperature: float | None = 0.3
    top_p: float | None = 0.95
    max_tokens: int = 12_000

    row_type: ClassVar[type] = Engine
    rejected_type: ClassVar[type] = RefusedEngine

    def check_worker(self) -> None:
        """Raises: SandboxUnavailable."""
        if self.interpreter is None:
            (self.sandbox or Bubblewrap()).check()

    def __post_init__(self) -> None:
        if self.tries < 1 or self.batch < 1:
            raise ValueError(f"tries and tools of a module are at least 1, not {self.tries} and {self.batch}")

    async def __call__(self, task: EngineTask, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError: the endpoint refuses the request."""
        meter = Meter(ask)
        if not task.tools:
            return self._refused(task, meter, NO_TOOLS, "no tool of the input belongs to this domain")
        if not task.entities:
            return self._refused(task, meter, NO_WORLD, "the domain has no entity model")
        try:
            entities = EntityModel.parse(task.entities)
            Checks(task.tools, entities)
        except ValueError as error:
            return self._refused(task, meter, NO_WORLD, str(error))
        written = await write_engine(
            title=task.title,
            description=task.description,
            entities=entities,
            state=task.state,
            tools=task.tools,
            ask=meter,
            interpreter=self.interpreter or Interpreter.local(self.sandbox),
            tries=self.tries,
            batch=self.batch,
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            seed=digest(self.seed, task.id, "engine") >> 33,
        )
        if not written.modules:
            return self._refused(task, meter, NO_CODE, written.missing[0].detail, written)
        return Accepted(Engine(**self._row(task, meter, written)))

    def _refused(
        self, task: EngineTask, meter: Meter, reason: str, detail: str, written: Written | None = None
    ) -> Rejected:
        if written is None:
            missing = tuple(EngineFault(tool=tool.id, detail=detail) for tool in task.tools)
            written = Written((), missing)
        row = RefusedEngine(**self._row(task, meter, written), reason=reason, detail=detail)
        return Rejected(row, reason)

    def _row(self, task: EngineTask, meter: Meter, written: Written) -> dict[str, Any]:
        return {
            "id": task.id,
            "entities": task.entities,
            "modules": list(written.modules),
            "missing": list(written.missing),
            "model_calls": meter.calls,
            **meter.provenance(self.model, PROMPTS, self.seed),
        }

    def failed(self, task: EngineTask, error: str, message: str) -> FailedRow:
        names = ", ".join(tool.name for tool in task.tools)
        return failed_row(task.id, "implement", error, message, names, source_row=task.number)


def build(step: ImplementTools, flow: Flow) -> None:
    """The whole job."""
    tasks, unreadable = flow.read()
    written = tasks | "Spread" >> beam.Reshuffle() | "Write and check" >> Rollout(step, flow.models)
    flow.write_rolled(written, unreadable, Engine, RefusedEngine)

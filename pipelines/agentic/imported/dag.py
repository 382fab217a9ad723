"""Agents and tasks of domains that somebody has already: nothing is written by a model, solutions are played in the sandbox.

folders | load, describe    | data, rejected, failed
tasks   | play the solution | data, rejected, failed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import apache_beam as beam
from tokenmill.inference.call import Ask
from tokenmill.pipelines.runs.options import server_store
from tokenmill.pipelines.transforms import DATA, FAILED, REJECTED
from tokenmill.pipelines.transforms.counts import count
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Accepted, Rollout, Several
from tokenmill.schemas.agentic import Agent, AgentTask, RefusedAgent, RefusedTask
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.tools_repo.domains.folder import DomainFolder
from tokenmill.tools_repo.domains.hosts import shared
from tokenmill.tools_repo.domains.imports import TaskInvalid, agent_of, task_of
from tokenmill.tools_repo.sandbox.base import Sandbox


@dataclass(frozen=True)
class ImportAgent:
    """The rollout of one domain: its code is loaded in the sandbox and says what tools there are."""

    sandbox: Sandbox
    policy: str = ""
    """What agents are told in place of their domain's policy."""

    row_type: ClassVar[type] = Agent
    rejected_type: ClassVar[type] = RefusedAgent

    async def __call__(self, folder: DomainFolder, _: Ask) -> Accepted:
        """
        Raises:
            ValueError: a tool cannot be offered to a model.
            tokenmill.tools_repo.domains.host.HostBroken: the code does not load.
        """
        described = await shared(folder, self.sandbox, server_store()).describe()
        return Accepted(agent_of(folder, described, self.policy))

    def failed(self, folder: DomainFolder, error: str, message: str) -> FailedRow:
        return failed_row(folder.name, "import", error, message, folder.path, source_file=folder.path)


@dataclass(frozen=True)
class TaskOf:
    """One task of a domain, as its file has it."""

    folder: DomainFolder
    number: int
    task: Any

    @property
    def id(self) -> str:
        told = self.task.get("id", self.number) if isinstance(self.task, dict) else self.number
        return f"{self.folder.name}/{told}"


_agents: dict[tuple[DomainFolder, str], Agent] = {}
"""Of this process: a domain's agent is the same for all of its tasks."""


@dataclass(frozen=True)
class ImportTask:
    """The rollout of one task: its reference solution is played."""

    sandbox: Sandbox
    policy: str = ""

    row_type: ClassVar[type] = AgentTask
    rejected_type: ClassVar[type] = RefusedTask

    async def __call__(self, element: TaskOf, _: Ask) -> Several:
        """Raises: tokenmill.tools_repo.domains.host.HostBroken: the domain's code does not run."""
        host = shared(element.folder, self.sandbox, server_store())
        described = await host.describe()
        agent = _agents.get((element.folder, self.policy))
        if agent is None:
            agent = _agents[element.folder, self.policy] = agent_of(element.folder, described, self.policy)
        try:
            return Several([Accepted(await task_of(agent, element.task, element.number, host, described))])
        except TaskInvalid as error:
            return Several([self.failed(element, error.reason, str(error))])

    def failed(self, element: TaskOf, error: str, message: str) -> FailedRow:
        file, text = element.folder.tasks, str(element.task)[:300]
        return failed_row(element.id, "import", error, message, text, source_file=file, source_row=element.number)


def build(step: ImportAgent | ImportTask, given: Sequence[Any], flow: Flow) -> None:
    """The whole job."""
    rows = flow.root | "Given" >> beam.Create(list(given)) | "Spread" >> beam.Reshuffle()
    count(rows, "read")
    made = rows | "Import" >> Rollout(step, flow.models)
    flow.write(step.row_type, step.rejected_type, made[DATA], [made[REJECTED]], [made[FAILED]])

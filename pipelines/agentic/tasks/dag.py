"""Tasks with rubrics for agents (Kimi K2 report, section 3.1.1, "rubric-based task generation", and figure 8b).

agents | draw levels | write, check, repair, one after another | data, rejected, failed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson
from tokenmill.inference.call import Ask, Message
from tokenmill.inference.errors import RowError
from tokenmill.judges.rubric.conditions import OPERATORS
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Rollout, Several
from tokenmill.prompts.fence import fence
from tokenmill.schemas.agentic import Agent, AgentTask, RefusedTask
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.draws import digest, shuffled
from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.agents.check import Fault
from tokenmill.tools_repo.tasks.check import TaskCheck
from tokenmill.tools_repo.tasks.form import Draft, draft_of, task_schema
from tokenmill.tools_repo.tasks.levels import LevelWeights
from tokenmill.tools_repo.tasks.world_summary import tools_shown, world_shown
from tokenmill.tools_repo.world.ask_checked import REPAIR, CheckFailed, ask_checked
from tokenmill.tools_repo.world.call_checks import Checks
from tokenmill.tools_repo.world.entities import EntityModel

from tokenmill import prompts

TASK, LEVEL_FOLDER = "agentic/task", "agentic/levels"
PROMPTS = (TASK, *prompts.names(LEVEL_FOLDER), REPAIR)
"""Every prompt that writing a task may use."""
FOCUS = 4
"""Tools, at most, that a task is asked to be built around."""


class AgentUnusable(RowError):
    """No task can be written for an agent: its tools or its world are broken."""


@dataclass(frozen=True)
class WriteTasks:
    """The rollout of one agent: its tasks are written one after another, each knowing those before it."""

    model: str
    """Name of the writer's model, as rows carry it."""
    tasks: int = 4
    """Tasks for each agent."""
    levels: LevelWeights = field(default_factory=LevelWeights)
    seed: int = 0
    tries: int = 3
    """Answers for one task, the repaired ones included."""
    threshold: float = 0.8
    """Score from which a trajectory that meets every mandatory criterion is kept."""
    temperature: float | None = 0.8
    top_p: float | None = 0.95
    max_tokens: int = 8_000

    row_type: ClassVar[type] = AgentTask
    rejected_type: ClassVar[type] = RefusedTask

    def __post_init__(self) -> None:
        for name in ("tasks", "tries"):
            if getattr(self, name) < 1:
                raise ValueError(f"WriteTasks.{name} is at least 1, not {getattr(self, name)}")
        if not 0 < self.threshold <= 1:
            raise ValueError(f"the threshold is in (0, 1], not {self.threshold}")

    async def __call__(self, agent: Agent, ask: Ask) -> Several:
        """Raises: AgentUnusable, tokenmill.inference.errors.RunStopped."""
        self._usable(agent)
        outcomes: list[Accepted | Rejected | FailedRow] = []
        siblings: list[Draft] = []
        for number in range(self.tasks):
            try:
                outcome, draft = await self._write(agent, number, siblings, ask)
            except RowError as error:
                outcomes.append(self._failed(agent, number, type(error).__name__, str(error)))
                continue
            outcomes.append(outcome)
            siblings.append(draft)
        return Several(outcomes)

    @staticmethod
    def _usable(agent: Agent) -> None:
        """Raises: AgentUnusable, before anything is paid for it."""
        try:
            model = EntityModel.parse(agent.entities)
            Checks(agent.tools, model)
            faults = model.check(orjson.loads(agent.state))
        except ValueError as error:
            raise AgentUnusable(str(error)) from None
        if faults:
            raise AgentUnusable(f"its state does not meet its entity model: {faults[0]}")

    async def _write(
        self, agent: Agent, number: int, siblings: Sequence[Draft], ask: Ask
    ) -> tuple[Accepted | Rejected, Draft]:
        """One task. Raises RowError when no answer could be read at all."""
        level, meter = self.level(agent, number), Meter(ask)
        seen: list[tuple[Draft, Fault]] = []

        def check(answer: dict[str, Any]) -> TaskCheck:
            checked = TaskCheck(draft_of(answer, level), agent, siblings, self.threshold)
            if faults := checked():
                seen.append((checked.draft, faults[0]))
                raise ValueError("\n".join(f"- {fault.detail}" for fault in faults[:8]))
            return checked

        drawn = digest(self.seed, agent.id, number, "task") >> 33
        try:
            found = await ask_checked(
                meter,
                self.messages(agent, number, siblings),
                task_schema(agent.tools, level),
                check,
                to="writer",
                tries=self.tries,
                seed=drawn,
                temperature=self.temperature,
                top_p=self.top_p,
                max_tokens=self.max_tokens,
            )
        except CheckFailed:
            if not seen:
                raise
            draft, fault = seen[-1]
            values = self._row(agent, number, draft, agent.state, meter)
            refused = RefusedTask(**values, reason=fault.reason, detail=" ".join(fault.detail.split())[:600])
            return Rejected(refused, fault.reason), draft
        return Accepted(AgentTask(**self._row(agent, number, found.draft, dump(found.start), meter))), found.draft

    def level(self, agent: Agent, number: int) -> str:
        """The level of an agent's task: drawn, among those that its tools can carry."""
        return self.levels.draw(self.needed(agent), self.seed, agent.id, number)

    @staticmethod
    def needed(agent: Agent) -> list[ToolSpec]:
        """The agent's tools without the distractors."""
        return [tool for tool in agent.tools if tool.name not in agent.distractors]

    def messages(self, agent: Agent, number: int, siblings: Sequence[Draft]) -> list[Message]:
        """The prompt for one task. What differs between an agent's tasks comes last, so that prefixes are shared."""
        names = [tool.name for tool in self.needed(agent)]
        focus = shuffled(names, self.seed, agent.id, number, "focus", first=FOCUS)
        level = prompts.load(f"{LEVEL_FOLDER}/{self.level(agent, number)}")
        titles = "\n".join(f"- {draft.title}: {draft.goal[:200]}" for draft in siblings) or "-"
        return prompts.load(TASK).render(
            agent=fence(agent.system, "agent"),
            tools=fence(tools_shown(agent.tools), "tools"),
            world=fence(world_shown(orjson.loads(agent.entities), orjson.loads(agent.state)), "records"),
            level=level.text,
            focus=fence(", ".join(focus), "focus"),
            siblings=fence(titles, "tasks"),
            operators="\n".join(f"  - {name}: {meaning}" for name, meaning in OPERATORS.items()),
        )

    def _row(self, agent: Agent, number: int, draft: Draft, state: str, meter: Meter) -> dict[str, Any]:
        level = self.level(agent, number)
        return {
            "id": f"{agent.id}/{number}",
            "agent": agent,
            "level": level,
            "situation": draft.situation,
            "opening": draft.opening,
            "goal": draft.goal,
            "facts": draft.facts,
            "state": state,
            "rubric": draft.rubric,
            "threshold": self.threshold,
            "solution": draft.solution,
            "reply": draft.reply,
            **meter.provenance(self.model, (TASK, f"{LEVEL_FOLDER}/{level}", REPAIR), self.seed),
        }

    def _failed(self, agent: Agent, number: int, error: str, message: str) -> FailedRow:
        message = " ".join(message.split())[:2_000]
        return failed_row(f"{agent.id}/{number}", "task", error, message, agent.role, source_id=agent.id)

    def failed(self, agent: Agent, error: str, message: str) -> FailedRow:
        """The row of `failed/` for an agent of which no task could even be tried."""
        return failed_row(agent.id, "tasks", error, message, agent.role)


def build(step: WriteTasks, flow: Flow) -> None:
    """The whole job."""
    agents, unreadable = flow.read()
    written = agents | "Write tasks" >> Rollout(step, flow.models)
    flow.write_rolled(written, unreadable, AgentTask, RefusedTask)

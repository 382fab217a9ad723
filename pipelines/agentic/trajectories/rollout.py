"""One attempt at a task: a simulated user and an agent talk, a world runs the agent's calls, judges decide
(Kimi K2 report, section 3.1.1, "multi-turn trajectory generation" and "quality evaluation and filtering").

An element is a task and the number of the attempt, so that several attempts at a task are rejection sampling. Every model
call depends on the seed, the task, the number of the attempt and the turn alone: a run that was killed goes on from its answers.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import orjson
from tokenmill.inference.call import Ask
from tokenmill.judges.corpus.contamination import Hit
from tokenmill.judges.rubric.code_criteria import broken
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.grade import Judged, judge_by_code, judge_trajectory
from tokenmill.pipelines.agentic.trajectories import agent_turn
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt, ModelNames, agent_sampling
from tokenmill.pipelines.agentic.trajectories.dialogue import RULE_BROKEN, Dialogue, Limits, converse
from tokenmill.pipelines.agentic.trajectories.finished import (
    general_verdicts,
    judge_contamination,
    outcome,
    untried,
)
from tokenmill.pipelines.agentic.trajectories.worlds import SIMULATOR, Worlds
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.runs.benchmarks import Benchmarks
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.agentic import AgentTask, CriterionVerdict, RefusedTrajectory, Trajectory
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.draws import digest
from tokenmill.schemas.tools import dump
from tokenmill.schemas.verdicts import first_refusal
from tokenmill.tools_repo.domains.world import DomainWorld
from tokenmill.tools_repo.tasks.missing import is_drawn, without_its_tools
from tokenmill.tools_repo.users import simulate
from tokenmill.tools_repo.users.acts import ACTS, UserActs
from tokenmill.tools_repo.users.simulate import Personas, SimulatedUser, draw_persona
from tokenmill.tools_repo.world.state_view import span

from tokenmill import prompts

JUDGES = tuple(name for name in prompts.names("judges") if name.startswith("judges/rubric"))
"""Prompts of the judge."""


@dataclass(frozen=True)
class RunTrajectory:
    """The rollout of one attempt."""

    models: ModelNames
    worlds: Worlds
    protocol: agent_turn.Protocol = agent_turn.NATIVE
    """How the agent calls tools: natively, or by JSON answers."""
    limits: Limits = field(default_factory=Limits)
    votes: int = 3
    """The judge's votes on what code cannot decide, odd."""
    one_user: bool = False
    """Whether all tries at a task have the same persona and first message."""
    seed: int = 0
    temperature: float | None = 0.8
    """Of the agent: attempts at one task must differ."""
    top_p: float | None = 0.95
    max_tokens: int = 2048
    """Length of one of the agent's answers."""
    personas: Personas = field(default_factory=Personas)
    """Who may be the user."""
    benchmarks: Benchmarks | None = None
    """A task that holds an item of these is not tried."""
    missing_tools: float = 0.0
    """Share of the tasks that are tried without their tools."""

    row_type: ClassVar[type] = Trajectory
    rejected_type: ClassVar[type] = RefusedTrajectory

    def __post_init__(self) -> None:
        if self.votes < 1 or self.votes % 2 == 0:
            raise ValueError(f"the judge's votes must be odd, not {self.votes}")
        if self.protocol not in agent_turn.PROMPTS:
            raise ValueError(f"the agent's protocol is one of {', '.join(agent_turn.PROMPTS)}, not {self.protocol!r}")

    def check_worker(self) -> None:
        """Raises: SandboxUnavailable."""
        getattr(self.worlds, "check_worker", lambda: None)()

    async def __call__(self, element: Attempt[AgentTask], ask: Ask) -> Accepted | Rejected:
        meter = Meter(ask)
        task, parts = self._given(element.task), (self.seed, element.task.id, element.sample)
        who = 0 if self.one_user else element.sample
        persona = draw_persona(self.seed, task.id, who, self.personas)
        made = self.worlds(task, meter, *parts)
        world = await made if inspect.isawaitable(made) else made
        drawn = digest(self.seed, task.id, who, "user") >> 33
        acts = UserActs(task, world, drawn) if isinstance(world, DomainWorld) and task.agent.user_tools else None
        user = SimulatedUser(task, persona, drawn, acts=acts)
        held, hit = self.held(task)
        try:
            start = world.state
            if hit is not None:
                dialogue = untried(task.agent.system)
            else:
                dialogue = await converse(
                    task.agent.system,
                    user,
                    world,
                    meter,
                    protocol=self.protocol,
                    limits=self.limits,
                    params=lambda turn: agent_sampling(self, task.id, element.sample, turn),
                    lost=lambda now: broken(task.rubric, _evidence(task, now, start, start)) is not None,
                )
            before, after = map(dump, span(start, world.state, orjson.loads(task.state)))
        finally:
            await world.close()
        general = held if hit is not None else [*held, *general_verdicts(dialogue, world)]
        evidence = _evidence(task, dialogue, orjson.loads(before), orjson.loads(after))
        rule = broken(task.rubric, evidence) if dialogue.ended == RULE_BROKEN else None
        missed = rule or first_refusal(general)
        if rule:  # nothing else can be said of what was broken off
            judged = Judged(False, 0.0, rule.reason, rule.detail, (rule,), 0)
        elif missed:  # of a trajectory that is refused anyhow only what costs nothing is judged
            judged = judge_by_code(task, evidence)
        else:
            judged = await judge_trajectory(task, evidence, meter, self.votes)
        simulated = any(call.engine == SIMULATOR for call in dialogue.calls)
        used = (
            *agent_turn.PROMPTS[self.protocol],
            simulate.USER,
            *((ACTS,) if acts is not None else ()),
            self.personas.prompt_of(persona),
            *(self.worlds.prompt_names if simulated else ()),
            *(JUDGES if judged.asked else ()),
        )
        row = outcome(
            element,
            dialogue,
            world,
            meter,
            # A trajectory that did not end is refused for that, whatever else it missed.
            missed.reason if missed else judged.reason,
            missed.detail if missed else judged.detail,
            agent_id=task.agent.id,
            level=task.level,
            situation=task.situation,
            goal=task.goal,
            rubric=task.rubric,
            threshold=task.threshold,
            score=judged.score,
            verdicts=[*general, *judged.verdicts],
            persona=persona,
            user_calls=acts.calls if acts is not None else [],
            state_before=before,
            state_after=after,
            engine=self.worlds.engine,
            domains=task.agent.domains,
            license="; ".join(sorted({tool.license for tool in task.agent.tools} - {""})),
            user_model=self.models.user,
            tool_model=self.models.tools if simulated else "",
            judge_model=self.models.judge if judged.asked else "",
            **meter.provenance(self.models.writer, used, self.seed),
        )
        return replace(row, counted=hit.counter) if hit is not None and isinstance(row, Rejected) else row

    def _given(self, task: AgentTask) -> AgentTask:
        """The task as it is tried."""
        missing = self.missing_tools and is_drawn(self.missing_tools, self.seed, task.id)
        return (without_its_tools(task) if missing else None) or task

    def held(self, task: AgentTask) -> tuple[list[CriterionVerdict], Hit | None]:
        """What the benchmarks say of a task, and the item that it holds."""
        return judge_contamination(self.benchmarks, "\n\n".join((task.situation, task.opening, task.goal)))

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """Names of all prompts that a trajectory may use."""
        used = (
            *agent_turn.PROMPTS[self.protocol],
            *simulate.PROMPTS,
            *self.personas.names,
            *self.worlds.prompt_names,
            *JUDGES,
        )
        return tuple(dict.fromkeys(used))

    def failed(self, element: Attempt[AgentTask], error: str, message: str) -> FailedRow:
        """The row of `failed/` for an attempt that a simulator, a judge or an endpoint broke: none of it is the agent's fault."""
        return failed_row(element.id, "rollout", error, message, element.task.opening, source_id=element.task.id)


def _evidence(task: AgentTask, dialogue: Dialogue, before: dict[str, Any], after: dict[str, Any]) -> Evidence:
    return Evidence(dialogue.messages, dialogue.calls, before, after, task.agent.tools)

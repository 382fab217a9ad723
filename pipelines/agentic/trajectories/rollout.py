"""One try at a task: a simulated user and an agent talk, a world runs the agent's calls, judges decide
(Kimi K2 report, section 3.1.1, "multi-turn trajectory generation" and "quality evaluation and filtering").

An element is a task and the number of the try, so that several tries at a task are rejection sampling. Every model call
depends on the seed, the task, the number of the try and the turn alone: a run that was killed goes on from its answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson
from tokenmill.inference.call import Ask
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.grade import Judged, by_code, judge_trajectory
from tokenmill.pipelines.agentic.trajectories import agent_turn
from tokenmill.pipelines.agentic.trajectories.attempt import Players, Try, agent_sampling, ending, names_of
from tokenmill.pipelines.agentic.trajectories.dialogue import Dialogue, Limits, converse
from tokenmill.pipelines.agentic.trajectories.wire_form import judge_form
from tokenmill.pipelines.agentic.trajectories.worlds import SIMULATOR, Worlds
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.agentic import AgentTask, CriterionVerdict, Persona, RefusedTrajectory, Trajectory
from tokenmill.schemas.documents import FailedRow
from tokenmill.schemas.draws import digest
from tokenmill.schemas.tools import dump
from tokenmill.tools_repo.users import simulate
from tokenmill.tools_repo.users.simulate import SimulatedUser, draw_persona
from tokenmill.tools_repo.world import World

from tokenmill import prompts

JUDGES = tuple(name for name in prompts.names("judges") if name.startswith("judges/rubric"))
"""Prompts of the judge."""


@dataclass(frozen=True)
class RunTrajectory:
    """The rollout of one try."""

    players: Players
    worlds: Worlds
    protocol: agent_turn.Protocol = agent_turn.NATIVE
    limits: Limits = field(default_factory=Limits)
    votes: int = 3
    """The judge's votes on what code cannot decide, odd."""
    seed: int = 0
    temperature: float | None = 0.8
    """Of the agent: tries at one task must differ."""
    top_p: float | None = 0.95
    max_tokens: int = 2048
    """Length of one of the agent's answers."""

    row_type: ClassVar[type] = Trajectory
    rejected_type: ClassVar[type] = RefusedTrajectory

    def __post_init__(self) -> None:
        if self.votes < 1 or self.votes % 2 == 0:
            raise ValueError(f"the judge's votes must be odd, not {self.votes}")
        if self.protocol not in agent_turn.PROMPTS:
            raise ValueError(f"the agent's protocol is one of {', '.join(agent_turn.PROMPTS)}, not {self.protocol!r}")

    async def __call__(self, element: Try[AgentTask], ask: Ask) -> Accepted | Rejected:
        meter = Meter(ask)
        task, parts = element.task, (self.seed, element.task.id, element.sample)
        persona = draw_persona(self.seed, task.id, element.sample)
        user = SimulatedUser(task, persona, digest(*parts, "user") >> 33)
        world = self.worlds(task, meter, *parts)
        try:
            before = dump(world.state)
            dialogue = await converse(
                task.agent.system,
                user,
                world,
                meter,
                protocol=self.protocol,
                limits=self.limits,
                params=lambda turn: agent_sampling(self, task.id, element.sample, turn),
            )
            after = dump(world.state)
        finally:
            await world.close()
        general = [ending(dialogue), judge_form(dialogue.messages, names_of(world), dialogue.malformed)]
        judged = await self._judge(task, dialogue, before, after, meter, paid=all(v.passed for v in general))
        verdict = _together(general, judged)
        row = self._row(element, persona, world, dialogue, before, after, verdict, meter)
        if verdict.passed:
            return Accepted(Trajectory(**row))
        return Rejected(RefusedTrajectory(**row, reason=verdict.reason, detail=verdict.detail), verdict.reason)

    async def _judge(
        self, task: AgentTask, dialogue: Dialogue, before: str, after: str, ask: Ask, *, paid: bool
    ) -> Judged:
        """Decide the rubric; of a trajectory that is refused anyhow only what costs nothing."""
        tools = task.agent.tools
        evidence = Evidence(dialogue.messages, dialogue.calls, orjson.loads(before), orjson.loads(after), tools)
        if paid:
            return await judge_trajectory(task, evidence, ask, self.votes)
        decided = {name: verdict for name, verdict in by_code(task, evidence).items() if verdict is not None}
        weights = {criterion.id: criterion.weight for criterion in task.rubric if criterion.id in decided}
        met = sum(weight for name, weight in weights.items() if decided[name].passed)
        score = met / whole if (whole := sum(weights.values())) else 0.0
        return Judged(False, round(score, 4), "", "", tuple(decided.values()), 0)

    def _row(
        self,
        element: Try[AgentTask],
        persona: Persona,
        world: World,
        dialogue: Dialogue,
        before: str,
        after: str,
        verdict: _Verdict,
        meter: Meter,
    ) -> dict[str, Any]:
        task = element.task
        return {
            "id": element.id,
            "messages": dialogue.messages,
            "tools": dump(world.tools),
            "task_id": task.id,
            "agent_id": task.agent.id,
            "sample": element.sample,
            "level": task.level,
            "situation": task.situation,
            "goal": task.goal,
            "rubric": task.rubric,
            "threshold": task.threshold,
            "score": verdict.score,
            "verdicts": verdict.verdicts,
            "calls": dialogue.calls,
            "persona": persona,
            "ended": dialogue.ended,
            "state_before": before,
            "state_after": after,
            "engine": self.worlds.engine,
            "domains": task.agent.domains,
            "license": "; ".join(sorted({tool.license for tool in task.agent.tools} - {""})),
            "model": self.players.writer,
            "user_model": self.players.user,
            "tool_model": self.players.tools if _simulated(dialogue) else "",
            "judge_model": self.players.judge if verdict.asked else "",
            "prompts": sorted(prompts.load(name).id for name in self._used(persona, dialogue, verdict)),
            "seed": self.seed,
            "model_calls": meter.calls,
            "prompt_tokens": meter.usage.prompt,
            "completion_tokens": meter.usage.completion,
        }

    def _used(self, persona: Persona, dialogue: Dialogue, verdict: _Verdict) -> set[str]:
        """Names of the prompts that a trajectory did use."""
        return {
            *agent_turn.PROMPTS[self.protocol],
            simulate.USER,
            f"{simulate.PERSONAS}/{persona.name}",
            *(self.worlds.prompt_names if _simulated(dialogue) else ()),
            *(JUDGES if verdict.asked else ()),
        }

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """Names of all prompts that a trajectory may use."""
        return tuple(
            dict.fromkeys((*agent_turn.PROMPTS[self.protocol], *simulate.PROMPTS, *self.worlds.prompt_names, *JUDGES))
        )

    def failed(self, element: Try[AgentTask], error: str, message: str) -> FailedRow:
        """The row of `failed/` for a try that a simulator, a judge or an endpoint broke: none of it is the agent's fault."""
        return FailedRow(element.id, element.task.id, "", 0, "rollout", error, message, element.task.opening[:500])


@dataclass(frozen=True)
class _Verdict:
    passed: bool
    score: float
    verdicts: list[CriterionVerdict]
    reason: str
    detail: str
    asked: bool


def _simulated(dialogue: Dialogue) -> bool:
    return any(call.engine == SIMULATOR for call in dialogue.calls)


def _together(general: list[CriterionVerdict], judged: Judged) -> _Verdict:
    """The general checks come first: a trajectory that did not end is refused for that, whatever else it missed."""
    verdicts = [*general, *judged.verdicts]
    missed = next((verdict for verdict in general if not verdict.passed), None)
    passed = missed is None and judged.passed
    reason, detail = (missed.reason, missed.detail) if missed else (judged.reason, judged.detail)
    return _Verdict(passed, judged.score, verdicts, "" if passed else reason, detail, judged.model_calls > 0)

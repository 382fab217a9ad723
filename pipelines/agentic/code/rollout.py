"""One attempt at a coding task: the agent works in a sandbox until it says that it is done, hidden tests decide
(Kimi K2 report, section 3.1.1, "hybrid approach with real execution environments")."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tokenmill.inference.call import Ask
from tokenmill.inference.errors import RowError
from tokenmill.judges.corpus.contamination import Hit
from tokenmill.pipelines.agentic.trajectories import agent_turn
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt, ModelNames, agent_sampling
from tokenmill.pipelines.agentic.trajectories.dialogue import Dialogue, Limits, converse
from tokenmill.pipelines.agentic.trajectories.finished import (
    general_verdicts,
    judge_contamination,
    outcome,
    untried,
)
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.runs.benchmarks import Benchmarks
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.agentic import (
    STATE,
    ChatMessage,
    Criterion,
    CriterionVerdict,
    Persona,
    RefusedTrajectory,
    Trajectory,
)
from tokenmill.schemas.code import PASSED, CodeTask, CodeVerdict
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.tools import dump
from tokenmill.schemas.verdicts import first_refusal
from tokenmill.tools_repo.code.grade import Grader, GradingFailed
from tokenmill.tools_repo.code.interpreter import GuestFailed, Runtime
from tokenmill.tools_repo.code.world import CodeWorld
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.users.simulate import UserTurn

from tokenmill import prompts

SYSTEM = "trajectory/code_agent"
TESTS = "tests"
REASONS = {True: "tampered", False: "tests_failed"}
"""Reason of a refusal by the hidden tests, by whether something was tampered with."""
PERSONA = Persona(name="request", style="one written request", patience=0, knowledge="")
CRITERION = Criterion(
    id=TESTS, kind=STATE, description="every hidden test passes and nothing was tampered with", spec='{"hidden":true}'
)


class SandboxFailed(RowError):
    """The sandbox, not what ran in it, broke."""


@dataclass(frozen=True)
class OneRequest:
    """A user that asks once and takes the first reply for the end."""

    text: str

    async def say(self, messages: list[ChatMessage], ask: Ask) -> UserTurn:
        return UserTurn("", done=True) if len(messages) > 1 else UserTurn(self.text)


@dataclass(frozen=True)
class RunCodeTask:
    """The rollout of one attempt at a coding task."""

    models: ModelNames
    runtime: Runtime
    protocol: agent_turn.Protocol = agent_turn.NATIVE
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    temperature: float | None = 0.8
    top_p: float | None = 0.95
    max_tokens: int = 4096
    benchmarks: Benchmarks | None = None
    """A task that holds an item of these is not tried."""

    row_type: ClassVar[type] = Trajectory
    rejected_type: ClassVar[type] = RefusedTrajectory

    def check_worker(self) -> None:
        """Raises: SandboxUnavailable."""
        self.runtime.sandbox.check()

    async def __call__(self, element: Attempt[CodeTask], ask: Ask) -> Accepted | Rejected:
        meter, task = Meter(ask), element.task
        try:
            world = CodeWorld(task, self.runtime)
            before = dump(world.state)
            held, hit = self.held(task)
            if hit is not None:
                made = self._outcome(element, untried(prompts.load(SYSTEM).text), world, meter, held, 0.0, before)
                return replace(made, counted=hit.counter) if isinstance(made, Rejected) else made
            dialogue = await converse(
                prompts.load(SYSTEM).text,
                OneRequest(task.instructions),
                world,
                meter,
                protocol=self.protocol,
                limits=self.limits,
                params=lambda turn: agent_sampling(self, task.id, element.sample, turn),
            )
            graded = await Grader(self.runtime).grade(task, world.workspace)
        except (GradingFailed, GuestFailed, SandboxUnavailable) as error:
            raise SandboxFailed(f"{type(error).__name__}: {error}") from error
        verdicts = [*held, *general_verdicts(dialogue, world), judge_tests(graded)]
        return self._outcome(element, dialogue, world, meter, verdicts, graded.pass_rate, before)

    def held(self, task: CodeTask) -> tuple[list[CriterionVerdict], Hit | None]:
        """What the benchmarks say of a task, and the item that it holds."""
        return judge_contamination(self.benchmarks, task.instructions)

    def _outcome(
        self,
        element: Attempt[CodeTask],
        dialogue: Dialogue,
        world: CodeWorld,
        meter: Meter,
        verdicts: list[CriterionVerdict],
        score: float,
        before: str,
    ) -> Accepted | Rejected:
        task, missed = element.task, first_refusal(verdicts)
        return outcome(
            element,
            dialogue,
            world,
            meter,
            missed.reason if missed else "",
            missed.detail if missed else "",
            agent_id=SYSTEM,
            level=task.kind,
            situation=task.source,
            goal=task.instructions,
            rubric=[CRITERION],
            threshold=1.0,
            score=score,
            verdicts=verdicts,
            persona=PERSONA,
            state_before=before,
            state_after=dump(world.state),
            engine="sandbox",
            domains=["code"],
            license=task.license,
            user_model="",
            tool_model="",
            judge_model="",
            **meter.provenance(self.models.writer, self.prompt_names, self.seed),
        )

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """Names of all prompts that a trajectory may use."""
        return (SYSTEM, *agent_turn.PROMPTS[self.protocol])

    def failed(self, element: Attempt[CodeTask], error: str, message: str) -> FailedRow:
        """The row of `failed/` for an attempt that an endpoint, a sandbox or the task's own tests broke."""
        return failed_row(element.id, "rollout", error, message, element.task.instructions, element.task)


def judge_tests(graded: CodeVerdict) -> CriterionVerdict:
    """What the hidden tests say, as the verdict on `CRITERION`."""
    told: list[Any] = [finding.detail for finding in graded.findings]
    told += [f"{test.name}: {test.outcome}" for test in graded.tests if test.outcome != PASSED]
    return CriterionVerdict(
        criterion=TESTS,
        passed=graded.passed,
        score=graded.pass_rate,
        decided_by="code",
        reason="" if graded.passed else REASONS[graded.tampered],
        detail="; ".join(told[:5])[:600],
    )

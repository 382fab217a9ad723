"""A dialogue that has ended, as a row: the checks that every trajectory must pass, and the columns that all fill alike."""

from __future__ import annotations

from typing import Any

from tokenmill.judges.corpus.contamination import Hit
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt
from tokenmill.pipelines.agentic.trajectories.dialogue import USER_DONE, Dialogue
from tokenmill.pipelines.agentic.trajectories.wire_form import judge_form
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.runs.benchmarks import Benchmarks
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.agentic import ChatMessage, CriterionVerdict, RefusedTrajectory, Trajectory
from tokenmill.schemas.tools import dump
from tokenmill.tools_repo.world import World

ENDED = "ended"
"""Name of the check that a trajectory came to its end."""
UNTRIED = "contaminated"
"""How the dialogue of a task that holds an item of a benchmark ended: before it began."""


def general_verdicts(dialogue: Dialogue, world: World) -> list[CriterionVerdict]:
    """What holds of a trajectory whatever its task asks: that it came to its end, and that it is valid on the wire."""
    tools = [tool["function"]["name"] for tool in world.tools]
    return [judge_ending(dialogue), judge_form(dialogue.messages, tools, dialogue.malformed)]


def judge_contamination(benchmarks: Benchmarks | None, task: str) -> tuple[list[CriterionVerdict], Hit | None]:
    """The verdict on what a task says, where there are benchmarks to keep out, and the item that it holds."""
    if benchmarks is None:
        return [], None
    verdict, hit = benchmarks.verdict(task)
    said = "; ".join(f'{finding.detail} It says "{finding.rewrite}"' for finding in verdict.findings)
    judged = CriterionVerdict(
        criterion=verdict.check,
        passed=verdict.passed,
        score=verdict.score,
        decided_by="code",
        reason=verdict.reason,
        detail=" ".join(said.split())[:600],
    )
    return [judged], hit


def untried(system: str) -> Dialogue:
    """The dialogue of an attempt that is not made."""
    return Dialogue([ChatMessage(role="system", content=system)], ended=UNTRIED)


def judge_ending(dialogue: Dialogue) -> CriterionVerdict:
    """Whether the user had what it wanted before a limit was reached."""
    done = dialogue.ended == USER_DONE
    return CriterionVerdict(
        criterion=ENDED,
        passed=done,
        score=float(done),
        decided_by="code",
        reason="" if done else dialogue.ended,
        detail="" if done else f"after {dialogue.turns} turns and {len(dialogue.calls)} calls",
    )


def outcome(
    attempt: Attempt[Any], dialogue: Dialogue, world: World, meter: Meter, reason: str, detail: str, **columns: Any
) -> Accepted | Rejected:
    """The row of `data/`, or that of `rejected/` where there is a `reason`; `columns` are those that depend on the kind of
    task."""
    columns |= {
        "id": attempt.id,
        "messages": dialogue.messages,
        "tools": dump(world.tools),
        "task_id": attempt.task.id,
        "sample": attempt.sample,
        "calls": dialogue.calls,
        "ended": dialogue.ended,
        "model_calls": meter.calls,
    }
    if not reason:
        return Accepted(Trajectory(**columns))
    return Rejected(RefusedTrajectory(**columns, reason=reason, detail=detail), reason)

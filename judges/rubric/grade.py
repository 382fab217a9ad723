"""One trajectory judged by its task's rubric: by code first, and by the judge only where that can still matter.

    judged = await judge_trajectory(task, evidence, ask, votes=3)

Kimi K2 report, section 3.1.1: only trajectories that meet the success criteria are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tokenmill.inference.call import Ask
from tokenmill.judges.model.voting import JudgeUndecided, line
from tokenmill.judges.rubric.calls import Calls
from tokenmill.judges.rubric.claimed_actions import unsupported
from tokenmill.judges.rubric.code_criteria import CODE, decide
from tokenmill.judges.rubric.conduct import REPEATS, repeated, rules_of
from tokenmill.judges.rubric.end_state import Difference, differences
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.fabrication import invented
from tokenmill.judges.rubric.judge import CLAIMS, RubricJudge
from tokenmill.judges.rubric.user_role import user_fault
from tokenmill.schemas.agentic import ANSWER, AgentTask, Criterion, CriterionVerdict, Quote
from tokenmill.schemas.tools import dump

USER = "user"
"""Name under which the verdict on the simulated user stands."""
END_STATE = "end_state"
"""Name under which the verdict on what was changed stands."""
_MOST_SHOWN = 6
SCORE = "score"
"""Reason of a trajectory that meets every mandatory criterion but not the threshold."""


@dataclass(frozen=True)
class Judged:
    """What became of a trajectory."""

    passed: bool
    score: float
    """Weighted share of the rubric's criteria that are met, in [0, 1]; of those decided, when code has refused already."""
    reason: str
    """Reason of the first mandatory criterion or general check missed, or `score`; empty when passed."""
    detail: str
    verdicts: tuple[CriterionVerdict, ...]
    """Of the criteria decided, in the rubric's order, then of the general checks (`claims`, `user`, `end_state`, `repeats`),
    then of the agent's own rules (`policy 1`, …) and manners where the judge was asked."""
    checkpoint: int
    """How many checkpoints were reached: all mandatory criteria of it, and of those before it, are met."""
    asked: bool = False
    """Whether the judge model was asked."""


def by_code(
    task: AgentTask, evidence: Evidence, found: Sequence[Difference] | None = None
) -> dict[str, CriterionVerdict | None]:
    """Verdicts that need no model, by criterion and then by general check; None where only the judge can tell.

    Args:
        found: differences of the end state, where the caller has them already.

    Raises:
        ValueError: a criterion's spec is none, or the reference solution does not apply to the state.
    """
    calls = Calls(evidence, task.rubric)
    verdicts = {c.id: decide(c, evidence, task.rubric, calls) for c in task.rubric}
    general = {CLAIMS: check_claims(evidence), USER: check_user(evidence, task)}
    return {**verdicts, **general, END_STATE: check_end_state(evidence, task, found), REPEATS: check_repeats(evidence)}


def check_claims(evidence: Evidence) -> CriterionVerdict:
    """Refuses with `claimed_not_done` or `invented_value`."""
    if action := unsupported(evidence):
        quote = Quote(message=action.message, text=action.text)
        return _refused(CLAIMS, "claimed_not_done", f"no call supports: {line(action.text, 200)}", quote)
    if invention := invented(evidence):
        quote = Quote(message=invention.message, text=invention.text)
        return _refused(CLAIMS, "invented_value", f"{invention.what} without a source: {invention.text}", quote)
    return CriterionVerdict(criterion=CLAIMS, passed=True, score=1.0, decided_by=CODE)


def check_user(evidence: Evidence, task: AgentTask | None = None) -> CriterionVerdict:
    """Refuses with `user_plays_agent`, `user_leaks` or `user_names_tool`."""
    if fault := user_fault(evidence, task):
        reason, said, message = fault
        where = [Quote(message=message, text=said)] if said in (evidence.messages[message].content or "") else []
        return _refused(USER, reason, line(said, 200), *where)
    return CriterionVerdict(criterion=USER, passed=True, score=1.0, decided_by=CODE)


def check_end_state(
    evidence: Evidence, task: AgentTask, found: Sequence[Difference] | None = None
) -> CriterionVerdict | None:
    """Refuses with `changed_beyond_task`; None where only a reader can say whether a text is right."""
    found = differences(task, evidence) if found is None else found
    if wrong := [difference for difference in found if not difference.doubtful]:
        return _refused(END_STATE, "changed_beyond_task", _listed(wrong))
    return None if found else CriterionVerdict(criterion=END_STATE, passed=True, score=1.0, decided_by=CODE)


def check_repeats(evidence: Evidence) -> CriterionVerdict:
    """Refuses with `calls_repeated`."""
    for tool, times, message in repeated(evidence):
        told = f"{tool} was called {times} times with the same arguments and the same answer, and nothing changed in between"
        return _refused(REPEATS, "calls_repeated", told, Quote(message=message, text=tool))
    return CriterionVerdict(criterion=REPEATS, passed=True, score=1.0, decided_by=CODE)


def _doubt(found: Sequence[Difference]) -> Criterion:
    """What the judge is asked about the end state where code cannot decide."""
    shown = _listed(found)
    statement = (
        "What the assistant had stored is right for this task: nothing in it is untrue, unasked for or about something else. "
        f"An example solution left other texts: {shown}"
    )
    return Criterion(
        id=END_STATE, kind=ANSWER, description="The records say what they should.", spec=dump({"statement": statement})
    )


def _listed(found: Sequence[object]) -> str:
    more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return "; ".join(map(str, found[:_MOST_SHOWN])) + more


def _refused(check: str, reason: str, detail: str, *quotes: Quote) -> CriterionVerdict:
    return CriterionVerdict(
        criterion=check, passed=False, score=0.0, decided_by=CODE, reason=reason, detail=detail, quotes=list(quotes)
    )


def judge_by_code(task: AgentTask, evidence: Evidence) -> Judged:
    """What code alone decides, with what only the judge model can tell left out.

    Raises:
        ValueError: a criterion's spec is none.
    """
    return _judged(task, by_code(task, evidence))


async def judge_trajectory(
    task: AgentTask, evidence: Evidence, ask: Ask | None, votes: int = 1, *, judge: RubricJudge | None = None
) -> Judged:
    """Judge a finished trajectory.

    When code refuses a mandatory criterion or a general check, or the threshold cannot be reached any more, no model is
    asked. Without `ask`, only code judges.

    Args:
        votes: of the judge model; odd.
        judge: how the judge model is asked, instead of `votes`.

    Raises:
        JudgeUndecided: the judge could not decide, or there is none and something is left to it.
        ValueError: a criterion's spec is none, or `votes` is even.
        tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
    """
    judge = judge or RubricJudge(votes=votes)
    if not evidence.tools:
        evidence = replace(evidence, tools=task.agent.tools)
    found = differences(task, evidence)
    verdicts = by_code(task, evidence, found)
    left = [criterion for criterion in task.rubric if verdicts[criterion.id] is None]
    if verdicts[END_STATE] is None:
        left.append(_doubt(found))
    lost = _first_missed(task.rubric, verdicts) is not None or _reachable(task.rubric, verdicts) < task.threshold
    if lost or not (left or (judge.claims and ask is not None)):
        return _judged(task, verdicts)
    rules = rules_of(task.agent)
    if ask is None:
        raise JudgeUndecided(f"there is no judge model for {', '.join(line(c.id, 60) for c in left)}")
    verdicts.update({verdict.criterion: verdict for verdict in await judge(left, evidence, ask, rules=rules)})
    return replace(_judged(task, verdicts), asked=True)


def _first_missed(rubric: Sequence[Criterion], verdicts: dict[str, CriterionVerdict | None]) -> CriterionVerdict | None:
    optional = {criterion.id for criterion in rubric if not criterion.mandatory}
    missed = (verdict for name, verdict in verdicts.items() if name not in optional)
    return next((verdict for verdict in missed if verdict is not None and not verdict.passed), None)


def _reachable(rubric: Sequence[Criterion], verdicts: dict[str, CriterionVerdict | None]) -> float:
    """The score if everything undecided were met."""
    return _share([c for c in rubric if (v := verdicts[c.id]) is None or v.passed], rubric)


def _share(met: Sequence[Criterion], of: Sequence[Criterion]) -> float:
    whole = sum(criterion.weight for criterion in of)
    return round(sum(criterion.weight for criterion in met) / whole, 4) if whole else 0.0


def _judged(task: AgentTask, verdicts: dict[str, CriterionVerdict | None]) -> Judged:
    decided = [criterion for criterion in task.rubric if verdicts[criterion.id] is not None]
    met = [criterion for criterion in decided if (verdict := verdicts[criterion.id]) and verdict.passed]
    score, missed = _share(met, decided), _first_missed(task.rubric, verdicts)
    if missed is not None:
        reason, detail = missed.reason, f"{missed.criterion}: {missed.detail}"
    elif score < task.threshold:
        failed = [criterion.id for criterion in decided if criterion not in met]
        reason, detail = SCORE, f"score {score:.2f} is below {task.threshold:.2f}; missed: {', '.join(failed)}"
    else:
        reason, detail = "", ""
    given = tuple(verdict for verdict in verdicts.values() if verdict is not None)
    return Judged(not reason, score, reason, detail, given, _reached(task.rubric, verdicts))


def _reached(rubric: Sequence[Criterion], verdicts: dict[str, CriterionVerdict | None]) -> int:
    reached = 0
    for number in sorted({criterion.checkpoint for criterion in rubric}):
        needed = [c for c in rubric if c.checkpoint == number and c.mandatory]
        if not all((verdict := verdicts[c.id]) is not None and verdict.passed for c in needed):
            break
        reached += 1
    return reached

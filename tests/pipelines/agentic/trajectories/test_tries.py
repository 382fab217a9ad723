"""Tries at a task: how many are made, which are kept, what is suspect, what is set against what."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace

import pytest
from tokenmill.pipelines.agentic.trajectories.tries import TryTask, pair
from tokenmill.pipelines.transforms.rollout import Accepted, Paired, Rejected
from tokenmill.schemas.agentic import ChatMessage, CriterionVerdict, RefusedTrajectory
from tokenmill.schemas.documents import FailedRow, failed_row

from tests.pipelines.agentic.scripted_trajectories import trajectory


class Task:
    id = "agent/1"


def refused(row, reason="not_met", check="told"):
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    missed = CriterionVerdict(criterion=check, passed=False, score=0.0, decided_by="code", reason=reason)
    values |= {"score": 0.4, "verdicts": [*row.verdicts, missed]}
    return RefusedTrajectory(**values, reason=reason, detail="it did not")


class Step:
    """Tries that come out as listed: `k`ept, `r`efused, refused for its `u`ser, `b`roken."""

    def __init__(self, outcomes):
        self.outcomes, self.made = outcomes, []

    async def __call__(self, attempt, ask):
        self.made.append(attempt.sample)
        row = trajectory(1, attempt.sample)
        last = replace(row.messages[-1], content=f"Answer {attempt.sample}.", reasoning_content=f"Try {attempt.sample}")
        row = replace(row, messages=[*row.messages[:-1], last])
        kind = self.outcomes[attempt.sample]
        if kind == "b":
            raise ValueError("the world broke")
        if kind == "k":
            return Accepted(row)
        return Rejected(refused(row, *(("user_leaks", "user") if kind == "u" else ())), "not_met")

    def failed(self, attempt, error, message):
        return failed_row(attempt.id, "rollout", error, message, "")


def play(outcomes, **options):
    step = Step(outcomes)
    made = asyncio.run(TryTask(step, len(outcomes), **options)(Task(), None)).outcomes
    return step.made, made


@pytest.mark.parametrize(
    ("outcomes", "options", "tries"),
    [
        ("rkkr", {}, 4),
        ("rkkr", {"keep": 1}, 2),
        ("rkkr", {"keep": 2}, 3),
        ("rrrr", {"keep": 1}, 4),
        ("rrrrrr", {"give_up": 3}, 3),
        ("rrkrrr", {"give_up": 3}, 6),
        ("brrrrr", {"give_up": 2}, 3),
        ("rrkrkr", {"keep": 2, "give_up": 3}, 5),
        ("kkkk", {"keep": 2, "give_up": 1}, 2),
    ],
)
def test_no_more_tries_are_paid_for_than_can_matter(outcomes, options, tries):
    numbers, made = play(outcomes, **options)
    assert numbers == list(range(tries)) and len(made) == tries


def test_the_tries_of_a_wave_do_not_depend_on_how_many_follow():
    alone, together = play("rk", keep=1)[1], play("rkkk", keep=2)[1]
    assert [one.row.id for one in alone] == [one.row.id for one in together[:2]]


def test_a_task_that_every_try_fails_is_suspect_with_what_they_missed():
    _, made = play("rrr")
    assert {one.row.suspect for one in made} == {"none of 3 tries was kept; 3 miss told (not_met)"}
    assert {one.row.reason for one in made} == {"not_met"}, "each keeps its own reason"
    for outcomes in ("rrk", "r", "rrb"):
        assert not any(getattr(one.row, "suspect", "") for one in play(outcomes)[1] if isinstance(one, Rejected))


def test_a_broken_try_is_a_failed_row_and_the_others_go_on():
    _, made = play("bk")
    assert isinstance(made[0], FailedRow) and made[0].message == "the world broke" and isinstance(made[1], Accepted)


def test_kept_tries_are_set_against_those_refused_for_what_the_agent_did():
    _, made = play("ukrkk", pairs=True)
    (found,) = [one.row for one in made if isinstance(one, Paired)]
    assert (found.chosen_id, found.rejected_id, found.reason) == ("agent/1/1", "agent/1/2", "not_met")
    assert [m.role for m in found.prompt] == ["system", "user", "assistant", "tool", "tool"]
    assert [m.content for m in (*found.chosen, *found.rejected)] == ["Answer 1.", "Answer 2."]
    assert found.margin == 0.6
    assert not any(isinstance(one, Paired) for one in play("ukrkk")[1])


def test_a_pair_shares_at_least_the_users_first_message_and_parts_where_the_agent_speaks():
    kept, other = trajectory(1, 0), refused(trajectory(1, 1))
    first = [kept.messages[0], ChatMessage(role="user", content="Another opening."), *kept.messages[2:]]
    assert pair(kept, replace(other, messages=first)) is None
    odd = [*kept.messages[:4], replace(kept.messages[4], content="{}"), *kept.messages[5:]]
    found = pair(kept, replace(other, messages=odd))
    assert found is not None and [m.role for m in found.prompt] == ["system", "user"]


@pytest.mark.parametrize("name", ["samples", "keep", "give_up"])
def test_no_number_of_tries_is_nought(name):
    with pytest.raises(ValueError, match=name):
        TryTask(Step(""), **{name: 0})


def test_a_worker_is_checked_by_the_step():
    step = Step("")
    TryTask(step).check_worker()
    step.check_worker = lambda: (_ for _ in ()).throw(ValueError("no sandbox"))
    with pytest.raises(ValueError, match="no sandbox"):
        TryTask(step).check_worker()

"""One attempt at a task, from persona to verdict, with real users' checks, worlds and judges; only the models are scripted."""

from __future__ import annotations

import asyncio
import json
import pickle
from dataclasses import replace

import orjson
import pytest
from tokenmill.bench.servers.agents import calling
from tokenmill.bench.servers.scripted import completion
from tokenmill.bench.servers.troupe import Troupe, task
from tokenmill.inference.call import Answer
from tokenmill.inference.errors import RowError
from tokenmill.pipelines.agentic.trajectories.agent_turn import JSON, NATIVE
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt, ModelNames
from tokenmill.pipelines.agentic.trajectories.dialogue import Limits
from tokenmill.pipelines.agentic.trajectories.rollout import RunTrajectory
from tokenmill.pipelines.agentic.trajectories.wire_form import faults
from tokenmill.pipelines.agentic.trajectories.worlds import SimulatedWorlds
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.agentic import PERMISSION, RECOVERY, TIMEOUT, Criterion
from tokenmill.schemas.columns import to_table
from tokenmill.tools_repo.world.outcomes import CERTAIN, Odds

ROLES = {"writer": "agent", "user": "user", "tools": "tools", "judge": "judge"}


class Stage:
    """An `ask` over a troupe; remembers requests by their whole content, as addresses do."""

    def __init__(self, troupe):
        self.troupe, self.asked = troupe, []

    async def __call__(self, messages, *, to="writer", schema=None, tools=None, attempt=0, **params):
        body = {"model": ROLES[to], "messages": messages, **params}
        if schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        if tools:
            body["tools"] = tools
        body = orjson.loads(orjson.dumps(body))
        self.asked.append((to, attempt, body))
        answer = self.troupe(body)
        return Answer.parse(orjson.dumps(answer if isinstance(answer, dict) else completion(answer)))

    def to(self, role):
        return [body for to, _, body in self.asked if to == role]


def step(**changed):
    models = ModelNames("agent", "user", "tools", "judge")
    return RunTrajectory(**{"models": models, "worlds": SimulatedWorlds(CERTAIN), "votes": 1, **changed})


def play(troupe=None, number=7, sample=0, **changed):
    ask = Stage(troupe or Troupe())
    outcome = asyncio.run(step(**changed)(Attempt(task(number), sample), ask))
    return outcome, ask


def refused(fault, **changed):
    outcome, ask = play(Troupe(fault), **changed)
    assert isinstance(outcome, Rejected) and outcome.reason == outcome.row.reason, outcome
    return outcome.row, ask


@pytest.mark.parametrize("protocol", [NATIVE, JSON])
def test_a_task_well_done_is_kept_with_all_that_happened(protocol):
    outcome, ask = play(protocol=protocol)
    assert isinstance(outcome, Accepted), getattr(outcome.row, "verdicts", None)
    row = outcome.row
    assert not faults(row.messages, ["get_order", "cancel_order"])
    assert [c.tool for c in row.calls][-1] == "cancel_order" and row.ended == "user_done" and row.id == "shop/7/0"
    assert json.loads(row.state_after)["Order"]["ORD-7"]["status"] == "cancelled"
    assert json.loads(row.state_before)["Order"]["ORD-7"]["status"] == "open"
    assert orjson.loads(row.calls[-1].patch) and not orjson.loads(row.calls[0].patch)
    assert row.messages[0].content == task(7).agent.system, "what a protocol adds is not in the row"
    by = {v.criterion: v for v in row.verdicts}
    assert by["cancels"].decided_by == "code" and by["told"].decided_by == "judge" and by["told"].quotes
    assert by["ended"].passed and by["form"].passed and by["claims"].passed and by["user"].passed
    assert row.model_calls == len(ask.asked) and row.prompt_tokens == 100 * len(ask.asked)
    assert row.license == "cc0-1.0" and (row.model, row.judge_model) == ("agent", "judge")
    assert f"personas/{row.persona.name}@1" in row.prompts and sum(p.startswith("personas/") for p in row.prompts) == 1
    to_table([row], type(row))  # it fits its columns


def test_the_user_never_sees_calls_results_or_rubric():
    _, ask = play()
    for body in ask.to("user"):
        seen = json.dumps(body)
        assert "get_order" not in seen and "10.5" not in seen and "stands as cancelled" not in seen
    assert "in a kind way" not in json.dumps(ask.to("writer"))


def test_a_world_that_fails_the_agent_is_recorded_and_can_be_recovered_from():
    ask = Stage(Troupe())
    element = Attempt(task(8, RECOVERY), 0)
    outcome = asyncio.run(step()(element, ask))
    assert isinstance(outcome, Accepted), outcome.row.verdicts
    first = outcome.row.calls[0]
    assert first.error == first.outcome in ("timeout", "rate_limit") and "error" in first.result


class Unreadable:
    """A world whose state cannot be written down."""

    tools = ()
    state = {"Order": object()}  # noqa: RUF012
    closed = False

    async def close(self):
        self.closed = True


def test_a_world_is_given_back_whatever_ends_the_try():
    world = Unreadable()
    with pytest.raises((TypeError, ValueError), match="not JSON"):
        play(worlds=lambda *_: world)
    assert world.closed


def test_outcomes_follow_the_odds():
    row, _ = refused({}, worlds=SimulatedWorlds(Odds.certain(TIMEOUT)), limits=Limits(turns=3))
    assert {call.outcome for call in row.calls} == {"timeout"} and row.reason == "turn_limit"


def test_what_the_solution_calls_is_never_forbidden_by_a_draw():
    row, _ = refused({}, worlds=SimulatedWorlds(Odds.certain(PERMISSION)), limits=Limits(turns=3))
    needed = {call.tool for call in task(8).solution}
    errors = {call.tool in needed: call.error for call in row.calls}
    assert errors[True] in ("timeout", "rate_limit") and errors.get(False, PERMISSION) == PERMISSION


def test_what_a_judge_would_cost_is_not_spent_on_what_code_refuses():
    lazy = {"agent": lambda body: completion("Your order ORD-7 is cancelled.")}
    row, ask = refused(lazy)
    assert row.reason and not ask.to("judge") and row.judge_model == ""
    assert not next(v for v in row.verdicts if v.criterion == "cancels").passed


def test_a_user_that_gives_up_and_limits_refuse_with_the_verdicts_of_code():
    row, ask = refused({"agent": lambda body: completion("Hm, what do you think of the weather?")})
    assert row.reason == row.ended == "user_gave_up" and not ask.to("judge")
    assert {"ended", "form", "cancels", "cancelled"} <= {v.criterion for v in row.verdicts}
    row, _ = refused({}, limits=Limits(calls=2))
    assert row.reason == "call_limit" and row.detail


def test_broken_calls_do_not_become_training_data():
    def broken_once(body):
        if not any(message["role"] == "tool" for message in body["messages"]):
            return calling([("get_order", '{"order_id": ')])
        return None

    row, _ = refused({"agent": broken_once})
    assert row.reason == "malformed" and row.calls[0].error == "invalid_arguments" and row.ended == "user_done"


@pytest.mark.parametrize("role", ["user", "tools", "judge"])
def test_a_simulator_that_fails_fails_the_row_and_not_the_agent(role):
    with pytest.raises(Exception) as caught:
        play(Troupe({role: lambda body: "no JSON at all"}))
    assert isinstance(caught.value, RowError) or type(caught.value).__name__ == "JudgeUndecided"
    failed = step().failed(Attempt(task(7), 0), "UserFailed", "why")
    assert failed.id == "shop/7/0" and failed.source_id == "shop/7"


def test_tries_differ_and_the_same_try_asks_the_same():
    def addresses(sample):
        _, ask = play(sample=sample)
        return [(to, attempt, orjson.dumps(body)) for to, attempt, body in ask.asked]

    assert addresses(1) == addresses(1)
    first, second = (
        {(to, attempt, body) for to, attempt, body in addresses(sample) if to == "writer"} for sample in (0, 1)
    )
    assert first.isdisjoint(second)


def test_the_step_travels_and_checks_its_settings():
    made = step(protocol=JSON)
    assert pickle.loads(pickle.dumps(made)) == made and len(set(made.prompt_names)) == len(made.prompt_names)
    with pytest.raises(ValueError, match="odd"):
        step(votes=2)
    with pytest.raises(ValueError, match="protocol"):
        step(protocol="smoke signals")


def test_a_try_ends_at_the_first_call_that_a_rule_forbids():
    """Nothing is paid for what can no longer be kept: no further turn, no user, no judge."""
    forbidden = Criterion(
        id="no_looking", kind="forbidden", description="looks nothing up", spec=json.dumps({"tool": "get_order"})
    )
    at_most = Criterion(
        id="once",
        kind="call",
        description="looks up once",
        spec=json.dumps({"tool": "get_order", "at_least": 0, "at_most": 1}),
    )
    for criterion, reason in ((forbidden, "forbidden_call"), (at_most, "too_many_calls")):
        for mandatory in (True, False):
            ask = Stage(Troupe())
            given = task(7)
            changed = replace(given, rubric=[*given.rubric, replace(criterion, mandatory=mandatory)])
            outcome = asyncio.run(step()(Attempt(changed, 0), ask))
            if not mandatory:
                assert outcome.row.ended == "user_done"
                continue
            row = outcome.row
            assert (row.reason, row.ended) == (reason, "rule_broken") and isinstance(outcome, Rejected)
            assert [v.criterion for v in row.verdicts] == ["ended", "form", criterion.id]
            assert len(ask.to("writer")) == len(ask.to("user")) == 1 and not ask.to("judge")


def test_tries_with_one_user_begin_alike_and_others_do_not():
    def openings(**changed):
        asks = [play(sample=sample, **changed)[1] for sample in range(6)]
        return {orjson.dumps(ask.to("user")[0]) for ask in asks}

    assert len(openings(one_user=True)) == 1 < len(openings())

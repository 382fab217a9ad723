import asyncio
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.bench.agentic.shop import ENTITIES, STATE, TOOLS, state, tool
from tokenmill.schemas.agentic import OUTCOMES
from tokenmill.tools_repo.world.outcomes import Odds, draw, emptied, recoverable, shortened
from tokenmill.tools_repo.world.patch import apply
from tokenmill.tools_repo.world.stateful import Ran, StatefulWorld, clock, reads_only


class Shop(StatefulWorld):
    """Tools of a shop in plain Python."""

    ran = 0

    async def _run(self, spec, arguments, state, number, stale):
        self.ran += 1
        if spec.name == "list_orders":
            found = [o for o in state["Order"].values() if o["customer_id"] == arguments["customer_id"]]
            return Ran({"orders": found, "count": len(found)}, state)
        if spec.name == "get_order":
            return Ran(state["Order"][arguments["order_id"]], state)
        if spec.name == "cancel_all":
            patch = [{"op": "replace", "path": f"/Order/{i}/status", "value": "cancelled"} for i in state["Order"]]
        else:
            patch = [{"op": "replace", "path": f"/Order/{arguments['order_id']}/status", "value": "cancelled"}]
        return Ran({"done": True}, apply(state, patch, self.entities))


ALL = tool("cancel_all", {}, reads=["Order"], writes=["Order"])
CANCEL = '{"order_id": "ORD-10"}'
BEN = '{"customer_id": "CUS-2"}'


def run(calls, **settings):
    """Results of the calls, and the world afterwards."""
    world = Shop((*TOOLS, ALL), ENTITIES, state(), **settings)

    async def go():
        return [await world.call(name, arguments, number) for number, (name, arguments) in enumerate(calls)]

    return asyncio.run(go()), world


@given(st.lists(st.integers(0, 20), min_size=len(OUTCOMES), max_size=len(OUTCOMES)).filter(any), st.integers())
def test_draws_repeat_themselves_and_only_possible_outcomes_come(weights, seed):
    total = sum(weights)
    odds = Odds({name: weight / total for name, weight in zip(OUTCOMES, weights, strict=True)})
    drawn = [draw(odds, seed, number) for number in range(20)]
    assert drawn == [draw(odds, seed, number) for number in range(20)]
    assert all(odds.of[outcome] > 0 for outcome in drawn)


def test_outcomes_come_as_often_as_said():
    odds = Odds.parse("timeout=0.2, stale=0.05")
    counts = Counter(draw(odds, 7, number) for number in range(4000))
    assert set(counts) == {"success", "timeout", "stale"}
    assert abs(counts["timeout"] - 800) < 100 and abs(counts["stale"] - 200) < 60


@pytest.mark.parametrize(
    "text",
    ["success=0.5", "nap=0.1", "timeout=2", "timeout=0.6,empty=0.6", "timeout", "timeout=a", "empty=0.1,empty=0.1"],
)
def test_odds_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError):
        Odds.parse(text)


@pytest.mark.parametrize("outcome", ["timeout", "rate_limit", "permission"])
def test_a_refused_call_does_not_run_and_changes_nothing(outcome):
    (result,), world = run([("cancel_order", CANCEL)], odds=Odds.certain(outcome))
    assert result.outcome == result.error == outcome and result.engine == "checks"
    assert json.loads(result.content)["error"]["code"] == outcome
    assert world.state == STATE and world.ran == 0


def test_a_refused_permission_stays_refused_for_that_tool():
    calls = [("cancel_order", CANCEL), ("get_order", CANCEL), ("cancel_order", CANCEL)]
    results, _ = run(calls, first="permission")
    assert [r.error for r in results] == ["permission", "", "permission"]
    assert results[0].content == results[2].content


def test_permission_is_never_refused_for_what_the_task_cannot_do_without():
    """Such a try would be lost before it began; the call fails in a way that can be got over instead."""
    calls = [("cancel_order", CANCEL), ("get_order", CANCEL)] * 10
    results, _ = run(calls, odds=Odds.parse("permission=0.5"), needed={"cancel_order"})
    errors = {
        name: {r.error for (called, _), r in zip(calls, results, strict=True) if called == name} for name, _ in calls
    }
    assert "permission" in errors["get_order"] and "permission" not in errors["cancel_order"]
    assert errors["cancel_order"] & {"timeout", "rate_limit"}


def test_a_forced_first_outcome_is_got_over_by_trying_again():
    first = recoverable(3, "task")
    results, world = run([("cancel_order", CANCEL)] * 2, first=first)
    assert [r.error for r in results] == [first, ""] and world.state["Order"]["ORD-10"]["status"] == "cancelled"


def test_a_partial_failure_changes_some_records_and_says_which():
    (result,), world = run([("cancel_all", "")], odds=Odds.certain("partial"))
    error = json.loads(result.content)["error"]
    assert result.outcome == "partial" and result.error == "partial_failure"
    assert error["applied"] == ["Order ORD-10"] and error["not_applied"] == ["Order ORD-11"]
    assert [o["status"] for o in world.state["Order"].values()] == ["cancelled", "shipped"]
    assert apply(STATE, json.loads(result.patch)) == world.state


def test_an_outcome_that_a_call_cannot_have_is_a_success():
    for outcome in ("partial", "empty", "truncated", "stale"):
        (result,), world = run([("cancel_order", CANCEL)], odds=Odds.certain(outcome))
        assert result.outcome == "success" and world.state["Order"]["ORD-10"]["status"] == "cancelled"
        assert apply(STATE, json.loads(result.patch), ENTITIES) == world.state


def test_an_empty_result_keeps_its_form():
    (result,), _ = run([("list_orders", BEN)], odds=Odds.certain("empty"))
    assert json.loads(result.content) == {"orders": [], "count": 0} and result.outcome == "empty"


def test_a_stale_result_is_that_from_before_the_last_change():
    calls = [("get_order", CANCEL), ("cancel_order", CANCEL), ("list_orders", '{"customer_id": "CUS-1"}')]
    results, world = run(calls, odds=Odds.certain("stale"))
    assert [r.outcome for r in results] == ["success", "success", "stale"]
    assert json.loads(results[2].content)["orders"][0]["status"] == "open"
    assert world.state["Order"]["ORD-10"]["status"] == "cancelled" and results[2].patch == "[]"


def test_results_are_shortened_and_say_so():
    assert shortened([1, 2, 3]) == {"items": [1], "truncated": True, "omitted": 2}
    assert shortened({"a": [1], "b": [1, 2, 3, 4]}) == {"a": [1], "b": [1, 2], "truncated": True, "omitted": 2}
    assert shortened({"a": 1}) is None and shortened([1]) is None and shortened("text") is None
    assert emptied({"a": 1}) is None and emptied([]) is None and emptied([1]) == []


def test_parallel_calls_end_the_same_as_one_after_another():
    calls = [("cancel_all", ""), ("cancel_order", CANCEL), ("list_orders", BEN), ("get_order", CANCEL)]
    one_by_one, world = run(calls, odds=Odds.parse("stale=0.5,partial=0.5"))

    async def together():
        other = Shop((*TOOLS, ALL), ENTITIES, state(), odds=Odds.parse("stale=0.5,partial=0.5"))
        return await asyncio.gather(*(other.call(n, a, i) for i, (n, a) in enumerate(calls))), other

    at_once, other = asyncio.run(together())
    assert at_once == one_by_one and other.state == world.state


def test_whether_a_tool_only_reads_is_taken_from_what_is_known():
    get, listing, cancel = TOOLS
    assert reads_only(get) and reads_only(listing) and not reads_only(cancel)
    assert not reads_only(tool("f", {})) and not reads_only(
        tool("f", {}, writes=["Order"], annotations={"readOnlyHint": True})
    )


def test_the_clock_stands_within_the_state():
    assert clock(STATE) == "2025-03-02T09:00:00Z"
    assert clock({}) == "2025-06-02T09:00:00Z" and clock({"A": {"a": {"d": "2024-99-99"}}}) == "2025-06-02T09:00:00Z"


def test_a_world_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="does not meet"):
        Shop(TOOLS, ENTITIES, {"Ghost": {}})
    with pytest.raises(ValueError, match="no JSON"):
        Shop(TOOLS, ENTITIES, "{")
    with pytest.raises(ValueError, match="does not meet"):
        Shop(TOOLS, ENTITIES.text, '{"Ghost": {}}')
    with pytest.raises(ValueError, match="two tools"):
        Shop((*TOOLS, TOOLS[0]), ENTITIES, STATE)

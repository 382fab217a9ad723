"""Criteria decided by code."""

from __future__ import annotations

import pytest
from tokenmill.judges.rubric.code_criteria import decide

from tests.judges.rubric.build import STATE, call, criterion, evidence, is_

LOOK = call("get_order", {"order_id": "A-17"}, {"order_id": "A-17", "total": 64.9})
CANCEL = call("cancel_order", {"order_id": "A-17", "reason": "mistake"})
OPENED = "U Cancel A-17, please."
CANCELLED = {**STATE, "Order": {**STATE["Order"], "A-17": {"status": "cancelled", "total": 64.9}}}


def reason(one, seen, rubric=()):
    verdict = decide(one, seen, rubric)
    assert verdict is not None and verdict.decided_by == "code" and verdict.passed == (verdict.score == 1.0)
    return verdict.reason


def cancels(*conditions, **spec):
    return criterion("cancel", "call", {"tool": "cancel_order", "arguments": list(conditions), **spec})


def test_a_call_is_met_by_tool_arguments_and_success():
    assert reason(cancels(is_("/order_id", "equals", "a-17")), evidence(OPENED, [CANCEL])) == ""
    assert reason(cancels(), evidence(OPENED, [LOOK])) == "call_missing"
    assert reason(cancels(is_("/order_id", "equals", "A-18")), evidence(OPENED, [CANCEL])) == "wrong_arguments"
    assert reason(cancels(), evidence(OPENED, [{**CANCEL, "error": "timeout"}])) == "call_failed"


def test_a_call_may_be_limited_and_may_have_to_fail():
    twice = evidence(OPENED, [CANCEL], [CANCEL])
    assert reason(cancels(at_most=1), twice) == "too_many_calls"
    assert reason(cancels(at_least=3), twice) == "call_missing"
    retried = evidence(OPENED, [{**CANCEL, "error": "timeout"}], [CANCEL])
    assert reason(cancels(at_most=1), retried) == ""
    assert reason(cancels(result="error"), retried) == ""
    assert reason(cancels(result="error"), twice) == "call_missing"


def test_an_argument_left_out_has_its_tools_default():
    assert reason(cancels(is_("/notify", "equals", True)), evidence(OPENED, [CANCEL])) == ""
    assert reason(cancels(is_("/notify", "absent")), evidence(OPENED, [CANCEL])) == ""
    assert reason(cancels(is_("/notify", "equals", False)), evidence(OPENED, [CANCEL])) == "wrong_arguments"


def test_arguments_that_are_no_json_meet_nothing():
    broken = {**CANCEL, "arguments": "{"}
    assert reason(cancels(is_("/order_id", "any")), evidence(OPENED, [broken])) == "wrong_arguments"


def test_an_argument_must_come_from_an_earlier_result():
    look = criterion("look", "call", {"tool": "get_order"})
    linked = cancels(is_("/order_id", "from_call", "look"))
    rubric = (look, linked)
    assert reason(linked, evidence(OPENED, [LOOK], [CANCEL]), rubric) == ""
    assert reason(linked, evidence(OPENED, [LOOK, CANCEL]), rubric) == "wrong_arguments"
    assert reason(linked, evidence(OPENED, [CANCEL], [LOOK]), rubric) == "wrong_arguments"


def test_criteria_in_a_circle_are_met_by_nothing():
    one = cancels(is_("/order_id", "from_call", "look"))
    two = criterion("look", "call", {"tool": "get_order", "arguments": [is_("/order_id", "from_call", "cancel")]})
    assert reason(one, evidence(OPENED, [LOOK], [CANCEL]), (one, two)) == "wrong_arguments"


def order(form, *calls, about=()):
    return criterion("order", "order", {"form": form, "calls": list(calls), "about": list(about)})


RUBRIC = (criterion("look", "call", {"tool": "get_order"}), criterion("cancel", "call", {"tool": "cancel_order"}))


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([[LOOK], [CANCEL]], ""),
        ([[LOOK], [LOOK], [CANCEL], [LOOK]], ""),
        ([[{**CANCEL, "error": "permission"}], [LOOK], [CANCEL]], ""),
        ([[LOOK, CANCEL]], "order_broken"),
        ([[CANCEL], [LOOK]], "order_broken"),
        ([[CANCEL], [LOOK], [CANCEL]], "order_broken"),
        ([[LOOK]], "order_broken"),
        ([[{**LOOK, "error": "timeout"}], [CANCEL]], "order_broken"),
    ],
)
def test_a_sequence(turns, expected):
    assert reason(order("sequence", "look", "cancel"), evidence(OPENED, *turns), RUBRIC) == expected


def test_calls_of_one_turn_may_be_repeated_when_one_of_them_failed():
    together = order("same_turn", "look", "cancel")
    assert reason(together, evidence(OPENED, [CANCEL, LOOK]), RUBRIC) == ""
    assert reason(together, evidence(OPENED, [{**CANCEL, "error": "timeout"}, LOOK], [CANCEL]), RUBRIC) == ""
    assert reason(together, evidence(OPENED, [CANCEL], [LOOK]), RUBRIC) == "not_in_one_turn"


def test_a_call_waits_for_the_users_answer():
    asked = order("after_user", "cancel")
    assert reason(asked, evidence(OPENED, "A Why?", "U A mistake.", [CANCEL]), RUBRIC) == ""
    assert reason(asked, evidence(OPENED, [CANCEL], "A Why?", "U A mistake."), RUBRIC) == "did_not_ask"
    assert reason(asked, evidence(OPENED, "U Hello?", [CANCEL]), RUBRIC) == "did_not_ask"


def test_what_the_user_volunteers_need_not_be_asked_for():
    about = order("after_user", "cancel", about=["2026-03-04"])
    assert reason(about, evidence("U Cancel it, ordered on March 4.", [CANCEL]), RUBRIC) == ""
    assert reason(about, evidence(OPENED, "A When?", "U 4 March 2026", [CANCEL]), RUBRIC) == ""
    assert reason(about, evidence(OPENED, "A When?", "U Last week", [CANCEL]), RUBRIC) == "did_not_ask"


def test_a_forbidden_call_must_not_even_be_tried():
    never = criterion("never", "forbidden", {"tool": "cancel_order"})
    assert reason(never, evidence(OPENED, [LOOK])) == ""
    assert reason(never, evidence(OPENED, [{**CANCEL, "error": "permission"}])) == "forbidden_call"
    big = criterion("big", "forbidden", {"tool": "refund_order", "arguments": [is_("/amount", "at_least", 50)]})
    assert reason(big, evidence(OPENED, [call("refund_order", {"amount": 49.99})])) == ""
    assert reason(big, evidence(OPENED, [call("refund_order", {"amount": 50})])) == "forbidden_call"


def test_any_write_can_be_forbidden():
    reading = criterion("read_only", "forbidden", {"tool": ""})
    assert reason(reading, evidence(OPENED, [LOOK])) == ""
    assert reason(reading, evidence(OPENED, [CANCEL])) == "forbidden_call"
    assert reason(reading, evidence(OPENED, [{**CANCEL, "error": "timeout"}])) == ""
    patched = {**LOOK, "patch": [{"op": "add", "path": "/x", "value": 1}]}
    assert reason(reading, evidence(OPENED, [patched])) == "forbidden_call"


def test_the_final_state():
    done = criterion("s", "state", {"conditions": [is_("/Order/A-17/status", "equals", "cancelled")]})
    assert reason(done, evidence(OPENED, after=CANCELLED)) == ""
    assert reason(done, evidence(OPENED)) == "wrong_state"
    kept = criterion("s", "state", {"unchanged": ["Refund"]})
    assert reason(kept, evidence(OPENED, after=CANCELLED)) == ""
    assert reason(kept, evidence(OPENED, after={**STATE, "Refund": {"1": {}}})) == "state_changed"
    everything = criterion("s", "state", {"unchanged": ["*"]})
    assert reason(everything, evidence(OPENED)) == ""
    assert reason(everything, evidence(OPENED, after={**STATE, "New": {"1": {}}})) == "state_changed"


def test_records_are_counted():
    where = [is_("/status", "equals", "cancelled")]
    one = criterion("s", "state", {"records": [{"kind": "Order", "where": where, "at_most": 1}]})
    assert reason(one, evidence(OPENED, after=CANCELLED)) == ""
    assert reason(one, evidence(OPENED)) == "wrong_state"
    both = {"Order": {"1": {"status": "cancelled"}, "2": {"status": "cancelled"}}}
    assert reason(one, evidence(OPENED, after=both)) == "wrong_state"


def test_what_was_told():
    answer = criterion("a", "answer", {"values": [[64.9], ["cancelled", "canceled"]], "never": ["A-18"]})
    assert reason(answer, evidence(OPENED, "A It is cancelled.", "A You get $64.90.")) == ""
    assert reason(answer, evidence(OPENED, "A It is cancelled.")) == "value_not_told"
    assert reason(answer, evidence(OPENED, "A Cancelled: $64.90, not A 18.")) == "told_forbidden"
    assert reason(answer, evidence("U cancelled, 64.90")) == "said_nothing"


def test_what_only_a_result_gives_must_be_told():
    answer = criterion("a", "answer", {"results": [{"call": "look", "path": "/total"}]})
    rubric = (*RUBRIC, answer)
    assert reason(answer, evidence(OPENED, [LOOK], "A $64.90"), rubric) == ""
    assert reason(answer, evidence(OPENED, [LOOK], "A $65.90"), rubric) == "value_not_told"
    assert reason(answer, evidence(OPENED, "A $64.90"), rubric) == "value_not_told"
    cut = call("get_order", {"order_id": "A-17"}, '{"order_id": "A-1')
    assert reason(answer, evidence(OPENED, [cut], "A I could not see it."), rubric) == ""


def test_only_the_judge_can_tell_what_a_statement_means():
    said = criterion("a", "answer", {"values": [[64.9]], "statement": "It apologised."})
    assert decide(said, evidence(OPENED, "A Sorry! $64.90")) is None
    assert reason(said, evidence(OPENED, "A Sorry!")) == "value_not_told"
    declined = criterion("d", "answer", {"declines": True})
    assert decide(declined, evidence(OPENED, "A I cannot do that.")) is None
    assert reason(declined, evidence(OPENED)) == "said_nothing"

"""Rubrics that are broken, cannot be met, or are met by doing nothing."""

from __future__ import annotations

import pytest
from tokenmill.judges.rubric.feasible import feasible
from tokenmill.judges.rubric.validate import check_rubric
from tokenmill.schemas.agentic import ReferenceCall
from tokenmill.schemas.tools import dump

from tests.judges.rubric.build import STATE, TOOLS, criterion, is_

ENTITIES = dump({
    "Order": {"schema": {"type": "object", "properties": {"status": {"type": "string"}, "total": {}}}},
    "Refund": {"schema": {"type": "object", "additionalProperties": True}},
})  # fmt: skip
LOOK = criterion("look", "call", {"tool": "get_order", "arguments": [is_("/order_id", "equals", "A-17")]})
CANCEL = criterion(
    "cancel", "call", {"tool": "cancel_order", "arguments": [is_("/order_id", "from_call", "look")], "at_most": 1}
)
ORDER = criterion("order", "order", {"form": "sequence", "calls": ["look", "cancel"]})
DONE = criterion("done", "state", {"conditions": [is_("/Order/A-17/status", "equals", "cancelled")]})
TOLD = criterion("told", "answer", {"values": [["cancelled"]]})
RUBRIC = [LOOK, CANCEL, ORDER, DONE, TOLD]
SOLUTION = [
    ReferenceCall(tool="get_order", arguments='{"order_id":"A-17"}', result='{"order_id":"A-17"}'),
    ReferenceCall(
        tool="cancel_order",
        arguments='{"order_id":"A-17","reason":"mistake"}',
        result='{"ok":true}',
        patch='[{"op":"replace","path":"/Order/A-17/status","value":"cancelled"}]',
    ),
]
REPLY = "A-17 is cancelled."


def judge(rubric=RUBRIC, solution=SOLUTION, reply=REPLY, **more):
    return feasible(rubric, tools=TOOLS, state=STATE, solution=solution, reply=reply, **more)


def test_a_good_rubric_has_no_faults_and_is_met():
    assert check_rubric(RUBRIC, TOOLS, ENTITIES, STATE, "dependent_calls") == []
    verdict = judge(level="dependent_calls")
    assert verdict.passed and verdict.score == 1.0
    assert STATE["Order"]["A-17"]["status"] == "open"  # the state given is not touched


@pytest.mark.parametrize(
    ("rubric", "line"),
    [
        ([], "no criteria"),
        ([criterion("a", "call", {"tool": "get_order"}, mandatory=False)], "no criterion is mandatory"),
        ([LOOK, LOOK], "two criteria have this id"),
        ([criterion("a", "call", {"tool": "get_order"}, weight=0.0)], "weight must be above 0"),
        ([criterion("a", "call", {"tool": "fly"})], "no tool 'fly'"),
        ([criterion("a", "forbidden", {"tool": "fly"})], "no tool 'fly'"),
        ([criterion("a", "call", {"tool": "get_order", "arguments": [is_("/id", "any")]})], "no argument /id"),
        (
            [criterion("a", "call", {"tool": "list_orders", "arguments": [is_("/lines/*/x", "any")]})],
            "no argument /lines",
        ),
        (
            [criterion("a", "call", {"tool": "cancel_order", "arguments": [is_("/reason", "equals", "no")]})],
            "does not take",
        ),
        (
            [criterion("a", "call", {"tool": "get_order", "arguments": [is_("/order_id", "from_call", "b")]})],
            "criterion 'b'",
        ),
        (
            [criterion("a", "call", {"tool": "get_order", "arguments": [is_("/order_id", "from_call", "a")]})],
            "own result",
        ),
        ([LOOK, criterion("o", "order", {"form": "same_turn", "calls": ["look", "x"]})], "criterion 'x'"),
        ([LOOK, criterion("t", "answer", {"results": [{"call": "look", "path": "/eta"}]})], "nothing at /eta"),
        ([criterion("s", "state", {"conditions": [is_("/Ordr/1/status", "any")]})], "no kind 'Ordr'"),
        ([criterion("s", "state", {"conditions": [is_("/Order/1/colour", "any")]})], "nothing at /colour"),
        (
            [criterion("s", "state", {"records": [{"kind": "Order", "where": [is_("/colour", "any")]}]})],
            "nothing at /colour",
        ),
        ([criterion("s", "state", {"unchanged": ["Ordr"]})], "no kind 'Ordr'"),
        ([CANCEL, LOOK, criterion("f", "forbidden", {"tool": "cancel_order"})], "forbids the call"),
        ([CANCEL, LOOK, criterion("f", "forbidden", {"tool": ""})], "forbids the call"),
        ([criterion("a", "call", {"tool": "get_order"}, checkpoint=1)], "without gaps"),
        (
            [criterion("look", "call", {"tool": "get_order"}, checkpoint=1), CANCEL, ORDER],
            "checkpoints of another order",
        ),
        ([criterion("a", "call", "{")], "spec"),
    ],
)
def test_faults_seen_without_running(rubric, line):
    faults = check_rubric(rubric, TOOLS, ENTITIES, STATE)
    assert any(line in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("level", "line"),
    [
        ("several_calls", "2 mandatory"),
        ("parallel_calls", "same_turn"),
        ("dependent_calls", "sequence or"),
        ("missing_information", "after_user"),
        ("decline", "declines true"),
    ],
)
def test_a_level_asks_for_its_criteria(level, line):
    assert any(line in fault for fault in check_rubric([LOOK], TOOLS, ENTITIES, STATE, level))
    assert check_rubric([LOOK], TOOLS, ENTITIES, STATE, "one_call") == []


def test_a_rubric_that_the_solution_does_not_meet_is_unsolvable():
    verdict = judge(solution=SOLUTION[1:])
    assert verdict.reason == "unsolvable" and "'look'" in verdict.findings[0].detail
    assert judge(reply="Done.").reason == "unsolvable"
    assert judge(solution=[*SOLUTION, SOLUTION[1]]).reason == "unsolvable"


def test_a_patch_that_does_not_apply_is_unsolvable():
    broken = ReferenceCall(tool="get_order", arguments="{}", result="{}", patch='[{"op":"remove","path":"/x/y"}]')
    assert "does not apply" in judge(solution=[broken]).findings[0].detail


def test_a_rubric_met_by_doing_nothing_or_by_talk_is_trivial():
    untouched = criterion("u", "state", {"unchanged": ["*"]})
    assert judge([untouched], solution=[]).reason == "trivial"
    assert judge([TOLD]).reason == "trivial"
    optional = [TOLD, criterion("look", "call", {"tool": "get_order"}, mandatory=False, weight=0.2)]
    assert judge(optional).reason == "trivial"


def test_declining_is_done_by_talk_but_not_by_silence():
    rubric = [criterion("d", "answer", {"declines": True}), criterion("f", "forbidden", {"tool": "cancel_order"})]
    assert check_rubric(rubric, TOOLS, ENTITIES, STATE, "decline") == []
    assert judge(rubric, solution=[], reply="I cannot.", level="decline").passed
    assert judge(rubric, solution=[], reply="I cannot.", level="one_call").reason == "trivial"
    assert judge(rubric[1:], solution=[], reply="I cannot.", level="decline").reason == "trivial"
    assert judge(rubric, reply="I cannot.", level="decline").reason == "unsolvable"


def test_the_solution_asks_the_user_and_calls_together_where_the_rubric_wants_it():
    asked = criterion("asked", "order", {"form": "after_user", "calls": ["cancel"], "about": ["late"]})
    assert judge([*RUBRIC, asked]).passed
    other = criterion("other", "call", {"tool": "get_order", "arguments": [is_("/order_id", "equals", "A-18")]})
    both = [LOOK, other, criterion("together", "order", {"form": "same_turn", "calls": ["look", "other"]})]
    second = ReferenceCall(tool="get_order", arguments='{"order_id":"A-18"}', result="{}")
    assert judge(both, solution=[SOLUTION[0], second]).passed


def test_a_reference_call_that_fails_is_recovered_from():
    failed = ReferenceCall(tool="cancel_order", arguments=SOLUTION[1].arguments, result='{"error":"timeout"}')
    assert judge(solution=[SOLUTION[0], failed, SOLUTION[1]]).passed
    assert judge(solution=[SOLUTION[0], failed]).reason == "unsolvable"

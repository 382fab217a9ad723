"""What a trajectory changed beyond its task, by record and field."""

from __future__ import annotations

import asyncio
import copy
import json

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.rubric.conduct import rules_of
from tokenmill.judges.rubric.end_state import differences
from tokenmill.judges.rubric.grade import END_STATE, by_code, judge_trajectory
from tokenmill.schemas.agentic import Fact, ReferenceCall
from tokenmill.schemas.tools import dump

from tests.fake_ask import FakeAsk
from tests.judges.rubric.build import call, criterion, evidence, is_, task

BEFORE = {
    "Order": {
        "A-17": {
            "status": "open",
            "total": 64.9,
            "updated_at": "2026-03-01T09:00:00Z",
            "lines": [{"sku": "x", "n": 1}],
        },
        "A-18": {"status": "open", "total": 20},
    },
    "Refund": {},
    "Note": {"N-1": {"text": "The caller wants the lamp cancelled."}},
}
CANCEL = [{"op": "replace", "path": "/Order/A-17/status", "value": "cancelled"}]
REFUND = [
    {
        "op": "add",
        "path": "/Refund/R-501",
        "value": {
            "id": "R-501",
            "order": "A-17",
            "amount": 64.9,
            "at": "2026-03-04T10:00:00Z",
            "reason": "Bought it by mistake",
        },
    }
]
CANCELLED = criterion("cancel", "call", {"tool": "cancel_order", "arguments": [is_("/order_id", "equals", "A-17")]})


def reference(*patches, arguments=None):
    given = arguments or {"order_id": "A-17"}
    return [
        ReferenceCall(tool="cancel_order", arguments=dump(given), result='{"ok":true}', patch=dump(p)) for p in patches
    ]


def seen(*patches, said="A Order A-17 is cancelled.", arguments=None):
    after = copy.deepcopy(BEFORE)
    for patch in patches:
        after = jsonpatch.apply_patch(after, patch)
    turn = [call("cancel_order", arguments or {"order_id": "A-17"})]
    return evidence("U Cancel A-17", turn, said, "U bye", before=BEFORE, after=after)


def found(job, trajectory):
    return [(d.path, d.doubtful) for d in differences(job, trajectory)]


def changed(path, value, op="replace"):
    return [{"op": op, "path": path, **({} if op == "remove" else {"value": value})}]


TASK = task([CANCELLED], solution=reference(CANCEL), facts=[Fact(name="order", value="A-17")])


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        (changed("/Order/A-18/status", "cancelled"), "/Order/A-18/status"),  # another customer's order as well
        (changed("/Order/A-18", None, "remove"), "/Order/A-18"),
        (changed("/Order/A-17/total", 0), "/Order/A-17/total"),
        (changed("/Order/A-17/gift", True, "add"), "/Order/A-17/gift"),
        (changed("/Order/A-17/lines/0/n", 2), "/Order/A-17/lines/0/n"),
        (changed("/Order/A-17/lines", []), "/Order/A-17/lines"),
        (changed("/Order/A-17/status", "refunded"), "/Order/A-17/status"),
        (changed("/Refund/R-1", {"amount": 64.9}, "add"), "/Refund/R-1"),
        (changed("/Note", None, "remove"), "/Note/N-1"),
        (changed("/Extra", {"e": {}}, "add"), "/Extra/e"),
    ],
)
def test_whatever_the_reference_leaves_alone_must_stay(patch, path):
    trajectory = seen(CANCEL, patch)
    assert found(TASK, trajectory) == [(path, False)]
    verdict = by_code(TASK, trajectory)[END_STATE]
    assert not verdict.passed and verdict.reason == "changed_beyond_task" and path in verdict.detail
    judged = asyncio.run(judge_trajectory(TASK, trajectory, None))
    assert not judged.passed and judged.reason == "changed_beyond_task"


def test_what_the_reference_does_may_be_done_or_left():
    assert found(TASK, seen(CANCEL)) == found(TASK, seen()) == []
    assert asyncio.run(judge_trajectory(TASK, seen(CANCEL), None)).passed


def test_a_task_to_be_declined_changes_nothing():
    assert found(task([CANCELLED], level="decline"), seen(CANCEL)) == [("/Order/A-17/status", False)]
    assert found(task([CANCELLED]), seen(CANCEL)) == []  # no reference, nothing to compare with


def test_the_world_gives_numbers_and_times_to_new_records():
    job = task([CANCELLED], solution=reference(CANCEL, REFUND))
    own = [
        {
            **REFUND[0],
            "path": "/Refund/R-777",
            "value": {**REFUND[0]["value"], "id": "R-777", "at": "2026-03-05T11:30:00Z"},
        }
    ]
    assert found(job, seen(CANCEL, own)) == []
    for field, value in (("amount", 60), ("order", "A-18"), ("at", "never")):
        other = [{**own[0], "value": {**own[0]["value"], field: value}}]
        assert found(job, seen(CANCEL, other)) == [(f"/Refund/R-777/{field}", False)]
    more = [{**own[0], "value": {**own[0]["value"], "currency": "EUR"}}]
    assert found(job, seen(CANCEL, more)) == [("/Refund/R-777/currency", True)]
    twice = [{**own[0], "path": "/Refund/R-778"}]
    assert found(job, seen(CANCEL, own, twice)) == [("/Refund/R-778", False)]


def test_an_identifier_that_somebody_named_must_be_that_one():
    job = task([CANCELLED], solution=reference(REFUND), facts=[Fact(name="number", value="R-501")])
    own = [{**REFUND[0], "path": "/Refund/R-777"}]
    assert found(job, seen(own)) == [("/Refund/R-777", False)]


def test_the_time_of_a_change_beside_it_is_left_to_the_judge():
    stamped = changed("/Order/A-17/updated_at", "2026-03-04T10:00:00Z")
    assert found(TASK, seen(CANCEL, stamped)) == [("/Order/A-17/updated_at", True)]
    assert found(task([CANCELLED], solution=reference(REFUND)), seen(stamped)) == [("/Order/A-17/updated_at", False)]


def test_free_text_goes_to_the_judge():
    job = task([CANCELLED], solution=reference(CANCEL, REFUND))
    told = [{**REFUND[0], "value": {**REFUND[0]["value"], "reason": "The customer ordered it in error"}}]
    trajectory = seen(CANCEL, told)
    assert by_code(job, trajectory)[END_STATE] is None
    for met in (True, False):
        quotes = [{"message": 4, "text": "Order A-17 is cancelled."}]
        said = {"criterion": END_STATE, "quotes": quotes, "why": "It is so.", "met": met}
        kept = [{"rule": r, "message": -1, "quote": "", "why": "", "kept": True} for r in rules_of(job.agent)]
        answer = json.dumps({"verdicts": [said], "rules": kept, "claims": []})
        ask = FakeAsk(lambda body, answer=answer: answer)
        judged = asyncio.run(judge_trajectory(job, trajectory, ask))
        assert judged.passed == met and judged.asked and judged.reason == ("" if met else "not_met")
        assert "The customer ordered it in error" in str(ask.asked[0]["messages"])


def test_a_choice_that_the_rubric_gives_stands():
    loose = criterion("cancel", "call", {"tool": "cancel_order", "arguments": [is_("/fee", "between", [0, 5])]})
    fee = changed("/Order/A-17/fee", 3, "add")
    other = changed("/Order/A-17/fee", 4, "add")
    job = task([loose], solution=reference(fee, arguments={"fee": 3}))
    assert found(job, seen(other, arguments={"fee": 4})) == []
    assert found(job, seen(other, arguments={"fee": 5})) == [("/Order/A-17/fee", False)]
    either = criterion(
        "state", "state", {"conditions": [is_("/Order/A-17/status", "one_of", ["cancelled", "refunded"])]}
    )
    job = task([CANCELLED, either], solution=reference(CANCEL))
    assert found(job, seen(changed("/Order/A-17/status", "refunded"))) == []


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text("ab1 ", max_size=4))
RECORDS = st.dictionaries(st.text("ab", min_size=1, max_size=2), SCALARS, max_size=3)
STATES = st.dictionaries(st.sampled_from(["K", "L~/"]), st.dictionaries(st.sampled_from("12"), RECORDS), max_size=2)


@given(STATES, STATES)
def test_a_trajectory_that_ends_as_the_reference_is_never_refused(before, after):
    patch = list(jsonpatch.make_patch(before, after))
    job = task([CANCELLED], solution=reference(patch))
    trajectory = evidence("U Hi", "A Done", before=before, after=after)
    assert differences(job, trajectory) == []
    idle = task([CANCELLED], solution=reference([]))
    assert bool(differences(idle, trajectory)) == (before != after and not _same(before, after))


def _same(a, b):
    from tokenmill.judges.rubric.conditions import same

    # A kind without records is no kind.
    return same({k: v for k, v in a.items() if v}, {k: v for k, v in b.items() if v})

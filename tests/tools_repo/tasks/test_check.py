"""Tasks that cannot be set are found by code, each for its reason; good ones of every level pass."""

import json
from dataclasses import replace

import pytest
from tokenmill.inference.structured import _validator
from tokenmill.schemas.agentic import (
    DECLINE,
    DEPENDENT_CALLS,
    LEVELS,
    MISSING_INFORMATION,
    ONE_CALL,
    RECOVERY,
    SEVERAL_CALLS,
)
from tokenmill.schemas.tools import Semantics
from tokenmill.tools_repo.tasks.check import TaskCheck
from tokenmill.tools_repo.tasks.form import draft_of, task_schema
from tokenmill.tools_repo.tasks.levels import LevelWeights, carries

from tests.servers.agency import _call, _get, _must_call, _must_tell, _return, _task
from tests.tools_repo.agentic_rows import parcel_agent
from tokenmill import prompts


def answer(level, **changed):
    prompt = f"{prompts.load(f'agentic/levels/{level}').text}\n<tasks-00000000>\n-\n"
    return {**_task(prompt), **changed}


def faults(level, agent=None, siblings=(), **changed):
    return TaskCheck(draft_of(answer(level, **changed), level), agent or parcel_agent(), siblings)()


def reasons(*args, **kwargs):
    return {fault.reason for fault in faults(*args, **kwargs)}


@pytest.mark.parametrize("level", LEVELS)
def test_a_good_task_of_every_level_passes_and_meets_its_schema(level):
    assert faults(level) == []
    schema = task_schema(parcel_agent().tools, level)
    assert list(_validator(json.dumps(schema).encode()).iter_errors(answer(level))) == []


def test_the_state_at_the_start_is_the_sample_with_the_changes():
    check = TaskCheck(draft_of(answer(DEPENDENT_CALLS), DEPENDENT_CALLS), parcel_agent())
    assert check() == [] and check.start["Parcel"]["P-101"]["depot_id"] == "D-2"
    bare = answer(DEPENDENT_CALLS, changes=[{"op": "replace", "path": "/Parcel/P-101/depot_id", "value": "D-2"}])
    assert TaskCheck(draft_of(bare, DEPENDENT_CALLS), parcel_agent()).start == check.start


@pytest.mark.parametrize(
    "change",
    [
        {"op": "replace", "path": "/Parcel/P-999/status", "value": '"delivered"'},
        {"op": "replace", "path": "/Parcel/P-101/status", "value": '"eaten"'},
        {"op": "replace", "path": "/Parcel/P-101/depot_id", "value": '"D-9"'},
        {"op": "add", "path": "/Van/V-1", "value": "{}"},
        {"op": "add", "path": "/Parcel/P-7", "value": '{"parcel_id": "P-7"'},
        {"op": "remove", "path": "", "value": ""},
    ],
)
def test_a_state_that_the_entity_model_does_not_allow_is_refused(change):
    assert reasons(ONE_CALL, changes=[change]) == {"invalid_state"}


@pytest.mark.parametrize(
    "call",
    [
        _call("get_parcel", {}, {}),
        _call("get_parcel", {"parcel_id": "P-999"}, {}),
        _call("get_parcel", {"parcel_id": 5}, {}),
        {**_get("P-101"), "arguments": "[1]"},
        {**_get("P-101"), "result": "not json"},
        _call("get_parcel", {"parcel_id": "P-101"}, {}, ("replace", "/Parcel/P-101/status", "returned")),
        _call("return_parcel", {"parcel_id": "P-101"}, {}, ("replace", "/Depot/D-1/city", "Rome")),
        _call("return_parcel", {"parcel_id": "P-101"}, {}, ("replace", "/Parcel/P-101/status", "eaten")),
        _call("return_parcel", {"parcel_id": "P-101"}, {"error": {"code": "x"}}, ("remove", "/Parcel/P-101", "")),
    ],
)
def test_a_solution_that_cannot_run_is_refused(call):
    assert reasons(ONE_CALL, solution=[call]) == {"invalid_solution"}


def test_a_result_that_breaks_the_output_schema_is_refused():
    tools = [
        replace(tool, output_schema='{"type":"object","required":["weight_kg"]}') if tool.name == "get_parcel" else tool
        for tool in parcel_agent().tools
    ]
    assert reasons(ONE_CALL, parcel_agent(tools=tools)) == set()
    short = [_call("get_parcel", {"parcel_id": "P-101"}, {"status": "in_transit"})]
    assert reasons(ONE_CALL, parcel_agent(tools=tools), solution=short) == {"invalid_solution"}


def test_a_tool_that_does_not_say_what_it_does_may_change_things():
    tools = [replace(tool, semantics=Semantics(), annotations="{}") for tool in parcel_agent().tools]
    change = [_call("get_parcel", {"parcel_id": "P-101"}, {}, ("replace", "/Parcel/P-101/status", "returned"))]
    told = {"rubric": [_must_call("look", "get_parcel", parcel_id="P-101")]}
    assert reasons(ONE_CALL, parcel_agent(tools=tools), solution=change, **told) == set()
    assert reasons(ONE_CALL, solution=change, **told) == {"invalid_solution"}


def test_a_rubric_that_the_solution_does_not_meet_is_unsolvable():
    rubric = [_must_call("look", "get_parcel", parcel_id="P-101"), _must_tell("weight", 77.5)]
    assert reasons(ONE_CALL, rubric=rubric) == {"unsolvable"}


@pytest.mark.parametrize("level", [level for level in LEVELS if level != DECLINE])
def test_a_solution_that_leaves_a_call_out_is_never_accepted(level):
    solution = answer(level)["solution"]
    for left_out in range(len(solution)):
        assert faults(level, solution=[call for at, call in enumerate(solution) if at != left_out])


def test_a_rubric_that_asks_for_no_deed_is_refused():
    calm = _must_tell("calm", never=["P-999"])
    optional = {**_must_call("look", "get_parcel", parcel_id="P-101"), "mandatory": False}
    for rubric in ([calm], [calm, optional], [_must_tell("weight", 1.01)]):
        assert reasons(ONE_CALL, rubric=rubric) == {"invalid_rubric"}
    refuses = [c for c in answer(DECLINE)["rubric"] if c["kind"] == "answer"]
    assert reasons(DECLINE, rubric=refuses) == {"invalid_rubric"}


def test_a_violation_that_breaks_nothing_is_refused():
    wrong = [{"path": "/parcel_id", "is": "equals", "value": "P-103"}]
    kept, same, no = answer(DECLINE)["rubric"]
    kept = {**kept, "spec": {"tool": "return_parcel", "arguments": wrong}}
    unchanged = {**same, "spec": {**same["spec"], "unchanged": ["Depot"]}}
    assert reasons(DECLINE, rubric=[kept, unchanged, no]) == {"permits_violation"}


@pytest.mark.parametrize(
    ("level", "changed"),
    [
        (ONE_CALL, {"solution": [_get("P-101"), _get("P-101")]}),
        (SEVERAL_CALLS, {"solution": [_get("P-101")]}),
        (DEPENDENT_CALLS, {"goal": "Mara wants parcel P-101 to wait in depot D-1."}),
        (RECOVERY, {"solution": [_get("P-101"), _return("P-101")]}),
        (RECOVERY, {"solution": [_call("return_parcel", {"parcel_id": "P-101"}, {"error": "no"})] * 2}),
        (ONE_CALL, {"solution": [_call("get_parcel", {"parcel_id": "P-101"}, {"error": "no"})]}),
        (MISSING_INFORMATION, {"facts": [{"name": "parcel", "value": "P-101", "volunteered": True}]}),
        (DECLINE, {"solution": [_return("P-102")]}),
        (DECLINE, {"violation": [_call("return_parcel", {"parcel_id": "P-102"}, {"error": "no"})]}),
    ],
)
def test_a_task_that_is_not_of_its_level_is_refused(level, changed):
    assert reasons(level, **changed) == {"wrong_level"}


@pytest.mark.parametrize(
    "changed",
    [
        {"goal": "Mara wants get_parcel to be called for P-101."},
        {"opening": "You want reroute_parcel done."},
        {"facts": [{"name": "number", "value": "see return_parcel", "volunteered": True}]},
        {"opening": "You want P-101 sent back.", "facts": [{"name": "number", "value": "P-101", "volunteered": False}]},
        {"situation": "You hold P-101.", "facts": [{"name": "number", "value": "P-101", "volunteered": False}]},
    ],
)
def test_texts_that_the_user_reads_give_nothing_away(changed):
    assert reasons(ONE_CALL, **changed) == {"leaks"}


def test_identifiers_that_nobody_has_told_are_refused():
    assert reasons(ONE_CALL, goal="Mara knows how heavy it is.", facts=[]) == {"unknowable"}
    assert reasons(ONE_CALL, facts=[]) == set()


def test_a_task_must_differ_from_its_siblings():
    first = draft_of(answer(ONE_CALL), ONE_CALL)
    assert reasons(ONE_CALL, siblings=[first]) == {"repeats_sibling"}
    other = {"title": "Somebody asks", "goal": "Birte checks P-101 before buying stronger string for carrying."}
    assert reasons(ONE_CALL, siblings=[first], **other) == {"repeats_sibling"}  # the same call
    assert reasons(SEVERAL_CALLS, siblings=[first]) == set()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"title": "x" * 200}, "text_length"),
        ({"goal": "Do it <|im_end|> now with P-101"}, "control_tokens"),
        ({"facts": [{"name": n, "value": "P-101", "volunteered": True} for n in ("number", "Number")]}, "invalid_facts"),
        ({"rubric": [_must_call("look", "get_parcel", colour="red")]}, "invalid_rubric"),
        ({"rubric": [{**_must_call("look", "get_parcel"), "mandatory": False}]}, "invalid_rubric"),
        ({"rubric": [_must_tell("nothing")]}, "invalid_rubric"),
    ],
)  # fmt: skip
def test_other_faults_have_their_reasons(changed, reason):
    assert reasons(ONE_CALL, **changed) == {reason}


def test_levels_follow_the_weights_and_what_tools_can_carry():
    tools = parcel_agent().tools
    assert all(carries(level, tools) for level in LEVELS)
    lister = [tool for tool in tools if tool.name == "list_depots"]
    assert [level for level in LEVELS if carries(level, lister)] == [ONE_CALL, RECOVERY, DECLINE]
    drawn = [LevelWeights.parse("one_call=3,decline").draw(tools, 0, n) for n in range(4_000)]
    assert set(drawn) == {ONE_CALL, DECLINE} and 2_800 < drawn.count(ONE_CALL) < 3_200
    assert LevelWeights.parse("dependent_calls").draw(lister, 0, 1) == ONE_CALL
    assert set(LevelWeights.parse("").of.values()) == {1.0}
    for wrong in ("hard=1", "one_call=x", "one_call=-1", "one_call=0", "one_call,one_call"):
        with pytest.raises(ValueError):
            LevelWeights.parse(wrong)

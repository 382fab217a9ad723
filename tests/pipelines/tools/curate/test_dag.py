"""Curating tools: near-duplicates across origins, names, and the judge, every tool in exactly one place."""

import json
from dataclasses import replace

import apache_beam as beam
import pytest
from tokenmill.bench.servers.scripted import Reply, ScriptedServer
from tokenmill.bench.tools.embedding import HashedWords
from tokenmill.inference.roles import Models, Role
from tokenmill.judges.model.tool_clarity import ToolClarity
from tokenmill.pipelines.tools.curate.dag import CurateTools, one_of_each_id
from tokenmill.pipelines.transforms import DATA, FAILED, REJECTED
from tokenmill.schemas.tools import MCP, OPENAPI, SYNTHETIC, RefusedTool, ToolSpec, from_openai
from tokenmill.tools_repo.specs.likeness import Likeness

from tests.pipelines.direct import collect

LIKENESS = Likeness(embedder=HashedWords())
WEATHER = "Get the weather of a city on a day, with temperature, wind and rain. Needs no account."
TRAINS = "List the trains that leave a station within the next hours, with platform and delay."


def tool(name, description, place, origin=SYNTHETIC, **more):
    schema = {"type": "object", "properties": {"place": {"type": "string"}}}
    where = {"domain": ["travel", place]} if origin == SYNTHETIC else {"server": place}
    return from_openai({"name": name, "description": description, "parameters": schema}, origin=origin, **where, **more)


def curate(tools, *, processes=0, likeness=LIKENESS, **arguments):
    def build(pipeline):
        return pipeline | beam.Create(tools) | CurateTools(**arguments, likeness=likeness)

    found = collect(build, processes=processes)
    assert sum(map(len, found.values())) == len(tools), "every tool ends in exactly one place"
    return found


PLANTED = [
    tool("get_weather", WEATHER, "evolved"),
    tool("getWeather", WEATHER + " Use it freely.", "forecasts", OPENAPI),
    tool("get_weather", WEATHER, "meteo", MCP),
    tool("list_departures", TRAINS, "rail"),
    tool("list_departures", TRAINS + " Sorted by time.", "transit"),
    tool("cancel_booking", "Cancel a booking and refund what was paid for it.", "rail"),
]


@pytest.mark.parametrize("processes", [0, 2])
def test_of_near_duplicates_the_real_tool_is_kept_and_named(processes):
    found = curate(PLANTED, processes=processes)
    kept = {spec.id for spec in found[DATA]}
    assert {"mcp/meteo/get_weather", "synthetic/travel/rail/cancel_booking"} < kept and len(kept) == 3
    refused = {spec.id: spec for spec in found[REJECTED]}
    assert {spec.reason for spec in refused.values()} == {"near_duplicate"} and len(refused) == 3
    exact = refused["synthetic/travel/evolved/get_weather"]
    assert (type(exact), exact.duplicate_of, exact.score) == (RefusedTool, "mcp/meteo/get_weather", 1.0)
    near = refused["openapi/forecasts/getWeather"]
    assert near.duplicate_of == "mcp/meteo/get_weather" and 0.7 <= near.score < 1 and near.duplicate_of in near.detail
    assert not found[FAILED]


def test_near_duplicates_stay_where_nothing_is_compared():
    found = curate(PLANTED, likeness=None)
    assert len(found[DATA]) == len(PLANTED)


def test_names_are_unique_in_a_tool_set_and_only_there():
    rows = [
        tool("find.train", "Find a train by its number.", "rail"),
        tool("find_train", "Find the train on which a passenger travels.", "rail"),
        tool("find_train", "Find model trains in the shop.", "toys"),
    ]
    names = {spec.id: spec.name for spec in curate(rows, likeness=None)[DATA]}
    assert names["synthetic/travel/rail/find_train"] == names["synthetic/travel/toys/find_train"] == "find_train"
    assert len(set(names.values())) == 2


def test_one_id_stands_for_the_newest_version_whatever_the_order():
    old, new = (tool("get", "Get it.", "s", MCP, version=version) for version in ("1.9.0", "1.10.0"))
    other = replace(old, description="Get it fast.")
    for rows in ([old, new, other], [other, new, old]):
        kept, *refused = one_of_each_id(old.id, rows)
        assert kept == new and [spec.score for spec in refused] == [0.0, 1.0]
        assert {spec.duplicate_of for spec in refused} == {old.id} and len({spec.id for spec in refused}) == 2
    found = curate([old, new, other])
    assert found[DATA] == [new] and {spec.reason for spec in found[REJECTED]} == {"same_id"}


def problem(quote, kind="vague"):
    return {"kind": kind, "quote": quote, "why": "Say what is handled.", "severity": "major"}


def judge(body):
    """Refuses what handles things, fails on whatever cannot be read, and passes the rest."""
    text = body["messages"][-1]["content"]
    if "unreadable" in text:
        return Reply(400, b'{"error":{"message":"no"}}')
    if "undecidable" in text:
        return json.dumps({"problems": [problem("words that stand nowhere")]})
    return json.dumps({"problems": [problem("Handles things as needed")] if "Handles things" in text else []})


@pytest.fixture
def models(tmp_path):
    with ScriptedServer(judge) as server:
        yield Models({"judge": Role(server.spec)}, cache=str(tmp_path / "cache.sqlite"), run="t"), server


def test_a_judge_refuses_with_its_evidence_and_what_it_cannot_decide_fails(models):
    models, server = models
    rows = [
        *PLANTED,
        tool("handle", "Handles things as needed.", "office"),
        tool("ponder", "Does the undecidable.", "office"),
        tool("scan", "Reads the unreadable.", "office"),
    ]
    found = curate(rows, models=models, judge=ToolClarity(), seed=7)
    assert len(found[DATA]) == 3 and all(type(spec) is ToolSpec for spec in found[DATA])
    refused = {spec.id: spec for spec in found[REJECTED]}
    vague = refused["synthetic/travel/office/handle"]
    assert vague.reason == "vague" and "Say what is handled." in vague.detail and 0 < vague.score < 1
    assert "Handles things as needed" in vague.detail and len(refused) == 4
    errors = {row.id: (row.step, row.error) for row in found[FAILED]}
    assert errors == {
        "synthetic/travel/office/ponder": ("judge", "JudgeUndecided"),
        "synthetic/travel/office/scan": ("judge", "CallRefused"),
    }
    asked = [json.loads(body) for body in server.log.bodies]
    assert all(body["seed"] == 7 for body in asked)
    assert not any("forecasts" in json.dumps(body) for body in asked), "no call is spent on a duplicate"


def test_a_judge_needs_a_model():
    with pytest.raises(ValueError, match="role `judge`"):
        CurateTools(judge=ToolClarity())

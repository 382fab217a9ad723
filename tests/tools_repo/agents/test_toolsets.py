"""Tool-sets: the draw depends on the seed and the tools alone, and keeps what it promises."""

import json
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.tools import MCP, SYNTHETIC, ToolSpec, tool_id
from tokenmill.schemas.toolsets import DOMAIN, NEIGHBOURS, SERVER
from tokenmill.tools_repo.agents.toolsets import Sampling, draw_toolsets
from tokenmill.tools_repo.specs.names import is_valid

from tests.servers.agency import DOMAIN as PARCELS
from tests.servers.agency import ENTITIES, STATE, parcel_tools


def repository(count, domains=7, origin=SYNTHETIC):
    tools = []
    for n in range(count):
        domain = [f"c{n % 3}", f"d{n % domains}"]
        where = {"domain": domain} if origin == SYNTHETIC else {"server": "-".join(domain)}
        toolset = "/".join(domain) if origin == SYNTHETIC else "-".join(domain)
        tools.append(
            ToolSpec(
                id=tool_id(origin, toolset, f"do_{n // domains}"),
                name=f"do_{n // domains}",
                description=f"Do the thing number {n}.",
                input_schema='{"type":"object"}',
                origin=origin,
                category=domain[0],
                **where,
            )
        )
    unique = {tool.id: tool for tool in tools}
    return list(unique.values())


def vectors_of(tools, seed=0):
    drawn = np.random.default_rng(seed).standard_normal((len(tools), 16)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 60),
    sets=st.integers(1, 30),
    seed=st.integers(0, 5),
    shuffle=st.randoms(),
    embedded=st.booleans(),
)
def test_a_draw_depends_on_seed_and_tools_alone(count, sets, seed, shuffle, embedded):
    tools = repository(count)
    vectors = vectors_of(tools) if embedded else None
    drawn = list(draw_toolsets(tools, sets, seed=seed, vectors=vectors))
    order = list(range(len(tools)))
    shuffle.shuffle(order)
    again = draw_toolsets(
        [tools[at] for at in order], sets, seed=seed, vectors=None if vectors is None else vectors[order]
    )
    assert list(again) == drawn
    assert list(draw_toolsets(tools, sets + 5, seed=seed, vectors=vectors))[:sets] == drawn
    assert len({toolset.id for toolset in drawn}) == sets


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 80), least=st.integers(1, 6), more=st.integers(0, 10), seed=st.integers(0, 3))
def test_sets_keep_their_sizes_and_their_names_are_unique_and_valid(count, least, more, seed):
    tools = repository(count)
    sampling = Sampling(least, least + more)
    by_id = {tool.id: tool for tool in tools}
    for toolset in draw_toolsets(tools, 20, sampling, seed=seed, vectors=vectors_of(tools)):
        names = [tool.name for tool in toolset.tools]
        assert len(set(names)) == len(names) and all(map(is_valid, names))
        assert {tool.id for tool in toolset.tools} <= by_id.keys()
        assert set(toolset.distractors) < set(names)
        core = len(names) - len(toolset.distractors)
        assert min(least, len(tools)) <= core <= sampling.most
        assert len(toolset.distractors) <= max(1, core // 3)


def test_every_tool_leads_before_any_leads_again_and_sizes_spread():
    tools = repository(200)
    sets = list(draw_toolsets(tools, 400, Sampling(3, 12, within=0.5, distracted=0.5), vectors=vectors_of(tools)))
    assert Counter(s.sampling for s in sets)[DOMAIN] == pytest.approx(200, abs=45)
    assert sum(bool(s.distractors) for s in sets) == pytest.approx(200, abs=45)
    sizes = Counter(len(s.tools) - len(s.distractors) for s in sets)
    assert set(sizes) == set(range(3, 13)) and sizes[3] > sizes[11]
    alone = list(draw_toolsets(tools, len(tools), Sampling(1, 1, distracted=0)))
    assert {s.tools[0].id for s in alone} == {tool.id for tool in tools}


def test_a_set_within_stays_in_its_domain_or_server_and_one_of_neighbours_is_near():
    for origin, label in ((SYNTHETIC, DOMAIN), (MCP, SERVER)):
        tools = repository(120, origin=origin)
        for toolset in draw_toolsets(tools, 30, Sampling(3, 6, within=1, distracted=0)):
            assert toolset.sampling == label and len(toolset.domains) == 1
    tools = repository(300)
    centres = np.eye(16, dtype=np.float32)[[n % 5 for n in range(300)]]
    vectors = centres + 0.4 * vectors_of(tools)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cluster = {tool.id: n % 5 for n, tool in enumerate(tools)}
    for toolset in draw_toolsets(tools, 40, Sampling(3, 6, within=0, distracted=0), vectors=vectors):
        assert toolset.sampling == NEIGHBOURS
        assert len({cluster[tool.id] for tool in toolset.tools}) == 1


def test_distractors_come_from_elsewhere_and_do_not_stand_apart():
    tools = repository(200)
    last = 0
    for toolset in draw_toolsets(tools, 60, Sampling(6, 9, within=1, distracted=1), vectors=vectors_of(tools)):
        extra = [tool for tool in toolset.tools if tool.name in toolset.distractors]
        core = [tool for tool in toolset.tools if tool.name not in toolset.distractors]
        assert extra and len({tool.toolset for tool in core}) == 1
        assert {tool.toolset for tool in toolset.tools} == set(toolset.domains)
        last += toolset.tools[-1].name in toolset.distractors
    assert 0 < last < 60


def test_nearly_equal_tools_do_not_stand_in_one_set_of_neighbours():
    tools = repository(30, domains=30)
    vectors = vectors_of(tools)
    vectors[10:20] = vectors[:10] + 0.01 * vectors[20:30]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    twin = {tool.id: n % 10 for n, tool in enumerate(tools[:20])}
    for toolset in draw_toolsets(tools, 60, Sampling(5, 9, within=0, distracted=0), vectors=vectors):
        twins = [twin[tool.id] for tool in toolset.tools if tool.id in twin]
        assert len(set(twins)) == len(twins)


def test_the_worlds_of_domains_travel_with_their_tools_and_are_merged():
    other = ("office", "rooms")
    rooms = {
        "Room": {"description": "A room.", "schema": {"type": "object", "properties": {"seats": {"type": "integer"}}}}
    }
    second = replace(
        PARCELS,
        id="office/rooms",
        path=list(other),
        entities=json.dumps(rooms),
        state=json.dumps({"Room": {"R1": {"seats": 4}}}),
    )
    tools = [*parcel_tools(), *parcel_tools(other)]
    sets = list(draw_toolsets(tools, 10, Sampling(3, 5, within=1, distracted=1), domains=[PARCELS, second]))
    for toolset in sets:
        model, state = json.loads(toolset.entities), json.loads(toolset.state)
        assert set(state) == set(model)
        assert len(model) == 3 if len(toolset.domains) == 2 else model in (ENTITIES, rooms)
    assert any(len(toolset.domains) == 2 for toolset in sets)
    (plain,) = draw_toolsets(parcel_tools(), 1, Sampling(5, 5, within=1, distracted=0), domains=[PARCELS])
    assert (json.loads(plain.entities), json.loads(plain.state)) == (ENTITIES, STATE)
    (unknown,) = draw_toolsets(parcel_tools(), 1, Sampling(5, 5), domains=[])
    assert (unknown.entities, unknown.state) == ("", "")


def test_worlds_are_for_tools_of_any_origin():
    real = [replace(tool, origin="mcp", server="parcels", domain=[], id=f"mcp/{tool.name}") for tool in parcel_tools()]
    world = replace(PARCELS, id="parcels", path=["parcels"])
    (known,) = draw_toolsets(real, 1, Sampling(5, 5, within=1, distracted=0), domains=[world])
    assert (json.loads(known.entities), json.loads(known.state)) == (ENTITIES, STATE)


def test_tools_of_worlds_that_contradict_each_other_are_kept_apart():
    other = ("post", "parcels")
    clash = {"Parcel": {"description": "Another thing.", "schema": {"type": "object"}}}
    second = Domain(
        id="post/parcels",
        category="post",
        path=list(other),
        name="parcels",
        description="",
        operator="seed",
        entities=json.dumps(clash),
        state=json.dumps({"Parcel": {}}),
    )
    tools = [*parcel_tools(), *parcel_tools(other)]
    for toolset in draw_toolsets(tools, 20, Sampling(3, 8, within=0.5, distracted=1), domains=[PARCELS, second]):
        assert len({tool.toolset for tool in toolset.tools}) == 1 and toolset.entities


@pytest.mark.parametrize(
    "wrong", [{"least": 0}, {"least": 5, "most": 4}, {"within": 1.5}, {"distracted": -0.1}, {"most_distractors": 0}]
)
def test_a_sampling_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError):
        Sampling(**wrong)


def test_what_cannot_be_drawn_from_is_refused():
    tools = repository(3)
    for given_, more in (([], {}), ([tools[0], tools[0]], {}), (tools, {"vectors": vectors_of(tools)[:2]})):
        with pytest.raises(ValueError):
            list(draw_toolsets(given_, 2, **more))


def test_twenty_thousand_tools_are_drawn_from_quickly():
    tools = repository(20_000, domains=1000)
    random.Random(1).shuffle(tools)
    sets = list(draw_toolsets(tools, 300, vectors=vectors_of(tools)))
    assert len(sets) == 300


def test_a_crowd_of_distractors_is_as_large_as_asked_for():
    sampling = Sampling(3, 3, within=1.0, distracted=1.0, crowd=50)
    assert {sampling.distractors(size, seed) for size in (1, 3, 20) for seed in range(5)} == {50}
    assert Sampling(distracted=0.0, crowd=50).distractors(3, 0) == 0
    with pytest.raises(ValueError, match="120"):
        Sampling(crowd=121)

"""Domains: categories, operators, siblings, and the coroutine that makes one more."""

import asyncio
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tokenmill.bench.servers.evolver import Evolver
from tokenmill.inference.errors import AnswerInvalid, CallRefused
from tokenmill.pipelines.tools.evolve.dag import BARREN, DesignDomain, EvolveDomains
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.agentic import Domain, RefusedDomain
from tokenmill.schemas.documents import FailedRow
from tokenmill.tools_repo.evolution.categories import Category, read_categories
from tokenmill.tools_repo.evolution.domains import Evolution
from tokenmill.tools_repo.evolution.operators import BELOW, MAX_DEPTH, OPERATORS, SEED, TRANSFER, Example, Operators
from tokenmill.tools_repo.evolution.siblings import NEAREST, VIEW, Distinct, Siblings, view

from tests.fake_ask import FakeAsk

RAIL = Category(
    "public transport", "Moving people by bus and rail.", ("timetables", "ticketing", "bus depot", "rosters")
)
ELSEWHERE = tuple(Example(name, f"{name} work {i}") for name in ("logistics", "banking") for i in range(6))
WORDS = Distinct(embedder=None)
GOOD = {
    "name": "night bus dispatch",
    "description": "Dispatchers keep track of night buses, drivers and delays, and reroute.",
}
OTHER = {
    "name": "ticket refunds",
    "description": "Clerks examine claims of passengers and pay money back to their cards.",
}


def domain(number, path=("public transport",), name=None):
    name = name or f"domain {number}"
    return Domain(
        id=f"public-transport/{number}",
        category="public transport",
        path=[*path, name],
        name=name,
        description=f"About {number}.",
        operator=SEED,
    )


def run(evolution, answers, made=()):
    """One domain; `answers` in order, the last again and again."""
    said = iter(answers)
    last = [answers[-1]]

    def answer(body):
        last[0] = next(said, last[0])
        if isinstance(last[0], Exception):
            raise last[0]
        return last[0] if isinstance(last[0], str) else json.dumps(last[0])

    ask = FakeAsk(answer)

    async def go():
        siblings = Siblings(evolution.distinct)
        for one in made:
            siblings.add(await siblings.describe(one.id, one.name, one.description))
        return await evolution.domain(RAIL, len(made) + 4, made, siblings, ask)

    return asyncio.run(go()), ask


def test_the_shipped_list_has_enough_categories_of_different_names():
    shipped = read_categories()
    assert len(shipped) >= 40 and len({category.id for category in shipped}) == len(shipped)
    assert all(len(category.examples) >= 3 for category in shipped)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"name": "a"}', "description"),
        ('{"name": "a", "description": "b", "examples": []}', "examples"),
        ('{"name": 3, "description": "b", "examples": ["c"]}', "name"),
        ("[1]", "name"),
        ("{", "unexpected end"),
        ('{"name": "Rail!", "description": "b", "examples": ["c"]}', "twice"),
    ],
)
def test_a_bad_list_is_told_with_file_and_line(tmp_path, line, said):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"name": "rail", "description": "Trains.", "examples": ["tickets"]}\n' + line + "\n")
    with pytest.raises(ValueError, match=f"mine.jsonl, line 2: .*{said}"):
        read_categories([file])


def test_every_operator_is_drawn_and_its_parents_exist():
    operators = Operators(ELSEWHERE)
    made = [domain(i) for i in range(5)] + [domain(9, ("public transport", "a", "b"))]
    moves = [operators.draw(RAIL, number, made, seed) for seed in range(4) for number in range(3, 60)]
    assert set(Counter(move.operator for move in moves)) == set(OPERATORS)
    for move in moves:
        assert len(move.parents) == (2 if move.operator == "combine" else 1)
        if move.operator in BELOW:
            assert move.parents[0] in made and len(move.path) < MAX_DEPTH and move.aspect
        if move.operator == TRANSFER:
            assert move.parents[0] in ELSEWHERE
        if move.operator == "combine":
            assert move.parents[0] in made and move.parents[0].id != move.parents[1].id


def test_a_category_begins_with_seeds_from_its_own_examples():
    moves = [Operators(ELSEWHERE).draw(RAIL, number, [], 1) for number in range(3)]
    assert [move.operator for move in moves] == [SEED] * 3
    assert [move.parents[0].name for move in moves] == ["timetables", "ticketing", "bus depot"]


def test_one_more_application_elsewhere_changes_few_draws():
    made = [domain(i) for i in range(6)]
    more = (*ELSEWHERE, Example("space", "launches"))
    draws = [[Operators(known).draw(RAIL, number, made, 0) for number in range(3, 203)] for known in (ELSEWHERE, more)]
    changed = sum(a != b for a, b in zip(*draws, strict=True))
    assert 0 < changed < 40


def test_weights_may_leave_operators_out():
    made = [domain(i) for i in range(4)]
    only = Operators(ELSEWHERE, {"constrain": 1.0})
    assert {only.draw(RAIL, number, made, 0).operator for number in range(3, 30)} == {"constrain"}
    with pytest.raises(ValueError, match="no operator 'invent'"):
        Operators(weights={"invent": 1.0})


def test_a_new_domain_sees_its_siblings_and_names_its_origin():
    made = [domain(0, name="tram depots"), domain(1, name="ferry lines")]
    found, ask = run(Evolution(seed=3, model="m", operators=Operators(ELSEWHERE), distinct=WORDS), [GOOD], made)
    assert isinstance(found, Domain) and not isinstance(found, RefusedDomain)
    assert (found.name, found.category, found.model, found.seed) == (GOOD["name"], RAIL.name, "m", 3)
    assert found.path[0] == RAIL.name and found.path[-1] == GOOD["name"] and found.id.startswith("public-transport/")
    assert found.operator in OPERATORS and found.parents
    assert found.prompts[0] == f"evolve/{found.operator}@1"
    shown = ask.asked[0]["messages"][-1]["content"]
    assert "- tram depots: About 0." in shown and "- ferry lines: About 1." in shown


def test_a_repeated_sibling_is_asked_for_again_with_the_finding():
    made = [domain(0, name="Dispatch of night trams")]
    found, ask = run(Evolution(distinct=WORDS), [GOOD | {"name": "night tram dispatch"}, OTHER], made)
    assert found.name == OTHER["name"] and len(ask.asked) == 2
    assert 'it has the name of the existing "Dispatch of night trams"' in ask.asked[1]["messages"][-1]["content"]


def test_a_sibling_repeated_to_the_end_is_a_refused_row():
    made = [domain(0, name="Night-bus dispatch")]
    found, ask = run(Evolution(distinct=WORDS, repairs=2), [GOOD], made)
    assert isinstance(found, RefusedDomain) and found.reason == "same_name" and found.score == 1.0
    assert found.duplicate_of == made[0].id and found.id != made[0].id
    assert len(ask.asked) == 3
    finding = ask.asked[1]["messages"][-1]["content"]
    assert "Night-bus dispatch" in finding and ask.asked[1]["messages"][-2]["role"] == "assistant"
    assert len(ask.asked[2]["messages"]) == len(ask.asked[1]["messages"])  # prompts do not grow with the tries


def test_the_same_in_other_words_is_found_by_meaning():
    class Alike:
        async def embed(self, texts):
            return np.tile(np.array([[1.0, 0.0]], np.float32), (len(texts), 1))

    made = [domain(0, name="tram depots")]
    found, _ = run(Evolution(distinct=Distinct(Alike()), repairs=0), [GOOD], made)
    assert (found.reason, found.score, found.duplicate_of) == ("too_similar", 1.0, made[0].id)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (GOOD | {"name": "<script>"}, "name_unfit"),
        (GOOD | {"name": "123"}, "name_unfit"),
        (GOOD | {"name": "Public Transport"}, "name_unfit"),
        (GOOD | {"name": "x" * 500}, "name_unfit"),
        (GOOD | {"name": "field-8c8f5312"}, "name_unfit"),
        (GOOD | {"description": "Buses."}, "description_unfit"),
        (GOOD | {"description": "y" * 5000}, "description_unfit"),
        (GOOD | {"description": GOOD["description"] + " <|im_start|>system"}, "description_unfit"),
    ],
)
def test_what_no_domain_can_be_is_refused_with_the_reason(answer, reason):
    found, _ = run(Evolution(distinct=WORDS, repairs=0), [answer])
    assert isinstance(found, RefusedDomain) and found.reason == reason and found.detail


def test_bad_json_is_asked_for_again_and_fails_in_the_end():
    found, ask = run(Evolution(distinct=WORDS), ["Here you go!", GOOD])
    assert found.name == GOOD["name"] and len(ask.asked) == 2
    with pytest.raises(AnswerInvalid, match="3 tries"):
        run(Evolution(distinct=WORDS), ["Here you go!"])


def test_many_siblings_are_shown_in_part_the_nearest_among_them():
    made = [(f"domain {i}", f"about thing{i}") for i in range(300)]
    shown = view(made, "thing17 thing250", "seed", 1)
    lines = shown.splitlines()
    assert len(lines) == VIEW and "- domain 17: about thing17" in lines and "- domain 250: about thing250" in lines
    assert lines == sorted(lines, key=lambda line: int(line.split(":")[0].split()[-1]))
    assert shown == view(made, "thing17 thing250", "seed", 1) != view(made, "thing17 thing250", "seed", 2)
    assert NEAREST < VIEW and view([], "x") == "(none yet)"


def test_every_domain_asked_for_has_one_outcome_whatever_the_endpoint_does():
    refused = []

    def answer(body):
        if "ticketing" in body["messages"][-1]["content"].split("exist already")[0]:
            refused.append(1)
            raise CallRefused(400, b"no")
        return Evolver()(body)

    step = EvolveDomains(8, Evolution(distinct=WORDS, operators=Operators(ELSEWHERE)))
    outcomes = asyncio.run(step(RAIL, FakeAsk(answer))).outcomes
    assert len(outcomes) == 8 and refused
    (lost,) = [o for o in outcomes[:3] if isinstance(o, FailedRow)]
    assert (lost.id, lost.error, lost.step) == ("public-transport#1", "CallRefused", "domain")
    ids = [o.row.id for o in outcomes if isinstance(o, Accepted)]
    assert len(set(ids)) == len(ids) >= 5


def test_each_domain_is_billed_for_its_own_calls_refused_answers_included():
    answers = iter(["no JSON", json.dumps(GOOD), json.dumps(GOOD), json.dumps(GOOD), json.dumps(OTHER)])
    step = EvolveDomains(3, Evolution(distinct=WORDS, repairs=1))
    first, second, third = asyncio.run(step(RAIL, FakeAsk(lambda body: next(answers)))).outcomes
    assert isinstance(second, Rejected) and second.reason == "same_name"
    billed = [(o.row.prompt_tokens, o.row.completion_tokens) for o in (first, second, third)]
    assert billed == [(20, 10), (20, 10), (10, 5)]


def test_a_hopeless_category_is_given_up():
    ask = FakeAsk(lambda body: "no JSON")
    outcomes = asyncio.run(EvolveDomains(50, Evolution(distinct=WORDS, repairs=0))(RAIL, ask)).outcomes
    assert len(ask.asked) == BARREN and len(outcomes) == 50
    assert Counter(outcome.error for outcome in outcomes) == {"StructuredAnswerInvalid": BARREN, "gave_up": 50 - BARREN}


def test_more_domains_leave_the_first_ones_as_they_are():
    def domains(count):
        step = EvolveDomains(count, Evolution(distinct=WORDS, operators=Operators(ELSEWHERE)))
        ask = FakeAsk(Evolver(domains=0.2))
        outcomes = asyncio.run(step(RAIL, ask)).outcomes
        return outcomes, [json.dumps(body) for body in ask.asked]

    few, first_calls = domains(6)
    many, calls = domains(14)
    assert many[:6] == few and calls[: len(first_calls)] == first_calls


def test_entities_are_designed_and_billed():
    found, _ = run(Evolution(distinct=WORDS), [GOOD])
    found = replace(found, prompt_tokens=10)
    outcome = asyncio.run(DesignDomain()(found, FakeAsk(Evolver())))
    assert isinstance(outcome, Accepted)
    row = outcome.row
    assert set(json.loads(row.entities)) == set(json.loads(row.state)) and "Contact" in json.loads(row.entities)
    assert row.prompt_tokens == 30 and {"world/entities@1", "world/state@1"} < set(row.prompts)


def test_a_domain_without_valid_entities_is_refused():
    found, _ = run(Evolution(distinct=WORDS), [GOOD])
    found = replace(found, prompt_tokens=10)
    outcome = asyncio.run(DesignDomain(tries=2)(found, FakeAsk(lambda body: '{"kinds": []}')))
    assert isinstance(outcome, Rejected) and outcome.reason == outcome.row.reason == "no_entities"
    assert outcome.row.prompt_tokens == 30 and outcome.row.entities == ""

import asyncio
import collections
import pickle
import random

import apache_beam as beam
import pytest
from tokenmill.bench.tools.corpus import KINDS, repetition, tools
from tokenmill.bench.tools.embedding import HashedWords
from tokenmill.pipelines.tools.dedup import DropDuplicates, Pair, Settle
from tokenmill.schemas.tools import from_openai
from tokenmill.tools_repo.specs.likeness import Likeness

from tests.pipelines.direct import collect

WORDS = Likeness(embedder=None)


def tool(name, description="", place="s", origin="mcp", arguments=("id",)):
    schema = {"type": "object", "properties": {a: {"type": "string"} for a in arguments}}
    where = {"server": place} if origin == "mcp" else {"domain": [place]}
    return from_openai({"name": name, "description": description, "parameters": schema}, origin=origin, **where)


def drop(rows, likeness=WORDS, **options):
    def build(pipeline):
        kept, duplicates = pipeline | beam.Create(rows) | DropDuplicates(likeness)
        return {"kept": kept, "duplicates": duplicates}

    found = collect(build, **options)
    kept = sorted(t.id for t in found["kept"])
    return kept, {d.tool.id: (d.of, d.similarity) for d in found["duplicates"]}


TEXT = "Get the weather of a city on a day, with temperature, wind and rain. Needs no account."


def test_real_tools_are_preferred_and_nothing_disappears():
    rows = [
        tool("get_weather", TEXT, "evolved", "synthetic"),
        tool("get_weather", TEXT, "weather"),
        tool("getWeather", TEXT + " Use it freely.", "evolved-2", "synthetic"),
        tool("delete_city", "Delete a city from the list.", "weather"),
    ]
    kept, dropped = drop(rows)
    assert kept == ["mcp/weather/delete_city", "mcp/weather/get_weather"]
    assert {of for of, _ in dropped.values()} == {"mcp/weather/get_weather"}
    assert dropped["synthetic/evolved/get_weather"][1] == 1.0
    assert 0.7 <= dropped["synthetic/evolved-2/getWeather"][1] < 1


def test_many_exact_copies_become_one():
    rows = [tool("get_weather", TEXT, f"s{i}") for i in range(300)]
    kept, dropped = drop(rows)
    assert len(kept) == 1 and len(dropped) == 299
    assert {of for of, _ in dropped.values()} == set(kept)


def test_a_copy_of_a_dropped_tool_names_the_kept_one():
    rows = [tool("get_weather", TEXT, "a"), tool("get_weather", TEXT + " Call it.", "b", "synthetic"),
            tool("get_weather", TEXT + " Call it.", "c", "synthetic")]  # fmt: skip
    kept, dropped = drop(rows)
    assert kept == ["mcp/a/get_weather"] and {of for of, _ in dropped.values()} == set(kept)


@pytest.fixture(scope="module")
def planted():
    base = list(tools(200))
    plants = [repetition(t, KINDS[i % len(KINDS)]) for i, t in enumerate(base[:60])]
    return base, [p for p in plants if p.kind != "reworded"]


def test_planted_repetitions_are_found_and_different_tools_left_alone(planted):
    base, plants = planted
    kept, dropped = drop([*base, *(p.tool for p in plants)], Likeness(embedder=HashedWords()))
    assert len(kept) + len(dropped) == len(base) + len(plants)
    true = {frozenset((p.tool.id, p.of)) for p in plants}
    found = {frozenset((id, of)) for id, (of, _) in dropped.items()}
    assert len(true & found) >= 0.95 * len(true)
    assert len(found - true) <= 0.02 * len(found)


def test_order_and_processes_do_not_matter(planted):
    base, plants = planted
    rows = [*base[:60], *(p.tool for p in plants)]
    first = drop(rows)
    random.Random(1).shuffle(rows)
    assert drop(rows) == first
    assert drop(rows, processes=2) == first


def settle(*pairs):
    rows = [Pair(a, b, f"id{a}", score) for a, b, score in pairs]
    found = collect(lambda p: {"s": p | beam.Create(rows) | Settle()})["s"]
    return {key: (status[0], status[2]) for key, status in found}


def test_a_duplicate_of_a_duplicate_stays_unless_it_repeats_a_kept_tool():
    assert settle((1, 2, 0.9), (2, 3, 0.9)) == {2: ("dropped", "id1"), 3: ("kept", "")}
    assert settle((1, 2, 0.9), (2, 3, 0.99), (1, 3, 0.8)) == {2: ("dropped", "id1"), 3: ("dropped", "id1")}
    assert settle((1, 3, 0.8), (2, 3, 0.9)) == {3: ("dropped", "id2")}


def test_long_chains_end():
    statuses = settle(*((i, i + 1, 0.9) for i in range(1, 20)))
    assert [statuses[i][0] for i in range(2, 6)] == ["dropped", "kept", "dropped", "kept"]
    assert collections.Counter(s for s, _ in statuses.values())["open"] > 0


def score(first, second, likeness=WORDS):
    a, b = asyncio.run(likeness.fingerprints([first, second]))
    assert likeness.score(a, b) == likeness.score(b, a)
    return likeness.score(a, b)


BOILER = " Rate limited. The caller must be logged in and own the account. See the documentation for all error codes."


@pytest.mark.parametrize(
    "one, other",
    [
        (("lock_door", "Lock the front door."), ("unlock_door", "Unlock the front door.")),
        (("turn_light_on", "Turn the light on."), ("turn_light_off", "Turn the light off.")),
        (("celsius_to_fahrenheit", "Convert a temperature."), ("fahrenheit_to_celsius", "Convert a temperature.")),
        (("get_invoice", "Get an invoice."), ("get_receipt", "Get a receipt.")),
        (("get_invoice", "Get an invoice."), ("get_recurring_invoice", "Get a recurring invoice.")),
        (("create_user", "Create a user."), ("delete_user", "Delete a user.")),
    ],
)
def test_different_tools_in_the_same_boilerplate(one, other):
    assert score(tool(one[0], one[1] + BOILER), tool(other[0], other[1] + BOILER, "t")) == 0


@pytest.mark.parametrize(
    "name", ["getInvoice", "get-invoice", "invoice_get", "fetch_invoice", "billing_get_invoice", "api_get_invoice"]
)
def test_names_in_another_style_are_the_same(name):
    assert (
        score(tool("get_invoice", "Get an invoice." + BOILER), tool(name, "Get an invoice." + BOILER, "billing"))
        >= 0.85
    )


def test_meaning_in_other_words():
    embedded = Likeness()
    same = (
        tool("translate_text", "Translate text from one language into another.", arguments=("text", "source")),
        tool(
            "text_translate", "Translates a text from a source language to a target language.", "t", arguments=("from",)
        ),
    )
    assert score(*same) == 0 and score(*same, embedded) >= 0.88
    assert score(same[0], tool("detect_language", "Detect the language of a text.", "t"), embedded) == 0


def test_configuration_is_checked_and_travels():
    with pytest.raises(ValueError, match=r"Likeness\.meaning"):
        Likeness(meaning=1.5)
    assert pickle.loads(pickle.dumps(Likeness(words=0.8))) == Likeness(words=0.8)


def test_siblings_of_a_real_server_are_two_and_of_a_synthetic_domain_one():
    one = ("list_folder_messages", "Lists the messages in a mail folder, newest first, page by page.")
    two = ("list_folder_messages_2", "Lists the messages in a mail folder, newest first, page by page.")
    assert score(tool(*one), tool(*two)) == 0, "whoever wrote the server means them to be two"
    assert score(tool(*one), tool(*two, "t")) > 0.7
    assert score(tool(*one, "mail", "synthetic"), tool(*two, "mail", "synthetic")) > 0.7

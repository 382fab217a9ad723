from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.judges.facts.quantities import MAX_QUANTITIES, read
from tokenmill.judges.facts.units import READ

from tests.judges.facts.equivalents import DIFFERENT, SAME

pytestmark = pytest.mark.filterwarnings("error")
LANGUAGES = st.sampled_from((*READ, "it", "und", ""))
PIECES = st.sampled_from(
    [text for _, one, other in SAME for text in (one, other)]
    + [
        "7 and a half",
        "1/²",
        "½",
        "²³",
        "٣٤",
        "'99",
        "1:2:3",
        "24:59",
        "XX",
        "二",
        "Uhr",
        "-",
        "\u00a0",
        "\n1. ",
        "$",
        "@",
        "0",
    ]
)


@pytest.mark.parametrize(("language", "one", "other"), SAME)
def test_ways_of_saying_a_quantity_are_the_same(language: str, one: str, other: str) -> None:
    ones, others = read(one, language), read(other, language)
    assert ones and others
    assert all(any(a.same_as(b) for b in others) for a in ones)
    assert all(any(a.same_as(b) for a in ones) for b in others)


@pytest.mark.parametrize(("language", "source", "rewrite"), DIFFERENT)
def test_quantities_that_differ_are_not_the_same(language: str, source: str, rewrite: str) -> None:
    there = read(source, language)
    assert there and any(not any(q.same_as(other) for other in there) for q in read(rewrite, language))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("3 March", "date"),
        ("1956", "date"),
        ("the 1980s", "date"),
        ("19th century", "date"),
        ("3 km", "number"),
        ("956", "number"),
    ],
)
def test_findings_tell_dates_from_numbers(text: str, kind: str) -> None:
    assert [q.kind for q in read(text)] == [kind]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("1. The flour\n2. The salt", "en"),
        ("See https://example.org/2019/12 and a7@mail.org", "en"),
        ("I may say that he and I march on.", "en"),
        ("version_2 of B52", "en"),
        ("con una p de", "es"),
    ],
)
def test_what_is_no_quantity_is_not_read(text: str, language: str) -> None:
    assert not [q for q in read(text, language) if q.strong or len(q.readings) > 1]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("about 1,500 men", "1,502 men", True),
        ("1,500 men", "about 1,502 men", False),
        ("over 1,500 men", "over 1,502 men", False),
        ("nearly three decades", "29 years", True),
        ("551 m", "600 yards", True),
        ("4 June", "5 June", False),
    ],
)
def test_a_rough_number_is_rounder_than_the_exact_one(one: str, other: str, same: bool) -> None:
    (a,), (b,) = read(one), read(other)
    assert a.same_as(b) == b.same_as(a) == same


def test_each_day_of_a_range_is_read() -> None:
    found = [(amount, dimension) for q in read("the night of 4–5 June") for dimension, amount, _ in q.readings]
    assert {(604.0, "date"), (605.0, "date")} <= set(found)


def test_a_range_of_minutes_is_no_time_of_day() -> None:
    dimensions = [dimension for q in read("over in five to ten minutes") for dimension, _, _ in q.readings]
    assert "time" not in dimensions and "duration" in dimensions


def test_a_unit_of_one_letter_stands_behind_figures_only() -> None:
    assert "duration" not in {d for q in read("после шести с лишним", "ru") for d, _, _ in q.readings}
    assert "duration" in {d for q in read("за 6 с", "ru") for d, _, _ in q.readings}


@given(
    st.one_of(
        st.text(max_size=80), st.lists(PIECES, max_size=8).map(" ".join), st.lists(PIECES, max_size=8).map("".join)
    ),
    LANGUAGES,
)
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_and_spans_lie_in_order(text: str, language: str) -> None:
    found = read(text, language)
    assert all(0 <= q.start < q.end <= len(text) for q in found)
    assert all(a.start <= b.start and a.end < b.end for a, b in pairwise(found))
    assert all(q.same_as(q) and q.readings for q in found)


@pytest.mark.parametrize(
    "unit",
    ["7", "one hundred and ", "Quorn ", "([{<", "一九百千万亿", "0,", "1:1.", "1, 2 and 3 March ", "MCMXC II ", "a@",
     "스물다섯 개 ", "half ",
     "May ", "third of ", "million ", "ab", "a-", " ", "\n1. "],
)  # fmt: skip
@pytest.mark.parametrize("language", ["en", "zh", "ko", "ru"])
def test_time_grows_with_the_text_only(unit: str, language: str) -> None:
    read("1", language)  # loads its tables
    began = time.process_time()
    read((unit * 20_000)[:20_000], language)
    assert time.process_time() - began < 2  # seconds; some 0.05 where it is linear


def test_the_quantities_of_a_text_are_bounded() -> None:
    assert len(read(" ".join(map(str, range(3 * MAX_QUANTITIES))))) == MAX_QUANTITIES
    assert not read("7" * 41)
    assert [q.readings[0][1] for q in read("1e400 and 5")][-1] == 5

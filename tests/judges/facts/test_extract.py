"""What `judges.facts.extract` reads in a text, through its keys."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.judges.facts.extract import Facts, extract
from tokenmill.judges.facts.text import is_ordinal


def keys(text: str, language: str = "en") -> set[str]:
    """First keys of the facts that count on their own."""
    return {fact.keys[0] for fact in extract(text, language).numbers if fact.strong}


def names(text: str, language: str = "en") -> list[str]:
    return [text[fact.start : fact.end] for fact in extract(text, language).names]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1,204 seats", "1204 seats"),
        ("3.5 million people", "3,500,000 people"),
        ("twelve ships", "12 ships"),
        ("twenty-five dogs", "25 dogs"),
        ("two hundred and five", "205"),
        ("one million three hundred thousand", "1,300,000"),
        ("half a million copies", "500,000 copies"),
        ("the nineteenth episode", "the 19th episode"),
        ("8.0 km", "8 kilometres"),
        ("5 per cent", "5%"),
        ("57,740 hectares", "57740 ha"),
        ("223 sq mi", "223 square miles"),
        ("$15.2 million", "15.2 million"),
        ("on 3 March 1913", "on March 3rd, 1913"),
        ("on the 3rd of March 1913", "March 3, 1913"),
        ("5–7 June", "June 5 to 7"),
        ("the 19th century", "the nineteenth century"),
        ("Sept. 3", "3 September"),
        ("2014-05-12", "12 May 2014"),
    ],
)
def test_spellings_share_their_keys(first, second):
    one, two = extract(first), extract(second)
    assert one.keys & two.keys
    assert all(fact.keys[0] in two.offers for fact in one.numbers if fact.strong and not fact.keys[0].startswith("m"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1990s", "1890s"),
        ("3 March", "4 March"),
        ("3 March", "3 May"),
        ("NY 31B", "NY 31"),
        ("8.4", "84"),
        ("19th", "9th"),
    ],
)
def test_different_facts_have_different_keys(first, second):
    one, two = extract(first), extract(second)
    assert not one.keys <= two.offers


def test_a_range_of_years_is_read_in_full():
    assert {"1914", "1918"} <= extract("the war of 1914–18").offers
    assert extract("a 16–9 record").keys == {"16", "9"}


def test_decades_in_words_keep_those_in_digits_of_any_century():
    assert not extract("in the nineties").offers.isdisjoint(extract("in the 1990s").numbers[0].keys)


def test_units_are_normalised():
    assert extract("5 km and 5 kilometres and 3 sq. mi. and 99.5 percent").units == {
        ("5", "km"),
        ("3", "mi2"),
        ("99.5", "%"),
    }


def test_one_and_first_and_list_numbers_are_no_facts():
    assert keys("One of the first.\n1. Begin.\n2. Go on. Second, stop.") == set()


def test_small_number_words_are_weak_and_large_ones_strong():
    strong = {fact.keys[0]: fact.strong for fact in extract("two men and thirteen dogs").numbers}
    assert strong == {"2": False, "13": True}


def test_names_with_particles_initials_and_possessives():
    text = "In the end Ludwig van Beethoven's friend met Robert E. Lee at the Bank of England."
    assert names(text) == ["Ludwig van Beethoven's", "Robert E. Lee", "Bank of England"]


def test_a_roman_numeral_belongs_to_its_name():
    facts = extract("When Louis XIV died, he was old.")
    assert facts.names[0].keys == ("louis", "xiv")
    assert not facts.numbers


def test_capitals_at_the_beginning_of_a_sentence_are_weak():
    facts = extract("Critics praised it. Boulter starred with Mr. Smith.")
    assert {fact.keys: fact.strong for fact in facts.names} == {
        ("critics",): False,
        ("boulter",): False,
        ("smith",): True,
    }


def test_german_has_numbers_but_no_names():
    facts = extract("Am 3. Mai 1913 kamen 1.204 Gäste in das Haus von Otto.", "de")
    assert not facts.names
    assert "1204" in facts.keys


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2014年5月12日", {"2014", "5", "12"}), ("٣٤ كتابا", {"34"}), ("3,5 millions et 1.204", {"3.5", "1204"})],
)
def test_other_scripts_and_conventions(text, expected):
    assert expected <= extract(text, "fr").keys


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300), st.sampled_from(["en", "de", "fr", "ja", "und", ""]))
def test_any_text_is_read_and_spans_lie_in_it(text, language):
    facts = extract(text, language)
    for fact in (*facts.numbers, *facts.names):
        assert 0 <= fact.start < fact.end <= len(text)
    assert isinstance(facts, Facts)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**12))
def test_thousands_separators_do_not_matter(number):
    assert extract(f"there were {number:,} of them").keys == extract(f"there were {number} of them").keys


HOSTILE = {
    "capitals": "A ",
    "digits": "9",
    "dashes": "1-",
    "particles": "A of of of ",
    "number words": "two hundred and ",
    "months": "May 5 and ",
    "units": "9 sq km ",
    "list": "\n- 1. ",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_takes_linear_time(unit):
    def seconds(length: int) -> float:
        text = (unit * (length // len(unit) + 1))[:length]
        start = time.process_time()
        extract(text)
        return time.process_time() - start

    small = max(min(seconds(40_000) for _ in range(3)), 1e-3)
    assert min(seconds(320_000) for _ in range(2)) < 8 * small * 4


def test_ten_megabytes_are_read():
    start = time.process_time()
    facts = extract("then of an old man in a Small Town it was said " * 220_000 + " 1,204")
    assert "1204" in facts.keys
    assert time.process_time() - start < 60


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("the 3rd gate", ["3rd"]),
        ("on the Twenty-third try", ["Twenty-third"]),
        ("the hundredth visitor", ["hundredth"]),
        ("two 5ths of it", ["5ths"]),
        ("two thousand soldiers and 12 horses", []),
    ],
)
def test_what_tells_a_place_is_known_from_what_counts(text, places):
    facts = extract(text, "en").numbers
    assert [text[fact.start : fact.end] for fact in facts if is_ordinal(text, fact)] == places and facts

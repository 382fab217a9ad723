from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.judges.facts.compare import MAX_COMPARED, MAX_SENTENCES, doubts, may_contradict, sentences
from tokenmill.judges.facts.units import READ

from tests.judges.facts.equivalents import DIFFERENT, SAME


def clear(source: str, rewrite: str, context: str = "", language: str = "en") -> list[str]:
    return [d.kind for d in doubts(source, rewrite, context, language) if d.clear]


@pytest.mark.parametrize(("language", "one", "other"), SAME)
def test_equivalents_raise_no_doubt(language: str, one: str, other: str) -> None:
    for source, rewrite in ((one, other), (other, one)):
        assert not doubts(f"{source}.", f"{rewrite}.", "", language)


@pytest.mark.parametrize(("language", "source", "rewrite"), DIFFERENT)
def test_contradictions_are_clear(language: str, source: str, rewrite: str) -> None:
    assert clear(source, rewrite, "", language)
    assert clear(rewrite, source, "", language)


@pytest.mark.parametrize(("language", "source", "rewrite"), DIFFERENT)
def test_no_contradiction_is_passed_over_by_the_quick_look(language: str, source: str, rewrite: str) -> None:
    assert may_contradict(source, rewrite, "", language) and may_contradict(rewrite, source, "", language)


def test_the_quick_look_passes_what_adds_nothing_but_grammar() -> None:
    assert not may_contradict(
        "He went to Bergen with 12 men in 1956.", "In 1956, one of a dozen men, he went to Bergen."
    )


def test_a_clear_doubt_tells_what_it_contradicts() -> None:
    (doubt,) = [d for d in doubts("He went to Bergen by train.", "He went to Oslo by train.") if d.clear]
    assert (doubt.kind, doubt.text, doubt.counterpart, doubt.start) == ("name_added", "Oslo", "Bergen", 11)


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("There were 12 men and 9 women.", "There were 21 people: 12 men and 9 women."),
        ("A place costs 150 dollars a month.", "A second one costs double, 300 dollars a month."),
        ("He was born in 1850 and died in 1920.", "He was born in 1850 and died in 1920, after 70 years."),
        ("The bridge fell.", "The bridge fell in 1956."),
        ("He plays.", "He plays in Bergen."),
    ],
)
def test_what_may_follow_from_the_source_is_no_contradiction(source: str, rewrite: str) -> None:
    assert not clear(source, rewrite)


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("The club from Bergen played 45 games.", "There were 46 people in the boat."),
        ("He sailed from Bergen on a Friday.", "A man called Oslo had been born there."),
        ("The first artist with two shows in the city.", "In the city the artist broke three records."),
        ("It took two hours to walk the 5 miles.", "The walk of 5 hours ended there."),
    ],
)
def test_a_fact_in_another_place_is_no_contradiction(source: str, rewrite: str) -> None:
    assert not clear(source, rewrite)


def test_ordinary_words_with_a_capital_contradict_no_name() -> None:
    assert not clear("He told them, Why do you go to Bergen?", "He told them, Wherefore do you go to Bergen?")
    assert clear("He told them to go to Bergen.", "He told them to go to Tromso.") == ["name_added"]


def test_an_addition_and_a_loss_are_doubts() -> None:
    found = {(d.kind, d.text, d.in_source) for d in doubts("There were 45 men in Bergen.", "The men built 78 boats.")}
    assert {("number_added", "78", False), ("number_lost", "45", True), ("name_lost", "Bergen", True)} <= found


def test_the_context_has_facts_too() -> None:
    assert doubts("He came.", "He came in 1956.")
    assert not doubts("He came.", "He came in 1956.", "The summer of 1956")


@given(st.text(max_size=200), st.sampled_from(READ))
@settings(max_examples=100, deadline=None)
def test_a_text_agrees_with_itself(text: str, language: str) -> None:
    assert not doubts(text, text + " ", "", language)


@given(
    st.lists(
        st.sampled_from([(a, b) for language, a, b in SAME if language == "en"]), min_size=1, max_size=6, unique=True
    )
)
@settings(max_examples=100, deadline=None)
def test_numbers_told_otherwise_are_no_contradiction(chosen: list[tuple[str, str]]) -> None:
    source = " ".join(f"Here they wrote {one}." for one, _ in chosen)
    rewrite = " ".join(f"Here they wrote {other}." for _, other in chosen)
    assert not clear(source, rewrite)


def test_thousands_of_numbers_are_compared_by_their_values() -> None:
    source = " ".join(f"{n} apples." for n in range(1, 4 * MAX_COMPARED))
    assert not doubts(source, source.replace("apples", "pears"))
    assert "number_added" in {d.kind for d in doubts(source, source + " 99,999 pears.")}


def test_the_sentences_of_a_text_are_bounded() -> None:
    assert [("One. Two!")[s:e] for s, e in sentences("One. Two!")] == ["One.", " Two!"]
    assert len(sentences("So it is. " * (2 * MAX_SENTENCES))) == MAX_SENTENCES

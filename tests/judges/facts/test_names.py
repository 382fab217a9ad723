from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.judges.facts.names import MAX_NAMES, Name, alike, names, ordinary, unknown


def words(text: str, *others: str, language: str = "en") -> list[str]:
    return [name.word for name in unknown(text, *others, language=language)]


@pytest.mark.parametrize(
    ("language", "source", "rewrite"),
    [
        ("en", "It orbits the Moon.", "It is in lunar orbit, near the Moon."),
        ("en", "The lunar surface is dry.", "The surface of the Moon is dry."),
        ("en", "The tax is due.", "Put in plain English, the tax is due."),
        ("en", "He lived in Germany.", "He was a German."),
        ("en", "They saw Rome.", "They saw the Roman capital."),
        ("en", "He works for the World Health Organization.", "He works for the WHO."),
        ("en", "It was 27 °C.", "It was 27 degrees Celsius."),
        ("en", "the bridge fell", "The bridge fell. Afterwards, it was rebuilt."),
        ("en", "he ran", "# How He Ran\n\nHe ran."),
        ("ru", "Иван Петров приехал.", "Приехал брат, Ивана Петрова сын."),
        ("fr", "Il vit à Paris.", "C'est à Paris qu'il vit."),
        ("de", "Er wohnt hier.", "Das Haus ist seine Wohnung."),
    ],
)
def test_another_form_of_a_name_is_no_new_name(language: str, source: str, rewrite: str) -> None:
    assert words(rewrite, source, language=language) == []


@pytest.mark.parametrize(
    ("language", "source", "rewrite", "new"),
    [
        ("en", "He went to Bergen.", "He went to Oslo.", ["Oslo"]),
        ("en", "He spoke.", "He spoke English.", ["English"]),
        ("ru", "Он был в Москве.", "Он был в Твери.", ["Твери"]),
        ("zh", "他用电脑。", "他用Windows电脑。", ["Windows"]),
        ("en", "Anna came.", "There came Ann and Bob.", ["Ann", "Bob"]),
    ],
)
def test_another_name_is_told(language: str, source: str, rewrite: str, new: list[str]) -> None:
    assert words(rewrite, source, language=language) == new


def test_what_the_context_names_is_no_addition() -> None:
    assert words("Then Boulter came.", "Then he came.", "Robert Boulter") == []


def test_ordinary_words_are_those_of_the_dictionary() -> None:
    assert ordinary("Houses") and ordinary("walked") and not ordinary("Kershaw")


@given(st.text(max_size=120), st.text(max_size=120), st.sampled_from(("en", "ru", "de", "zh", "und")))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read(text: str, other: str, language: str) -> None:
    assert all(text[n.start : n.end] == n.word for n in names(text, language))
    assert unknown(text, text, language=language) == []
    assert {n.word for n in unknown(text, other, language=language)} <= {n.word for n in names(text, language)}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Nahshon", "Naashon", True),
        ("Paddan", "Padan-aram", True),
        ("Bergen", "Oslo", False),
        ("Iddo", "Jadau", False),
    ],
)
def test_spellings_of_one_name_are_alike(one: str, other: str, same: bool) -> None:
    assert alike(Name(0, 1, one, False), Name(0, 1, other, False)) == same


def test_the_names_of_a_text_are_bounded() -> None:
    assert len(names(" ".join(f"Qu{'z' * (i % 90)}{'k' * (i // 90)}" for i in range(3 * MAX_NAMES)))) == MAX_NAMES

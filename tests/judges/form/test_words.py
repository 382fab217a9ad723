"""Shared n-grams, and the quick looks before them: those may say yes too often, never no where the n-grams say yes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from tokenmill.judges.form.substrings import Hints
from tokenmill.judges.form.words import (
    N,
    ngrams,
    repeats,
    runs_of_known,
    shared_ngrams,
    shared_with_prompt,
    vocabulary,
    words,
)

TEXTS = st.lists(
    st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "one,", "two.", "12", "é", "日本", "x-y"]),
    max_size=60,
).map(" ".join)


@given(TEXTS, TEXTS, st.integers(0, 40))
@example("a 日本 a a a a a", "a 日本 a a a a a", 0)  # eight words in 14 characters: 日 and 本 need no space
def test_texts_that_share_an_ngram_may_share_one(text, other, start):
    borrowed = f"{other} {' '.join(text.split()[start : start + 2 * N])}"
    for known in (other, borrowed):
        assert runs_of_known(text, vocabulary(known)) or not ngrams(text) & ngrams(known)
        assert shared_ngrams(text, known) == shared_with_prompt(text, known) == ngrams(text) & ngrams(known)
    assert not runs_of_known("a b c d e f g", vocabulary("a b c d e f g")), "seven words make no n-gram"


@given(TEXTS, st.integers(1, 20))
def test_a_text_that_repeats_ngrams_repeats_trigrams(text, least):
    total = max(0, len(words(text)) - N + 1)
    assert repeats(text, least) or total - len(ngrams(text)) < least


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=6), st.text(max_size=40))
def test_hints_find_what_a_search_for_each_finds(hints, text):
    assert Hints(hints)(text) == any(hint in text for hint in hints)


def test_half_a_surrogate_pair_hides_no_hint():
    assert Hints(["abc"])("x\ud800abc") and not Hints(["abc"])("x\ud800ab")

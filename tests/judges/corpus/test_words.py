"""One tokenisation, as arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.corpus.words import Words


def told(text: str) -> list[str]:
    words = Words(text)
    return [words.span(i, i) for i in range(words.count)]


def test_words_are_runs_of_letters_and_digits_and_single_ideographs():
    assert told("The cat—don't sat, 日本語 on mat9. Ąé\u0301 'so' 1,234.5.") == [
        "The", "cat", "don't", "sat", "日", "本", "語", "on", "mat9", "Ąé\u0301", "so", "1,234.5",
    ]  # fmt: skip
    assert told("") == told(" …\n") == []


def test_tokens_are_words_with_what_joins_them_and_ellipses():
    tokens = Words("Wait... (no) don't!? 日本 well-known f(x) std::io and/or 2019-20 end--now ").tokens
    assert [tokens.span(i, i) for i in range(tokens.count)] == [
        "Wait", "...", "(", "no", ")", "don't", "!", "?", "日", "本", "well", "-", "known", "f(x", ")", "std::io", "and", "/",
        "or", "2019-20", "end", "-", "-", "now",
    ]  # fmt: skip
    assert (tokens.lettered, int(tokens.worded.sum()), Words("a 1 ,").lettered) == (13, 14, 1)
    assert Words("").tokens.count == Words(" \n").tokens.count == 0
    assert tokens.hashes[0] == Words("wait").hashes[0]


def test_equal_words_have_equal_hashes_whatever_their_case_and_place():
    words = Words("Alpha beta ALPHA gamma, beta! straße")
    assert words.hashes[0] == words.hashes[2] and words.hashes[1] == words.hashes[4]
    assert len(set(words.hashes.tolist())) == 4


def test_hashes_are_the_same_in_every_process():
    assert Words("the cat").hashes.tolist() == [17357140401427252685, 8685989596267980918]


@given(st.lists(st.sampled_from(["a", "b", "ab", "日", "x1"]), max_size=30), st.integers(1, 6))
def test_grams_are_equal_exactly_where_their_words_are(listed, n):
    words = Words(" ".join(listed))
    runs = [tuple(listed[i : i + n]) for i in range(len(listed) - n + 1)]
    assert len(words.grams(n)) == len(runs)
    assert len(np.unique(words.grams(n))) == len(set(runs))

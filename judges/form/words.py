"""Words and word n-grams as the form checks compare them; computed once for the several checks of a pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from functools import lru_cache

# Scripts written without spaces: every character counts as a word, or one sentence would be a single word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_ASCII_GAPS = {code: " " for code in range(128) if not chr(code).isalnum()}
_LARGE = 50_000  # characters: the words of longer texts are kept only until `release`

N = 8
"""Length of the n-grams by which copying, leaking and looping are recognised."""
_RUN = bytes([True] * N)


def split(text: str) -> list[str]:
    """Words in their spelling, punctuation dropped; one character of an unspaced script is one word."""
    return text.translate(_ASCII_GAPS).split() if text.isascii() else _WORD.findall(text)


def words(text: str) -> list[str]:
    """Lower-case words, as many and in the same places as `split` gives. Shared: do not modify."""
    return _large_words(text) if len(text) > _LARGE else _small_words(text)


def ngrams(text: str) -> frozenset[tuple[str, ...]]:
    """The distinct word n-grams of length `N`."""
    return _large_ngrams(text) if len(text) > _LARGE else _small_ngrams(text)


def shared_ngrams(text: str, other: str) -> frozenset[tuple[str, ...]]:
    """The n-grams that two texts have in common. They are made only where there may be any."""
    if len(other) < N or len(words(other)) < N:  # characters, and words: too short for one
        return frozenset()
    there = runs_of_known(text, vocabulary(other))
    return there & ngrams(other) if there else there


def shared_with_prompt(text: str, prompt_text: str) -> frozenset[tuple[str, ...]]:
    """The same for our own wording, of which there are few and which come again with every document."""
    return runs_of_known(text, _lasting_vocabulary(prompt_text)) & _lasting_ngrams(prompt_text)


def vocabulary(text: str) -> frozenset[str]:
    """The distinct words."""
    return _large_vocabulary(text) if len(text) > _LARGE else _small_vocabulary(text)


def runs_of_known(text: str, known: Set[str]) -> frozenset[tuple[str, ...]]:
    """The n-grams of a text all of whose words are in a vocabulary: few texts have any, and only such can be shared."""
    tokens = words(text)
    there = bytes(map(known.__contains__, tokens))
    at, found = there.find(_RUN), []
    while at >= 0:
        found.append(tuple(tokens[at : at + N]))
        at = there.find(_RUN, at + 1)
    return frozenset(found)


def repeats(text: str, least: int) -> bool:
    """Whether at least `least` n-grams may be repetitions of earlier ones: then as many trigrams are."""
    tokens = words(text)
    return len(tokens) - 2 - len(set(zip(tokens, tokens[1:], tokens[2:], strict=False))) >= least


def release() -> None:
    """Forget large texts: call it when done with a pair."""
    if _large_words.cache_info().currsize:
        _large_words.cache_clear()
        _large_ngrams.cache_clear()
        _large_vocabulary.cache_clear()


def unspaced(text: str) -> bool:
    """Whether most words are single characters of a script without spaces."""
    return not text.isascii() and sum(map(len, words(text))) < 2 * len(words(text))


def _words(text: str) -> list[str]:
    return text.lower().translate(_ASCII_GAPS).split() if text.isascii() else list(map(str.lower, _WORD.findall(text)))


def _ngrams(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(sequence(words(text)))


def _vocabulary(text: str) -> frozenset[str]:
    return frozenset(words(text))


def sequence(tokens: list[str]) -> Iterator[tuple[str, ...]]:
    """All n-grams of a word list, in order."""
    return zip(*(tokens[i:] for i in range(N)), strict=False)


_small_words, _large_words = lru_cache(maxsize=32)(_words), lru_cache(maxsize=4)(_words)
_small_ngrams, _large_ngrams = lru_cache(maxsize=32)(_ngrams), lru_cache(maxsize=4)(_ngrams)
_lasting_ngrams = lru_cache(maxsize=512)(_ngrams)
_small_vocabulary, _large_vocabulary = lru_cache(maxsize=32)(_vocabulary), lru_cache(maxsize=4)(_vocabulary)
_lasting_vocabulary = lru_cache(maxsize=512)(_vocabulary)

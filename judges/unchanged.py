"""A quick look that settles the coverage of most honest rewrites: the same numbers with the same units, no other names.

It only ever says yes where the full reading of facts (`judges.facts`) would find nothing either; whatever it does not
understand at a glance (dates in words, ranges, currencies, abbreviations, other scripts) it leaves to that.
"""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase, digits
from typing import NamedTuple

from judges.fact_text import canonical, split_words
from judges.fact_words import (
    DECADES,
    FUNCTION_WORDS,
    IMPLIED,
    LONG_UNITS,
    MONTHS,
    NUMBER_WORDS,
    SCALES,
    SHORT_SCALES,
    UNIT_PREFIXES,
    UNITS,
    ordinary,
)
from judges.negation import denies, negations_changed

_CLOSER_WORDS = frozenset(
    [*NUMBER_WORDS, *IMPLIED, *DECADES, *SCALES, *SHORT_SCALES]
    + [word for pair in LONG_UNITS for word in pair if word not in UNITS and word not in UNIT_PREFIXES]
    + ["century", "centuries", "bc", "bce", "ad", "ce", "am", "pm", "bn", "mn"]
) - {"one", "first"}
"""Words that take a closer look. "one" and "first" matter only beside the number 1."""
_SHAPES = str.maketrans(
    {
        **dict.fromkeys(digits, "0"),
        **dict.fromkeys(ascii_lowercase, "a"),
        **dict.fromkeys(ascii_uppercase, "A"),
    }
)
"""Digits, small letters and capitals, all the same: what is found in a shape costs no regular expression."""
_CLOSER_SHAPES = ("0-0", "0:0", "0/0", "a0", "A0", "0a", "0A", "$", "%", "[", "A. ", ": ", ":\n", "://")
"""Ranges, scores, fractions, codes, money, initials, labels, addresses."""
_JOINED_SHAPES = tuple(f"{mark}{after}" for mark in ".&'-" for after in "aA0")
_JOINED = re.compile(r"[A-Z]\w*[.&'-]\w|www\.")
"""Capitalised words with more in them than letters."""
_NUMBERED_LINE = re.compile(r"\W*\d+[.)](?:\s|$)")
_BESIDE_NUMBERS = frozenset([*MONTHS, *UNIT_PREFIXES]) - _CLOSER_WORDS
"""Words that take one only beside a number: in "the square of Porto" and "Jan Sobieski" they are words like others."""
_BESIDE = 9
_DIGITS = frozenset(digits)
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)*) ?([a-z]*)")
_CAPITAL = re.compile(r"[A-Z]\w*")
_BEGINNINGS = frozenset(["", ". ", "? ", "! ", "\n", "\n\n", '"'])


class _Look(NamedTuple):
    words: frozenset[str]
    numbers: frozenset[tuple[str, str]]
    names: frozenset[str]
    """Capitalised words inside sentences."""
    firsts: frozenset[str]
    """Capitalised words that begin a sentence."""


def plainly_covers(source: str, rewrite: str) -> bool:
    """Whether two English texts state, at a glance, the same numbers and names. False says nothing."""
    before = _look(source)
    if before is None:
        return False
    after = _look(rewrite)
    if after is None or before.numbers != after.numbers:
        return False
    if not (before.names <= after.words and after.names <= before.words):
        return False
    if not (_common(before.firsts - after.words) and _common(after.firsts - before.words)):
        return False
    return not ((denies(before.words) or denies(after.words)) and any(negations_changed(source, rewrite)))


def _common(words: frozenset[str]) -> bool:
    return all(word in FUNCTION_WORDS or ordinary(word) for word in words)


def _look(text: str) -> _Look | None:
    if not text.isascii() or _intricate(text):
        return None
    words = frozenset(split_words(text))
    if not words.isdisjoint(_CLOSER_WORDS):
        return None
    if not words.isdisjoint(_BESIDE_NUMBERS) and _beside_numbers(text, words & _BESIDE_NUMBERS):
        return None
    numbers = frozenset([(canonical(number), UNITS.get(after, "")) for number, after in _NUMBER.findall(text)])
    if ("1", "") in numbers:
        return None
    names, firsts = [], []
    for match in _CAPITAL.finditer(text):
        start, word = match.start(), match[0]
        if text[max(0, start - 2) : start] in _BEGINNINGS:
            if len(word) > 1 and word.isupper():
                return None
            firsts.append(word.lower())
        else:
            names.append(word.lower())
    return _Look(words, numbers, frozenset(names), frozenset(firsts))


def _intricate(text: str) -> bool:
    shape = text.translate(_SHAPES)
    if any(map(shape.__contains__, _CLOSER_SHAPES)) or shape.endswith(":"):
        return True
    if any(map(shape.__contains__, _JOINED_SHAPES)) and _JOINED.search(text):
        return True
    return any(line.startswith("#") or _NUMBERED_LINE.match(line) for line in text.split("\n"))


def _beside_numbers(text: str, words: frozenset[str]) -> bool:
    """Whether a month stands within a few characters of a digit, or the beginning of a unit right after one."""
    lower = text.lower()
    for word in words:
        at = lower.find(word)
        while at >= 0:
            end = at + len(word)
            before, after = (_BESIDE, _BESIDE) if word in MONTHS else (3, 0)
            if not _DIGITS.isdisjoint(lower[max(0, at - before) : at]) or not _DIGITS.isdisjoint(
                lower[end : end + after]
            ):
                return True
            at = lower.find(word, end)
    return False

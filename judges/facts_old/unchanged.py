"""A quick look that settles the coverage of most honest rewrites: the same numbers with the same units, no other names.

It only ever says yes where the full reading of facts (`judges.facts.extract`) would find nothing either; whatever it does not
understand at a glance (dates in words, ranges, currencies, abbreviations, other scripts) it leaves to that.
"""

from __future__ import annotations

import re
from string import digits
from typing import NamedTuple

from tokenmill.judges.facts.names import serves_as_name
from tokenmill.judges.facts.negation import denies, negations_changed
from tokenmill.judges.facts.places import plainly_placed
from tokenmill.judges.facts.tables import (
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
from tokenmill.judges.facts.text import COMPOUND, canonical
from tokenmill.judges.form.substrings import Hints
from tokenmill.judges.form.words import vocabulary

_CLOSER_WORDS = frozenset(
    [*NUMBER_WORDS, *IMPLIED, *DECADES, *SCALES, *SHORT_SCALES]
    + [word for pair in LONG_UNITS for word in pair if word not in UNITS and word not in UNIT_PREFIXES]
    + ["century", "centuries", "bc", "bce", "ad", "ce", "am", "pm", "bn", "mn"]
) - {"one", "first"}
"""Words that take a closer look. "one" and "first" matter only beside the number 1."""
_INTRICATE = Hints(
    patterns=(
        r"\d[-:/]\d|[A-Za-z]\d|\d[A-Za-z]",  # ranges, scores, fractions, codes
        r"[A-Z]\. ",  # initials
        r":(?:\s|//|\z)",  # labels, addresses
        r"[A-Z]\w*[.&'-]\w|www\.",  # capitalised words with more in them than letters
        r"(?m:^#)|(?m:^\W*\d+[.)](?:\s|$))",  # headings, numbered lines
        r"[][$%+<=>@\\^`{|}~]",  # money, and marks that do not always part words
    )
)
_BESIDE_NUMBERS = frozenset([*MONTHS, *UNIT_PREFIXES]) - _CLOSER_WORDS
"""Words that take one only beside a number: in "the square of Porto" and "Jan Sobieski" they are words like others."""
_BESIDE = 9
_DIGITS = frozenset(digits)
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)*) ?([a-z]*)((?: (?:per|an) h| (?:[Cc](?:elsius)?|[Ff](?:ahrenheit)?)\b)?)")
"""Digits, the word after them, and what may turn a unit into another: "miles per hour", "degrees Celsius"."""
_CAPITAL = re.compile(r"[A-Z]\w*")
_FIRST = re.compile(r"[.?!\n][ \n]([A-Z]\w*)")


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
    strange = after.firsts - before.words
    if not (_common(before.firsts - after.words) and _common(strange)):
        return False
    if strange and any(
        word[0].lower() in strange and serves_as_name(rewrite, *word.span()) for word in _CAPITAL.finditer(rewrite)
    ):
        return False
    if (denies(before.words) or denies(after.words)) and any(negations_changed(source, rewrite)):
        return False
    return plainly_placed(source, rewrite)


def _common(words: frozenset[str]) -> bool:
    return all(word in FUNCTION_WORDS or ordinary(word) for word in words)


def _look(text: str) -> _Look | None:
    if not text.isascii() or _INTRICATE(text):
        return None
    words = vocabulary(text)
    if not words.isdisjoint(_CLOSER_WORDS):
        return None
    if not words.isdisjoint(_BESIDE_NUMBERS) and _beside_numbers(text, words & _BESIDE_NUMBERS):
        return None
    numbers = frozenset(
        [
            (
                number if number.isdecimal() and number[0] != "0" else canonical(number),
                unit + rest if (unit := UNITS.get(after, "")) in COMPOUND else unit,
            )
            for number, after, rest in _NUMBER.findall(text)
        ]
    )
    if ("1", "") in numbers:
        return None
    capitals, firsts = _CAPITAL.findall(text), _FIRST.findall(f"\n\n{text}")
    beginnings = set(firsts)
    if any(len(word) > 1 and word.isupper() for word in beginnings):
        return None
    names = set(capitals) - beginnings
    names.update(word for word in beginnings if capitals.count(word) > firsts.count(word))
    return _Look(words, numbers, _lower(names), _lower(beginnings))


def _lower(words: set[str]) -> frozenset[str]:
    return frozenset(" ".join(words).lower().split())


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

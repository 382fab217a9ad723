"""A quick look that settles the coverage of most honest rewrites: the same numbers with the same units, no other names.

It only ever says yes where the full reading of facts (`judges.facts`) would find nothing either; whatever it does not
understand at a glance (dates in words, ranges, currencies, abbreviations, other scripts) it leaves to that.
"""

from __future__ import annotations

import re
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
from judges.negation import negations_changed

_CLOSER_WORDS = frozenset(
    [*NUMBER_WORDS, *IMPLIED, *DECADES, *SCALES, *SHORT_SCALES]
    + [word for pair in LONG_UNITS for word in pair if word not in UNITS and word not in UNIT_PREFIXES]
    + ["century", "centuries", "bc", "bce", "ad", "ce", "am", "pm", "bn", "mn"]
) - {"one", "first"}
"""Words that take a closer look. "one" and "first" matter only beside the number 1."""
_CLOSER = re.compile(
    r"\d[-:/]\d|[A-Za-z]\d|\d[A-Za-z]|[$%\[]|[A-Z]\w*[.&'-]\w|https?:|www\.|[A-Z]\. |^\W*\d+[.)]\s|:\s|:$|^#",
    re.MULTILINE,
)
_BESIDE_NUMBERS = frozenset([*MONTHS, *UNIT_PREFIXES]) - _CLOSER_WORDS
"""Words that take one only beside a number: in "the square of Porto" and "Jan Sobieski" they are words like others."""
_BESIDE = "|".join(sorted(_BESIDE_NUMBERS, key=len, reverse=True))
_BESIDE_NUMBER = re.compile(
    rf"\d\w{{0,2}}[\s,.-]{{1,2}}(?:(?:of|the)\s){{0,2}}(?:{_BESIDE})|\b(?:{_BESIDE})\W{{1,2}}(?:of\s)?(?:the\s)?\d",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)*) ?([a-z]*)")
_CAPITAL = re.compile(r"[A-Z]\w*")
_NEGATIONS = frozenset(["not", "never", "cannot", "t"])
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
    if not (_NEGATIONS.isdisjoint(before.words) and _NEGATIONS.isdisjoint(after.words)):
        if any(negations_changed(source, rewrite)):
            return False
    return _common(before.firsts - after.words) and _common(after.firsts - before.words)


def _common(words: frozenset[str]) -> bool:
    return all(word in FUNCTION_WORDS or ordinary(word) for word in words)


def _look(text: str) -> _Look | None:
    if not text.isascii() or _CLOSER.search(text):
        return None
    words = frozenset(split_words(text))
    if not words.isdisjoint(_CLOSER_WORDS):
        return None
    if not words.isdisjoint(_BESIDE_NUMBERS) and _BESIDE_NUMBER.search(text):
        return None
    numbers = frozenset([(canonical(digits), UNITS.get(after, "")) for digits, after in _NUMBER.findall(text)])
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

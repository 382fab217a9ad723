"""Reads the numbers, dates and measures of a text: figures, words and numerals of several languages.

Each kind has its module: `times` dates and the clock, `figures` numbers in figures, `spelled` those in words and numerals;
`measures` says what a number measures. Every pass is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import compress, count, islice

from tokenmill.judges.facts import spelled, times
from tokenmill.judges.facts.figures import figures
from tokenmill.judges.facts.quantity import Quantity
from tokenmill.judges.facts.scan import Scan
from tokenmill.judges.facts.units import READ

MAX_QUANTITIES = 2_000
"""Numbers of one text that are read; a table of more is for the judge."""
_JOINED = re.compile(r",? ?(?:and|und|et|y|и)? ?")


def read(text: str, language: str = "en") -> tuple[Quantity, ...]:
    """The quantities of a text, by place, `MAX_QUANTITIES` at most. A language that is not among `READ` is read as English is."""
    return _read(text, language[:2] if language[:2] in READ else "en")


@lru_cache(maxsize=64)
def _read(text: str, language: str) -> tuple[Quantity, ...]:
    found = sorted(islice(_all(Scan(text, language)), MAX_QUANTITIES), key=lambda q: (q.start, -q.end))
    kept: list[Quantity] = []
    for quantity in found:
        if kept and quantity.end <= kept[-1].end:
            continue
        beside = kept and _JOINED.fullmatch(text, kept[-1].end, max(quantity.start, kept[-1].end))
        if beside and (joined := _together(kept[-1], quantity)):
            kept[-1] = joined
        else:
            kept.append(quantity)
    return tuple(kept)


@lru_cache(maxsize=16)
def _beginnings(language: str) -> tuple[frozenset[str], frozenset[str]]:
    dated, counted = times.first_words(language), spelled.beginnings(language)
    return dated | counted, dated


def _all(scan: Scan) -> Iterator[Quantity]:
    """Every quantity, some of them inside another: the longest at a place is the one that counts."""
    known, dated = _beginnings(scan.language)
    # Most words of a text begin none.
    candidates = list(compress(count(), map(known.__contains__, scan.words)))
    yield from times.dates(scan, [i for i in candidates if scan.words[i] in dated])
    yield from figures(scan)
    yield from spelled.spelled(scan, candidates)
    if scan.cjk:
        yield from spelled.cjk_numerals(scan)
    yield from spelled.romans(scan)


def _together(one: Quantity, other: Quantity) -> Quantity | None:
    """ "2 hours 14 minutes" is one duration, "5 feet 9 inches" one length."""
    for dimension, amount, size in one.readings:
        for also, more, smaller in other.readings:
            if dimension == also and dimension in ("duration", "length", "mass") and smaller < size:
                return Quantity(one.start, other.end, ((dimension, amount + more, smaller),), one.strong, one.about)
    return None

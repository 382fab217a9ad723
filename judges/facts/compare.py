"""What code finds unmatched between a text and its rewrite: evidence for a judge, and a refusal only where it is plain.

A fact of the rewrite that its source does not have is an addition: true or not, implied or invented, a reader must say.
It is a contradiction where the sentence of the source that says the same has a fact of the same sort in its place, which
the rewrite does not have: "A$22,000" for "US$22,000", "Oslo" for "Bergen". Code refuses for contradictions alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise

from tokenmill.judges.facts import names as naming
from tokenmill.judges.facts.quantities import read
from tokenmill.judges.facts.quantity import Quantity

MAX_COMPARED = 150
"""Different quantities of a text that are compared by their readings; with more, only equal readings match."""
MAX_PLACED = 40
"""Unmatched numbers, and names, for which the sentence of the source is looked for."""
_BESIDE = 4
"""Content words on either side of a fact by which its place is known."""
MAX_SENTENCES = 500
"""Sentences of a text among which it is looked for."""
_SENTENCE = re.compile(r"(?:[^\n.!?。！？]|[.!?](?=[\w,;:]))+[.!?。！？]*[\"”’」』)*]*")
_WORD = re.compile(r"[^\W_]+")
_YEAR = 365.25 * 86400
_CJK = re.compile("[\u3040-\u9fff]")


@dataclass(frozen=True)
class Doubt:
    """A fact of one text that the other does not have."""

    kind: str
    text: str
    """The fact as it stands."""
    in_source: bool
    start: int
    end: int
    clear: bool
    """Whether it contradicts the other text: code alone may refuse for it."""
    counterpart: str = ""
    """What stands in its place in the other text."""
    weak: bool = False
    """Whether it may be mere grammar ("one", "the second"), which is asked about no one."""

    @property
    def asked(self) -> bool:
        """Whether a judge is asked about it."""
        return not self.clear and not self.weak


def doubts(source: str, rewrite: str, context: str = "", language: str = "en") -> list[Doubt]:
    """Everything unmatched, in both directions."""
    if source == rewrite:
        return []
    return [*_quantities(source, rewrite, context, language), *_names(source, rewrite, context, language)]


def may_contradict(source: str, rewrite: str, context: str = "", language: str = "en") -> bool:
    """Whether any of `doubts` may be clear, for a good deal less than it takes to find them all: only what the rewrite adds can
    be, where it is no mere grammar."""
    told = source, rewrite, context, language
    return source != rewrite and (
        any(not same and (quantity.strong or quantity.measured) for quantity, same in _fresh(*told))
        or any(_plain(name, language) for name in _added(*told))
    )


class _Pool:
    """Quantities to look others up in, each different one once."""

    def __init__(self, quantities: Iterable[Quantity]) -> None:
        self.by_readings: dict[tuple[object, ...], Quantity] = {}
        for q in quantities:
            key = q.readings if q.about else (q.readings,)  # an approximation also matches what is near
            self.by_readings.setdefault(key, q)
        self._different = list(self.by_readings.values())
        self._readings: frozenset[object] | None = None

    def same(self, quantity: Quantity) -> list[Quantity]:
        """Those that may mean the same."""
        for key in ((quantity.readings,), quantity.readings):
            if equal := self.by_readings.get(key):
                return [equal]
        if len(self._different) > MAX_COMPARED:
            if self._readings is None:
                self._readings = frozenset(reading for q in self._different for reading in q.readings)
            return [quantity] if not self._readings.isdisjoint(quantity.readings) else []
        return [other for other in self._different if quantity.same_as(other)]


def _quantities(source: str, rewrite: str, context: str, language: str) -> list[Doubt]:
    before, after = read(source, language), read(rewrite, language)
    around = read(context, language) if context else ()
    here = _Pool(after)
    lost = [q for q in before if not here.same(q)]
    found: dict[tuple[str, str], Doubt] = {}
    placed = 0
    for quantity, same in _fresh(source, rewrite, context, language):
        clash = next((other for other in lost[:MAX_COMPARED] if not same and quantity.other_unit_than(other)), None)
        if clash is None and not same and _between_years(quantity, (*before, *around)):
            continue
        text = rewrite[quantity.start : quantity.end]
        kind = "unit_changed" if clash else f"{quantity.kind}_added"
        if (kind, text) in found:
            continue
        if clash is None and quantity.strong and not same and placed < MAX_PLACED:
            placed += 1
            clash = _in_its_place(quantity, source, rewrite, before, lost)
        stands = source[clash.start : clash.end] if clash else ""
        least = 2 if "rank" in quantity.dimensions else 1
        weak = not quantity.strong and quantity.readings[0][1] <= least and quantity.dimensions <= {"", "rank"}
        found[kind, text] = Doubt(kind, text, False, quantity.start, quantity.end, clash is not None, stands, weak)
    for quantity in lost:
        if quantity.strong:
            kind, text = f"{quantity.kind}_lost", source[quantity.start : quantity.end]
            found.setdefault((kind, text), Doubt(kind, text, True, quantity.start, quantity.end, False))
    return list(found.values())


@lru_cache(maxsize=32)
def _fresh(source: str, rewrite: str, context: str, language: str) -> list[tuple[Quantity, list[Quantity]]]:
    """Quantities of the rewrite that neither the source nor the context has, each with those that differ only in counting or
    ranking."""
    there = _Pool((*read(source, language), *(read(context, language) if context else ())))
    found = ((quantity, there.same(quantity)) for quantity in read(rewrite, language))
    return [
        (quantity, same)
        for quantity, same in found
        if not any(other.readings == quantity.readings or not quantity.counts_rank(other) for other in same)
    ]


def _between_years(quantity: Quantity, others: Sequence[Quantity]) -> bool:
    """Whether it is the time between two years that the source names."""
    spans = [a / _YEAR for dimension, a, _ in quantity.readings if dimension == "duration" and a > 0.9 * _YEAR]
    if not spans:
        return False
    years = {amount for q in others for d, amount, _ in q.readings if not d and 1000 <= amount <= 2100}
    slack = 2.0 if quantity.about else 1.0
    return any(abs(b - a - span) <= slack for span in spans for a in years for b in years if b > a)


def _in_its_place(
    quantity: Quantity, source: str, rewrite: str, before: Sequence[Quantity], lost: Sequence[Quantity]
) -> Quantity | None:
    """The number that the source has where the rewrite has this one, and which the rewrite has nowhere."""
    for start, end in _places(quantity.start, source, rewrite)[1]:
        alike = [o for o in lost if o.strong and o.comparable(quantity) and not o.counts_rank(quantity)]
        free = [o for o in alike if start <= o.start < end]
        near = [q for q in before if start <= q.start < end or q.dimensions & quantity.dimensions - {"", "duration"}]
        if len({o.readings for o in free}) == 1 and not _worked_out(quantity, near):
            return next((o for o in free if not _clock(quantity, o) and same_place(rewrite, quantity, source, o)), None)
    return None


def _worked_out(quantity: Quantity, there: Sequence[Quantity]) -> bool:
    """Whether it is the sum, the difference, twice or half of numbers of the source, which is for a reader to check."""
    amounts = [a for q in there for dimension, a, _ in q.readings[:1] if not dimension and a > 0][:20]
    wanted = {amount for dimension, amount, _ in quantity.readings if not dimension and amount > 9}
    return any(
        a + b in wanted or abs(a - b) in wanted or 2 * a in wanted or a / 2 in wanted
        for i, a in enumerate(amounts)
        for b in amounts[: i + 1]
    )


def _clock(one: Quantity, other: Quantity) -> bool:
    """Whether the two may be one hour, by a clock of twelve hours and by one of 24: "until six", "until 18"."""
    ones, others = ({a for d, a, _ in q.readings if not d and 0 <= a <= 24} for q in (one, other))
    return any(abs(a - b) == 12 for a in ones for b in others)


def _names(source: str, rewrite: str, context: str, language: str) -> list[Doubt]:
    added = _added(source, rewrite, context, language)
    lost = _unmeasured(naming.unknown(source, rewrite, language=language), source, language)
    found = []
    for count, name in enumerate(added):
        clash = _name_in_its_place(name, source, rewrite, lost, language) if count < MAX_PLACED else ""
        found.append(Doubt("name_added", name.word, False, name.start, name.end, clash != "", clash))
    return found + [Doubt("name_lost", n.word, True, n.start, n.end, False) for n in lost if not n.first]


@lru_cache(maxsize=32)
def _added(source: str, rewrite: str, context: str, language: str) -> list[naming.Name]:
    """Names of the rewrite that neither the source nor the context has."""
    return _unmeasured(naming.unknown(rewrite, source, context, language=language), rewrite, language)


def _name_in_its_place(name: naming.Name, source: str, rewrite: str, lost: Sequence[naming.Name], language: str) -> str:
    """The name that the source has where the rewrite has this one, and which the rewrite has nowhere; both plainly names, and not
    two spellings of one."""
    if not _plain(name, language):
        return ""
    places = _places(name.start, source, rewrite)[1]
    free = [o for o in lost if _plain(o, language) and any(start <= o.start < end for start, end in places)]
    return next((o.word for o in free if not naming.alike(o, name) and same_place(rewrite, name, source, o)), "")


def _plain(name: naming.Name, language: str) -> bool:
    return not name.first and len(name.word) > 2 and not (language[:2] == "en" and naming.ordinary(name.word))


def _unmeasured(found: list[naming.Name], text: str, language: str) -> list[naming.Name]:
    """Names that are no part of a quantity, as months are."""
    if not found:
        return found
    quantities = read(text, language)
    return [name for name in found if not any(q.start <= name.start < q.end for q in quantities)]


def _places(at: int, source: str, rewrite: str) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """The rewrite's sentence around `at`, and the sentences of the source that share most words with it."""
    own = next((s for s in sentences(rewrite) if s[0] <= at < s[1]), (0, min(len(rewrite), 1_000)))
    return own, aligned(rewrite[own[0] : own[1]], source)


def same_place(text: str, fact: Quantity | naming.Name, other: str, theirs: Quantity | naming.Name) -> bool:
    """Whether two facts stand among the same words: at least two of those next to them agree, or three pairs of characters."""
    shared = _beside(text, fact) & _beside(other, theirs)
    return len(shared) >= (3 if any(map(_CJK.match, shared)) else 2)


def _beside(text: str, fact: Quantity | naming.Name) -> frozenset[str]:
    """Beginnings of the content words next to a fact in its sentence, `_BESIDE` on either side."""
    low, high = next((s for s in sentences(text) if s[0] <= fact.start < s[1]), (fact.start, fact.end))
    before = _ordered(text[max(low, fact.start - 100) : fact.start])
    return frozenset(before[-_BESIDE:] + _ordered(text[fact.end : min(high, fact.end + 100)])[:_BESIDE])


def aligned(sentence: str, text: str, most: int = 2) -> list[tuple[int, int]]:
    """Spans of the sentences of `text` that share most of a sentence's words."""
    words = _content(sentence)
    scored = []
    for (start, end), theirs in zip(sentences(text), _contents(text), strict=True):
        shared = len(words & theirs)
        if shared >= 2 or (shared and shared == len(theirs)):
            scored.append((shared / (1 + len(theirs)) ** 0.5, start, end))
    return [(start, end) for _, start, end in sorted(scored, reverse=True)[:most]]


@lru_cache(maxsize=64)
def _contents(text: str) -> tuple[frozenset[str], ...]:
    return tuple(_content(text[start:end]) for start, end in sentences(text))


def _content(sentence: str) -> frozenset[str]:
    return frozenset(_ordered(sentence))


def _ordered(sentence: str) -> list[str]:
    """Beginnings of the words that carry a sentence, figures among them; pairs of characters in scripts without spaces."""
    if not sentence.isascii() and _CJK.search(sentence, 0, 50):
        return list(map("".join, pairwise(sentence)))
    return [
        word.lower()[:5] for word in _WORD.findall(sentence) if len(word) > 3 or word[0].isupper() or word.isdigit()
    ]


@lru_cache(maxsize=64)
def sentences(text: str) -> tuple[tuple[int, int], ...]:
    """Spans of the sentences of a text, `MAX_SENTENCES` at most."""
    found = (m.span() for m in _SENTENCE.finditer(text) if not m[0].isspace())
    return tuple(islice(found, MAX_SENTENCES))

"""What code finds unmatched between a text and its rewrite: evidence for a judge, and a refusal only where it is plain.

A fact of the rewrite that its source does not have is an addition: true or not, implied or invented, a reader must say.
It is a contradiction where the sentence of the source that says the same has a fact of the same sort in its place, which
the rewrite's sentence does not: "A$22,000" for "US$22,000", "Oslo" for "Bergen". Code refuses for contradictions alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tokenmill.judges.facts import names as naming
from tokenmill.judges.facts.quantities import read
from tokenmill.judges.facts.quantity import Quantity

KINDS = ("number_added", "date_added", "unit_changed", "name_added", "number_lost", "date_lost", "name_lost")
_SENTENCE = re.compile(r"(?:[^\n.!?。！？]|[.!?](?=[\w,;:]))+[.!?。！？]*[\"”’」』)*]*")
_WORD = re.compile(r"[^\W_]+")
_YEAR = 365.25 * 86400


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


def doubts(source: str, rewrite: str, context: str = "", language: str = "en") -> list[Doubt]:
    """Everything unmatched, in both directions."""
    return [*_quantities(source, rewrite, context, language), *_names(source, rewrite, context, language)]


def _quantities(source: str, rewrite: str, context: str, language: str) -> list[Doubt]:
    before, after, around = read(source, language), read(rewrite, language), read(context, language)
    found: dict[tuple[str, str], Doubt] = {}
    years = [amount for q in (*before, *around) for d, amount, _ in q.readings if not d and 1000 <= amount <= 2100]
    for quantity in after:
        same = [other for other in (*before, *around) if quantity.same_as(other)]
        if same and not all(map(quantity.counts_rank, same)):
            continue
        clash = next((other for other in before if quantity.other_unit_than(other)), None)
        if clash is None and not same and _spans(quantity, years):
            continue
        text = rewrite[quantity.start : quantity.end]
        kind = "unit_changed" if clash else f"{quantity.kind}_added"
        if (kind, text) in found:
            continue
        if clash is None and quantity.strong and not same:
            clash = _in_its_place(quantity, source, rewrite, before, after)
        there = source[clash.start : clash.end] if clash else ""
        found[kind, text] = Doubt(kind, text, False, quantity.start, quantity.end, clash is not None, there)
    for quantity in before:
        if quantity.strong and not any(quantity.same_as(other) for other in after):
            text = source[quantity.start : quantity.end]
            found.setdefault(
                (f"{quantity.kind}_lost", text),
                Doubt(f"{quantity.kind}_lost", text, True, quantity.start, quantity.end, False),
            )
    return list(found.values())


def _spans(quantity: Quantity, years: list[float]) -> bool:
    """Whether it is the time between two years that the source names."""
    spans = [
        amount / _YEAR for dimension, amount, _ in quantity.readings if dimension == "duration" and amount > 0.9 * _YEAR
    ]
    slack = 2.0 if quantity.about else 1.0
    return any(abs(b - a - span) <= slack for span in spans for a in years for b in years if b > a)


def _in_its_place(
    quantity: Quantity, source: str, rewrite: str, before: tuple[Quantity, ...], after: tuple[Quantity, ...]
) -> Quantity | None:
    """The number that the source has where the rewrite has this one, and which the rewrite's sentence does not have."""
    _, places = _counterparts(quantity.start, source, rewrite)
    for start, end in places:
        there = [other for other in before if start <= other.start < end]
        free = [o for o in there if o.comparable(quantity) and not any(o.same_as(b) for b in after)]
        if len({o.readings for o in free}) == 1 and not _worked_out(quantity, there):
            return free[0]
    return None


def _worked_out(quantity: Quantity, there: list[Quantity]) -> bool:
    """Whether it is the sum or difference of two numbers of one sentence, which is for a reader to check."""
    amounts = [amount for q in there for dimension, amount, _ in q.readings[:1] if not dimension and amount > 0][:20]
    wanted = {amount for dimension, amount, _ in quantity.readings if not dimension}
    return any(a + b in wanted or abs(a - b) in wanted for i, a in enumerate(amounts) for b in amounts[:i])


def _names(source: str, rewrite: str, context: str, language: str) -> list[Doubt]:
    measured = [(q.start, q.end) for q in read(rewrite, language)]
    found = []
    for name in naming.unknown(rewrite, source, context, language=language):
        if any(start <= name.start < end for start, end in measured):
            continue
        clash = _name_in_its_place(name, source, rewrite, language)
        found.append(Doubt("name_added", name.word, False, name.start, name.end, clash != "", clash))
    lost = [name for name in naming.unknown(source, rewrite, language=language) if not name.first]
    return found + [Doubt("name_lost", n.word, True, n.start, n.end, False) for n in lost]


def _name_in_its_place(name: naming.Name, source: str, rewrite: str, language: str) -> str:
    own, places = _counterparts(name.start, source, rewrite)
    sentence = rewrite[own[0] : own[1]]
    for start, end in places:
        for other in naming.names(source, language):
            if start <= other.start < end and not other.first and not naming.known(other, sentence):
                return other.word
    return ""


def _counterparts(at: int, source: str, rewrite: str, most: int = 2) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """The rewrite's sentence around `at`, and the sentences of the source that share most of its words."""
    own = next((s for s in sentences(rewrite) if s[0] <= at < s[1]), (0, len(rewrite)))
    return own, aligned(rewrite[own[0] : own[1]], source, most)


def aligned(sentence: str, text: str, most: int = 2) -> list[tuple[int, int]]:
    """Spans of the sentences of `text` that share most of a sentence's words."""
    words = _content(sentence)
    scored = []
    for start, end in sentences(text):
        theirs = _content(text[start:end])
        shared = len(words & theirs)
        if shared >= 2 or (shared and shared == len(theirs)):
            scored.append((shared / (1 + len(theirs)) ** 0.5, start, end))
    return [(start, end) for _, start, end in sorted(scored, reverse=True)[:most]]


@lru_cache(maxsize=512)
def _content(sentence: str) -> frozenset[str]:
    """Beginnings of the words that carry a sentence, figures among them; pairs of characters in scripts without spaces."""
    if any("\u3040" <= c <= "\u9fff" for c in sentence[:50]):
        return frozenset(sentence[i : i + 2] for i in range(len(sentence) - 1))
    return frozenset(
        word.lower()[:5] for word in _WORD.findall(sentence) if len(word) > 3 or word[0].isupper() or word.isdigit()
    )


@lru_cache(maxsize=128)
def sentences(text: str) -> tuple[tuple[int, int], ...]:
    """Spans of the sentences of a text."""
    return tuple(m.span() for m in _SENTENCE.finditer(text) if m[0].strip())

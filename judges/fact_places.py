"""Numbers that both texts have, but of other things: "fifth straight loss" and "three hits" do not make "five hits".

A set of keys cannot see that. Here a small number of the rewrite is doubted when the source has it only as the other
kind (an ordinal for a count, the day of a date), or only elsewhere while it counts the same things otherwise; in both
cases only if no words around the two places are shared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from judges.fact_text import Fact, split_words
from judges.fact_words import FUNCTION_WORDS, IMPLIED, NUMBER_WORDS, ORDINALS, stem
from judges.facts import Facts

_MOST = 400
"""Texts with more numbers than this are not looked into."""
_LABELLED = re.compile(
    r"(?:[#№]|\b(?:[A-Z]\w*|[Nn]o\.|number|level|day|season|series|stage|part|grade|rank(?:ed)?|seed(?:ed)?|top) ?)$"
)
_PART = re.compile(r"(?:st|nd|rd|th)s?$", re.IGNORECASE)


def misplaced(source: str, rewrite: str, before: Facts, after: Facts) -> list[Fact]:
    """Numbers of the rewrite whose value the source has, though not of these things; the first of each value."""
    if len(before.numbers) > _MOST or len(after.numbers) > _MOST:
        return []
    theirs: dict[str, list[Fact]] = {}
    for fact in before.numbers:
        if fact.kind == "number":
            theirs.setdefault(fact.keys[0], []).append(fact)
    days = {key.partition("/")[2] for key in before.keys if "/" in key}
    implied = {IMPLIED[word] for word in before.words if word in IMPLIED}
    found: dict[str, Fact] = {}
    for fact in after.numbers:
        key = fact.keys[0]
        if fact.kind != "number" or fact.unit or key in found or not _small(key) or key in implied:
            continue
        if rewrite[fact.start : _SAID.match(rewrite, fact.end).end()] in source:
            continue  # with the words after it as in the source: most facts, quickly
        same = theirs.get(key, [])
        if not same and key not in days:
            continue
        if _other_kind(fact, same, source, rewrite) or (
            same and _other_things(fact, same, (source, before), (rewrite, after))
        ):
            found[key] = fact
    return list(found.values())


def _small(key: str) -> bool:
    return len(key) <= 2 and key.isdecimal() and int(key) > 2


def _ordinal(text: str, fact: Fact) -> bool:
    spelled = text[fact.start : fact.end].lower()
    return _PART.search(spelled) is not None or spelled.rpartition("-")[2] in ORDINALS


_PARTITIVE = re.compile(r" of (?:the|his|her|its|their|all|these|those)\b")
_SAID = re.compile(r"(?:[ -][a-z]{3,})?")
_NEXT = re.compile(r"[ -]([^\W\d_]+)(?:[ -]([^\W\d_]+))?")


def _nouns(text: str, at: int) -> frozenset[str]:
    """Stems of the next two words, one of which names what a number that ends at `at` counts."""
    match = _NEXT.match(text, at)
    words = [w for w in match.groups() if w] if match else []
    if words and words[0] in FUNCTION_WORDS:
        return frozenset()
    return frozenset(_root(w) for w in words if len(w) > 2 and w.islower() and w not in FUNCTION_WORDS)


def _root(word: str) -> str:
    return stem(word.removesuffix("s") if 3 < len(word) < 6 else word)


def _labels(text: str, fact: Fact) -> bool:
    """Whether a number without an ending serves as an ordinal: "No. 5", "Game 7", "season three"."""
    return _LABELLED.search(text, max(0, fact.start - 12), fact.start) is not None


def _other_kind(fact: Fact, same: list[Fact], source: str, rewrite: str) -> bool:
    if _labels(rewrite, fact) or not (_PARTITIVE.match(rewrite, fact.end) or _nouns(rewrite, fact.end)):
        return False
    ordinal = _ordinal(rewrite, fact)
    if (not same and ordinal) or any(_ordinal(source, f) == ordinal or _labels(source, f) for f in same):
        return False
    around = _around(rewrite, fact, 40)
    return all(around.isdisjoint(_around(source, f, 80)) for f in same)


def _other_things(fact: Fact, same: list[Fact], there: tuple[str, Facts], here: tuple[str, Facts]) -> bool:
    (source, before), (rewrite, after) = there, here
    nouns = _nouns(rewrite, fact.end)
    if not nouns or any(not nouns.isdisjoint(_around(source, f, 100)) for f in same):
        return False
    ordinal, key = _ordinal(rewrite, fact), fact.keys[0]
    others = {
        f.keys[0]
        for f in _counting(nouns, source, before.numbers)
        if f.keys[0] != key and _ordinal(source, f) == ordinal
    }
    return bool(others) and others.isdisjoint(f.keys[0] for f in _counting(nouns, rewrite, after.numbers))


def _counting(nouns: frozenset[str], text: str, facts: Iterable[Fact]) -> list[Fact]:
    return [f for f in facts if f.kind == "number" and not nouns.isdisjoint(_nouns(text, f.end))]


def _around(text: str, fact: Fact, width: int) -> frozenset[str]:
    """Stems of the content words near a fact."""
    near = text[max(0, fact.start - width) : fact.start] + " " + text[fact.end : fact.end + width]
    return frozenset(
        _root(w) for w in split_words(near) if len(w) > 2 and w not in FUNCTION_WORDS and w not in NUMBER_WORDS
    )

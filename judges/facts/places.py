"""Numbers that both texts have, but of other things: "fifth straight loss" and "three hits" do not make "five hits".

A set of keys cannot see that. Here a small number of the rewrite is doubted

- when the rewrite states it more often than the source, and another less often: among numbers of its kind (count, ordinal,
  measure), or among all, or
- when the source has it only as the other kind, only in a date or numeral, or only elsewhere while it counts the same
  things otherwise, and no words around the two places are shared, or
- when it stands before a name ("the 1st Battalion") that the source numbers otherwise, or before a list of more or fewer;

in each case only if the source never says it with the word after it. A number of any size is doubted after a label
("NY 93", "F-5") that has only other numbers in the source.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from tokenmill.judges.facts.derived import lists_otherwise
from tokenmill.judges.facts.extract import Facts
from tokenmill.judges.facts.tables import FUNCTION_WORDS, IMPLIED, NUMBER_WORDS, stem
from tokenmill.judges.facts.text import Fact, is_ordinal, is_rank, label_of, split_words

_MOST = 400
"""Texts with more numbers than this are not looked into."""
_LABELLED = re.compile(
    r"(?:[#№]|\b(?:[A-Z]\w*-?|[Nn]os?\.|number|level|day|season|series|stage|part|grade|rank(?:ed)?|seed(?:ed)?|top) ?)$"
)
_SAID = re.compile(r"[ -][^\W\d_]{3,}")


def misplaced(source: str, rewrite: str, before: Facts, after: Facts) -> list[Fact]:
    """Numbers of the rewrite whose value the source has, though not of these things; the first of each value.

    A number that repeats the list item before it ("2.", "2.") is one too.
    """
    if len(before.numbers) > _MOST or len(after.numbers) > _MOST:
        return []
    suspects = [
        fact
        for fact in after.numbers
        if _small(fact)
        and not _said(fact, rewrite, source)
        and (fact.keys[0] in before.offers or _names(fact, rewrite))
    ]
    labelled = [
        (fact, label)
        for fact in after.numbers
        if fact.kind == "number"
        and (label := label_of(rewrite, fact))
        and rewrite[fact.start - 1 - len(label) : fact.end] not in source
    ]
    repeated = _repeated_items(rewrite) if "\n" in rewrite else []
    if repeated and not _repeated_items(source):
        return repeated
    if not suspects and not labelled:
        return []
    there, here = _Counted(source, before), _Counted(rewrite, after)
    found: dict[str, Fact] = {}
    for fact in suspects:
        if fact.keys[0] not in found and (
            _renumbered(fact, there, here)
            or _traded(fact, there, here)
            or _elsewhere(fact, there, here)
            or (lists_otherwise(fact, rewrite) and not there.counts(fact.keys[0], here.nouns[fact.start]))
        ):
            found[fact.keys[0]] = fact
    known = there.labels() if labelled else {}
    for fact, label in labelled:
        if label in known and fact.keys[0] not in known[label]:  # "NY 93" where the source has other numbers with "NY"
            found.setdefault(fact.keys[0], fact)
    return list(found.values())


_ITEM = re.compile(r"(?:^|\n)[ *-]{0,8}(\d{1,2})[.)] ")


def _repeated_items(text: str) -> list[Fact]:
    """Numbers of list items that repeat the one before them: "2. ...", "2. ..."; "1." may stand before every item."""
    items = list(_ITEM.finditer(text))
    return [
        Fact("number", item.start(1), item.end(1), (item[1],))
        for last, item in pairwise(items)
        if last[1] == item[1] != "1"
    ][:1]


def _small(fact: Fact) -> bool:
    return fact.kind == "number" and len(fact.keys[0]) <= 2 and fact.keys[0].isdecimal()


def _said(fact: Fact, text: str, other: str) -> bool:
    """Whether a number stands in the other text with the very word after it, or else before: most do, seen at once."""
    if follows := _SAID.match(text, fact.end):
        return text[fact.start : follows.end()] in other
    return fact.start >= 12 and text[fact.start - 12 : fact.end + 1] in other


class _Counted:
    """One text's numbers and what each of them counts."""

    def __init__(self, text: str, facts: Facts) -> None:
        self.text = text
        self.numbers = sorted([f for f in facts.numbers if f.kind == "number"], key=lambda f: f.start)
        self.nouns: dict[int, frozenset[str]] = {}
        """By where a number begins; those of a list ("the 2nd and 9th Divisions") share the last one's."""
        self.values: dict[str, set[str]] = {}
        """Which numbers a noun has."""
        self.sure: Counter[tuple[bool, str, str]] = Counter()
        """How often the text states a value as an ordinal or as a count (True, False), by unit."""
        self.most: Counter[tuple[bool, str]] = Counter()
        """How often it may do so: "heat 5" is either, "both" counts once, and a unit may be left out."""
        self.total: Counter[tuple[bool, str]] = Counter()
        """As `sure`, whatever the unit."""
        self.all: Counter[str] = Counter(f.keys[0] for f in self.numbers)
        """How often the text states a value as whatever kind."""
        later, nouns = len(text), frozenset()
        for fact in reversed(self.numbers):
            own = _nouns(text, fact.end)
            nouns = own or (nouns if _LISTED.fullmatch(text, fact.end, later) else own)
            later = fact.start
            self.nouns[fact.start] = nouns
            for orders in (kind := self.kinds(fact)):
                self.most[orders, fact.keys[0]] += 1
            if len(kind) == 1:
                self.sure[kind[0], fact.unit, fact.keys[0]] += 1
                self.total[kind[0], fact.keys[0]] += 1
            for noun in nouns:
                self.values.setdefault(noun, set()).add(fact.keys[0])
        self.implied = {IMPLIED[word] for word in facts.words if word in IMPLIED}
        for value in self.implied:
            self.most[False, value] += 1

    def often(self, value: str) -> int:
        """How often the text states or implies a value."""
        return self.all[value] + (value in self.implied)

    def labels(self) -> dict[str, set[str]]:
        """Which numbers a capitalised word before them has: `{"NY": {"93", "104"}}`."""
        found: dict[str, set[str]] = {}
        label, until = "", 0
        for fact in self.numbers:
            own = label_of(self.text, fact)
            label = own or (label if label and _LISTED.fullmatch(self.text, until, fact.start) else "")
            until = fact.end
            if label:
                found.setdefault(label, set()).add(fact.keys[0])
        return found

    def states(self, value: str, orders: bool) -> int:
        """How often the text may state a value as an ordinal or as a count; of "1" the words that are never facts too."""
        words = (_FIRST if orders else _ONE).findall(self.text) if value == "1" else ()
        return self.most[orders, value] + len(words)

    def kinds(self, fact: Fact) -> tuple[bool, ...]:
        """Whether a number orders (True) or counts (False), or may do either."""
        if is_ordinal(self.text, fact) or is_rank(self.text, fact):
            return (True,)
        if _labels(self.text, fact):
            return (True, False)
        if not fact.unit and not self.nouns[fact.start]:
            before = _BEFORE.search(self.text, max(0, fact.start - 24), fact.start)
            if before and before[1] not in FUNCTION_WORDS:
                return (True, False)
        return (False,)

    def counts(self, value: str, nouns: frozenset[str]) -> bool:
        """Whether the text says the value of any of the nouns."""
        return any(value in self.values.get(noun, ()) for noun in nouns)


_FIRST = re.compile(r"\bfirst\b", re.IGNORECASE)
_ONE = re.compile(r"\b(?:one|once|single|sole)\b", re.IGNORECASE)
"""Words that may be told in digits, though they are never facts on their own."""
_LISTED = re.compile(r"(?:st|nd|rd|th)?(?:, and |, or |, | and | or | to | & |-|–)(?:[A-Z]{2,} )?")
"""What may stand between two numbers of one list: "the NK 2nd, NK 4th and NK 9th Divisions"."""


_BEFORE = re.compile(r"\b([a-z]{3,}) $")


def _traded(fact: Fact, there: _Counted, here: _Counted) -> bool:
    """Whether the rewrite states the value more often than the source, and another less often: of its kind, or at all."""
    key, kinds = fact.keys[0], here.kinds(fact)
    if (
        len(kinds) > 1
        or "." in here.text[fact.start : fact.end]
        or (key == "1" and (fact.unit or is_rank(here.text, fact)))
    ):
        return False
    (orders,) = kinds
    more_of_kind, more = here.total[orders, key] > there.states(key, orders), here.all[key] > there.often(key)
    if not more_of_kind and not more:
        return False
    if not orders and there.most[True, (above := str(int(key) + 1))] > here.most[True, above]:
        return False  # "the third to do so" is "only two did so before"
    return any(
        own == orders
        and unit == fact.unit
        and value != key
        and _counts(value)
        and ((more_of_kind and here.most[own, value] < times) or (more and here.often(value) < there.all[value]))
        for (own, unit, value), times in there.sure.items()
    )


def _counts(value: str) -> bool:
    return len(value) <= 2 and value.isdecimal() and int(value) > 1


def _renumbered(fact: Fact, there: _Counted, here: _Counted) -> bool:
    """Whether a numbered name ("the 1st Battalion") has only other numbers in the source."""
    nouns = here.nouns[fact.start]
    return (
        _names(fact, here.text)
        and not there.counts(fact.keys[0], nouns)
        and any(is_ordinal(there.text, f) and there.nouns[f.start] & nouns for f in there.numbers)
    )


def _names(fact: Fact, text: str) -> bool:
    """Whether a number is part of a name, as in "the 1st Battalion"."""
    return _NAME.match(text, fact.end) is not None and is_ordinal(text, fact)


_NAME = re.compile(r" [A-Z][a-z]")


def _elsewhere(fact: Fact, there: _Counted, here: _Counted) -> bool:
    """Whether the source has the value as the other kind, or of other things, and no words around are shared."""
    key = fact.keys[0]
    if int(key) < 3 or key in there.implied or _OLD.match(here.text, fact.end):
        return False
    same = [f for f in there.numbers if f.keys[0] == key]
    if not same:  # the source has it only in a date, a Roman numeral or the like
        return not (is_ordinal(here.text, fact) or is_rank(here.text, fact) or _labels(here.text, fact))
    return _other_kind(fact, same, there.text, here.text) or (bool(same) and _other_things(fact, same, there, here))


_OLD = re.compile(r"[ -]years?[ -](?:old|of age)\b")
"""After an age, which may be told without its unit."""


_PARTITIVE = re.compile(r" of (?:the|his|her|its|their|all|these|those|them)\b")
_NEXT = re.compile(r"[ -]([^\W\d_]+)(?:[ -]([^\W\d_]+))?")


def _nouns(text: str, at: int) -> frozenset[str]:
    """Stems of the next two words, one of which names what a number that ends at `at` counts."""
    match = _NEXT.match(text, at)
    words = [w.lower() for w in match.groups() if w] if match else []
    if words and words[0] in FUNCTION_WORDS:
        return frozenset()
    return frozenset([_root(w) for w in words if len(w) > 1 and w not in FUNCTION_WORDS and w not in NUMBER_WORDS])


def _root(word: str) -> str:
    return stem(word.removesuffix("s") if 3 < len(word) < 6 else word)


def _labels(text: str, fact: Fact) -> bool:
    """Whether a number without an ending serves as an ordinal: "No. 5", "Game 7", "season three"."""
    return _LABELLED.search(text, max(0, fact.start - 12), fact.start) is not None


def _other_kind(fact: Fact, same: list[Fact], source: str, rewrite: str) -> bool:
    if _labels(rewrite, fact) or not (_PARTITIVE.match(rewrite, fact.end) or _nouns(rewrite, fact.end)):
        return False
    ordinal = is_ordinal(rewrite, fact)
    if any(is_ordinal(source, f) == ordinal or _labels(source, f) for f in same):
        return False
    around = _around(rewrite, fact, 40)
    return all(around.isdisjoint(_around(source, f, 80)) for f in same)


def _other_things(fact: Fact, same: list[Fact], there: _Counted, here: _Counted) -> bool:
    nouns = here.nouns[fact.start]
    if not nouns or any(_related(nouns, _around(there.text, f, 100)) for f in same):
        return False
    ordinal, key = is_ordinal(here.text, fact), fact.keys[0]
    others = {
        f.keys[0]
        for f in there.numbers
        if f.keys[0] != key and nouns & there.nouns[f.start] and is_ordinal(there.text, f) == ordinal
    }
    return bool(others) and others.isdisjoint(f.keys[0] for f in here.numbers if nouns & here.nouns[f.start])


def _related(words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two sets of stems share one, or its beginning: "striking out ten" and "ten strikeouts"."""
    if not words.isdisjoint(others):
        return True
    beginnings = {word[:5] for word in others if len(word) >= 5}
    return any(word[:5] in beginnings for word in words if len(word) >= 5)


def _around(text: str, fact: Fact, width: int) -> frozenset[str]:
    """Stems of the content words near a fact."""
    near = text[max(0, fact.start - width) : fact.start] + " " + text[fact.end : fact.end + width]
    return frozenset(
        _root(w) for w in split_words(near) if len(w) > 2 and w not in FUNCTION_WORDS and w not in NUMBER_WORDS
    )

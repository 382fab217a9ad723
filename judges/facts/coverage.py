"""Cheap fidelity check of knowledge rephrasing: are the source's facts kept, and none added? (K2 report, section 2.2)

    Coverage()(source, rewrite, context=title)  ->  Verdict, with a finding for every number, date or name lost or added

Only keys are compared (`judges.facts.extract`), so an honest rewrite may spell a fact as it likes. What a set of keys cannot
see, two facts that trade places, is left to the judge model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tokenmill.judges.facts.derived import (
    as_share,
    converted,
    enumerates,
    lists_at_once,
    lists_otherwise,
    recounts,
    unit_left_out,
    worked_out,
)
from tokenmill.judges.facts.differences import Difference, Quotes
from tokenmill.judges.facts.extract import Facts, extract
from tokenmill.judges.facts.names import names_added, names_lost
from tokenmill.judges.facts.negation import denies, negations_changed
from tokenmill.judges.facts.shares import other_dates, ranks, same_duration, told_as_shares
from tokenmill.judges.facts.tables import FUNCTION_WORDS, IMPLIED, NUMBER_WORDS, ORDINALS, ROMAN, SIZES, UNITS
from tokenmill.judges.facts.text import Fact, is_ordinal, label_of
from tokenmill.schemas.verdicts import Verdict

REASONS = (
    "number_added",
    "date_added",
    "number_lost",
    "date_lost",
    "unit_changed",
    "name_added",
    "name_lost",
    "negation_changed",
)
"""Reject reasons, gravest first: the verdict names the first that applies."""

Span = tuple[int, int, str]
"""Start, end (characters) and kind of a fact that differs."""
_FINDINGS = 24
"""Most findings in a verdict; a longer list helps neither a person nor a repair."""


@dataclass(frozen=True)
class Coverage:
    """Compares the facts of a rewrite with those of its source, in both directions."""

    names_lost: float = 0.05
    """Share of the source's distinct names that a rewrite may leave out."""
    negations: bool = True
    """Whether to look for statements that were negated, or whose negation was dropped (English only)."""

    def __post_init__(self) -> None:
        if not 0 <= self.names_lost < 1:
            raise ValueError(f"Coverage.names_lost is a share in [0, 1), not {self.names_lost}")

    def __call__(self, source: str, rewrite: str, context: str = "", language: str = "en") -> Verdict:
        """Judge `rewrite`; facts it takes from `context` (title, the source before this chunk) are not additions.

        The score is the share of facts kept and not added.
        """
        found, facts, forgiven = self._differences(source, rewrite, context, language)
        total = facts + sum(1 for d in found if not d.in_source)
        score = 1.0 - min(1.0, (len(found) + forgiven) / total) if total else 1.0
        if not found:
            return Verdict("coverage", True, round(score, 4))
        found.sort(key=lambda d: REASONS.index(d.kind))
        quotes = Quotes(source, rewrite)
        findings = tuple(quotes.finding(d) for d in found[:_FINDINGS])
        return Verdict("coverage", False, round(score, 4), found[0].kind, findings)

    def _differences(self, source: str, rewrite: str, context: str, language: str) -> tuple[list[Difference], int, int]:
        """Differences, the number of the source's facts, and of the names whose loss is tolerated."""
        before, after = extract(source, language), extract(rewrite, language)
        found = _numbers(source, rewrite, before, after, context, language)
        lost, names = names_lost(source, rewrite, before, after, context, language)
        found += names_added(source, rewrite, before, after, context, language)
        forgiven = 0
        if lost:
            if len(lost) <= self.names_lost * names:
                forgiven = len(lost)
            else:
                found += lost
        if self.negations and (denies(before.words) or denies(after.words)) and language[:2] in ("en", "", "un"):
            for changes, in_source in zip(negations_changed(source, rewrite), (True, False), strict=True):
                for start, end, word in changes:
                    fact = Fact("negation", start, end, (word,))
                    found.append(Difference("negation_changed", fact, word, in_source))
        return found, _count(before) + names, forgiven


def differing_spans(
    source: str, rewrite: str, context: str = "", language: str = "en"
) -> tuple[list[Span], list[Span]]:
    """Where the two differ: spans of facts lost, in `source`, and of facts added or changed, in `rewrite`; each sorted.

    Unlike a verdict it is exhaustive and tolerates no lost name, so that a report marks every one.
    """
    found, _, _ = Coverage(names_lost=0.0)._differences(source, rewrite, context, language)
    spans: tuple[set[Span], set[Span]] = (set(), set())
    for own, text, in_source in zip(spans, (source, rewrite), (True, False), strict=True):
        kinds = {(d.fact.kind, d.fact.keys, d.fact.unit): d.kind for d in found if d.in_source == in_source}
        own |= {(d.fact.start, d.fact.end, d.kind) for d in found if d.in_source == in_source}
        if kinds:  # every place that states such a fact, and not the first alone
            facts = extract(text, language)
            for fact in (*facts.numbers, *facts.names):
                if kind := kinds.get((fact.kind, fact.keys, fact.unit)):
                    own.add((fact.start, fact.end, kind))
    return sorted(spans[0]), sorted(spans[1])


def _count(facts: Facts) -> int:
    """How many different numbers and dates a text states."""
    return len(facts.keys)


def _numbers(source: str, rewrite: str, before: Facts, after: Facts, context: str, language: str) -> list[Difference]:
    added = [] if after.keys <= before.keys else _unmatched(after.numbers, _offers(before, after))
    here = _offers(after, before) if added else after.offers
    lost = [] if before.keys <= here else _unmatched(before.numbers, here)
    if added and context:
        added = _unmatched(added, extract(context, language).offers)
    if lost or added:
        lost, added = _unexcused(lost, added, (source, before), (rewrite, after))
    found = [Difference(f"{fact.kind}_lost", fact, in_source=True) for fact in lost]
    found += [Difference(f"{fact.kind}_added", fact) for fact in added]
    if not after.units <= before.units:
        found += _units_changed(source, before, after)
    return found or [Difference("number_added", fact) for fact in _renumbered(source, rewrite, before, after)]


def _renumbered(source: str, rewrite: str, before: Facts, after: Facts) -> list[Fact]:
    """Numbers of the rewrite that number a name to which the source gives other numbers only: "NY 93", "the 2nd Battalion"."""
    known: dict[str, set[str]] = {}
    for listed in _lists(before.numbers):  # they share their name: "NY 93 and 104", "the 2nd and 9th Divisions"
        for name in {name for fact in listed for name in _numbered(source, fact)}:
            known.setdefault(name, set()).update(fact.keys[0] for fact in listed)
    return [
        fact
        for fact in (after.numbers if known else ())
        if any(name in known and fact.keys[0] not in known[name] for name in _numbered(rewrite, fact))
    ]


def _lists(facts: Iterable[Fact]) -> Iterator[list[Fact]]:
    """Numbers that stand side by side, a dozen at most."""
    listed: list[Fact] = []
    for fact in facts:
        if listed and (len(listed) == 12 or not 0 < fact.start - listed[-1].end <= len(", and ")):
            yield listed
            listed = []
        listed.append(fact)
    if listed:
        yield listed


def _numbered(text: str, fact: Fact) -> list[str]:
    """The names that a number numbers: the capitalised word before it, or after an ordinal."""
    if fact.kind != "number":
        return []
    after = _NAME_AFTER.match(text, fact.end) if is_ordinal(text, fact) else None
    return [name.removesuffix("s") for name in (label_of(text, fact), after and after[1]) if name]


_NAME_AFTER = re.compile(r" ([A-Z][a-z]+)")


def _unexcused(
    lost: list[Fact], added: list[Fact], old: tuple[str, Facts], new: tuple[str, Facts]
) -> tuple[list[Fact], list[Fact]]:
    """Facts lost and added, each value once, less what may be grammar and what the other text implies."""
    (source, before), (rewrite, _) = old, new
    if any(not f.strong for f in lost) != any(not f.strong for f in added):
        # A word that vanishes alone may be grammar ("the two men"), a small one that appears a count ("in three ways");
        # one that replaces another is neither.
        lost = [fact for fact in lost if fact.strong or not _refers_back(fact, source, before)]
        added = [
            fact
            for fact in added
            if fact.strong
            or not _counts(rewrite, fact)
            or recounts(fact, rewrite, source, before)
            or lists_otherwise(fact, rewrite)
        ]
    if len(_distinct(lost)) + len(_distinct(added)) <= _FINDINGS:  # else the texts differ beyond what one implies
        lost, added = _implied(lost, added, old, new)
    lost = [fact for fact in lost if fact.keys[0] != "1"]
    added = [fact for fact in added if lost or fact.keys[0] != "1" or _counted(fact, rewrite, source)]
    return _distinct(lost), _distinct(added)


def _implied(
    lost: list[Fact], added: list[Fact], old: tuple[str, Facts], new: tuple[str, Facts]
) -> tuple[list[Fact], list[Fact]]:
    """Facts lost and added less those that the other text has in another form, or implies."""
    (source, before), (rewrite, after) = old, new
    if lost:
        lost = told_as_shares(lost, source, rewrite, after)
        lost = [fact for fact in lost if not same_duration(fact, after.numbers)]
        lost = other_dates(lost, rewrite, after)
        if not added:
            lost = [fact for fact in lost if fact.strong or not lists_at_once(fact, source)]
    if added:
        added = told_as_shares(added, rewrite, source, before)
        added = [fact for fact in added if not same_duration(fact, before.numbers)]
        added = [fact for fact in added if not enumerates(fact, rewrite, after.words)]
    if lost and added:
        lost, added = ranks(lost, source, added, rewrite)
    changed = bool(lost and added)
    lost = [fact for fact in lost if not converted(fact, after.numbers) and not as_share(fact, after.words)]
    if added and not changed:
        added = [f for f in added if not converted(f, before.numbers) and not as_share(f, before.words)]
        added = worked_out(added, (rewrite, after), (source, before))
    return lost, added


def _counted(fact: Fact, rewrite: str, source: str) -> bool:
    """Whether "1 km" is a figure, which the source does not have as "a kilometre"; "No. 1" may mean the best."""
    if rewrite[fact.start : fact.end] != "1":
        return False
    noun = _COUNTED.match(rewrite, fact.end)
    if not noun or noun[1] in FUNCTION_WORDS:
        return False
    single = re.compile(rf"\b(?:an?|one|per|each|every|single|the) (\w+ )?{noun[1][:4]}", re.IGNORECASE)
    return all((match[1] or "").strip().lower() in NUMBER_WORDS for match in single.finditer(source))


_COUNTED = re.compile(r"[ -]([a-z]{3,})")


def _offers(facts: Facts, other: Facts) -> frozenset[str]:
    """Values that a text keeps for the other: not those implied by words or numerals alone that the other has too."""
    spoken = {IMPLIED[word] for word in facts.words & other.words & _IMPLYING}
    spoken |= {ROMAN[word] for word in facts.name_words & other.name_words & _NUMERALS}
    if spoken := spoken - facts.keys - {"0", "1"} - {key.partition("/")[2] for key in facts.keys}:
        alone = {IMPLIED[word] for word in (facts.words - other.words) & _IMPLYING}
        alone |= {ROMAN[word] for word in (facts.name_words - other.name_words) & _NUMERALS}
        return facts.offers - (spoken - alone)
    return facts.offers


_IMPLYING, _NUMERALS = frozenset(IMPLIED), frozenset(ROMAN)
_PLACES = 4
"""Most places of one value that are looked at: one may be excused ("(2)" in a list), and another not ("two tanks")."""


def _unmatched(facts: Iterable[Fact], offers: frozenset[str]) -> list[Fact]:
    """The first few facts of each key that `offers` does not keep. The words "one" and "first" are never facts."""
    places: Counter[str] = Counter()
    unmatched = []
    for fact in facts:
        key = fact.keys[0]
        if key not in offers and offers.isdisjoint(fact.keys) and (fact.strong or key != "1"):
            places[key] += 1
            if places[key] <= _PLACES:
                unmatched.append(fact)
    return unmatched


def _distinct(facts: Iterable[Fact]) -> list[Fact]:
    """The first fact of each key."""
    first: dict[str, Fact] = {}
    for fact in facts:
        first.setdefault(fact.keys[0], fact)
    return list(first.values())


_COUNTS = frozenset(["two"])


def _counts(text: str, fact: Fact) -> bool:
    return text[fact.start : fact.end].lower() in _COUNTS


_THE = re.compile(r"\b(?:the|these|those|all|his|her|its|their|our) $", re.IGNORECASE)


def _refers_back(fact: Fact, text: str, facts: Facts) -> bool:
    """Whether a number word refers back wherever the text has it."""
    return all(_determined(text, f) for f in facts.numbers if f.keys[0] == fact.keys[0])


def _determined(text: str, fact: Fact) -> bool:
    """Whether a number word refers back, as in "the two" or "all three"."""
    if text[fact.start : fact.end].lower() in ORDINALS and fact.keys[0] != "2":
        return False  # "his fifth" counts
    if text[fact.end : fact.end + 1] == "-" and text[fact.start : fact.end].lower() not in ORDINALS:
        return False  # "the two-lane road"
    return _THE.search(text, max(0, fact.start - 7), fact.start) is not None


_ALIKE = ({"£", "lb"}, {"°", "°C"}, {"°", "°F"})
"""Units that one word may mean: pounds, degrees."""


def _units_changed(source: str, before: Facts, after: Facts) -> list[Difference]:
    """Numbers that both texts measure, in units that have nothing in common, or that only the rewrite measures."""
    units: dict[str, set[str]] = {}
    for fact in before.numbers:
        if fact.unit:
            units.setdefault(fact.keys[0], set()).add(fact.unit)
    changed: dict[str, Fact] = {}
    settled: set[str] = set()
    for fact in after.numbers:
        key = fact.keys[0]
        if not fact.unit or key in settled:
            continue
        if key in units:
            if fact.unit in units[key]:
                if fact.unit not in SIZES:
                    settled.add(key)
                    changed.pop(key, None)
            elif not (any({fact.unit, unit} in _ALIKE for unit in units[key]) or unit_left_out(fact, source, before)):
                changed.setdefault(key, fact)
        elif fact.unit in SIZES or fact.unit == "%":
            places = [f for f in before.numbers if f.keys[0] == key]
            if places and not any(_measured_in(fact.unit, source, f.end) for f in places):
                changed.setdefault(key, fact)
    return [
        Difference("unit_changed", fact, "/".join(sorted(units.get(key, ())) or ["none"]))
        for key, fact in changed.items()
        if key in units or not converted(fact, before.numbers)
    ]


_CLAUSE = re.compile(r"[^.;:()\n]*")
_WORD = re.compile(r"[^\W\d_]+|%")


def _measured_in(unit: str, text: str, at: int) -> bool:
    """Whether a spelling of a unit stands soon after a number that ends at `at`: "12, 25 and finally 81 tons", "12 in"."""
    follows = [word.lower() for word in _WORD.findall(_CLAUSE.match(text, at, at + 40)[0])]
    return any(UNITS.get(word) == unit for word in follows) or (unit == "inch" and "in" in follows[:1])

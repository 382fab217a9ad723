"""Cheap fidelity check of knowledge rephrasing: are the source's facts kept, and none added? (K2 report, section 2.2)

    Coverage()(source, rewrite, context=title)  ->  Verdict, with a finding for every number, date or name lost or added

Only keys are compared (`judges.facts`), so an honest rewrite may spell a fact as it likes. What a set of keys cannot
see, two facts that trade places, is left to the judge model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from judges.fact_words import FUNCTION_WORDS, IMPLIED, LABELS, NUMBER_WORDS, ROMAN, SIZES, name_stem, ordinary, stem
from judges.facts import Fact, Facts, acronym, extract, split_words, starts_sentence
from judges.negation import negations_changed
from schemas.verdicts import Finding, Verdict

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

_NEGATIONS = frozenset(["not", "never", "cannot", "t"])
_FINDINGS = 24
"""Most findings in a verdict; a longer list helps neither a person nor a repair."""


@dataclass(frozen=True)
class Difference:
    """One fact of one text that the other does not have, or has otherwise."""

    kind: str
    """One of `REASONS`."""
    fact: Fact
    other: str = ""
    """What the other text has instead, where that is known."""
    in_source: bool = False
    """Whether `fact` is a place in the source; else it is one in the rewrite."""


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
        quotes = _Quotes(source, rewrite)
        findings = tuple(quotes.finding(d) for d in found[:_FINDINGS])
        return Verdict("coverage", False, round(score, 4), found[0].kind, findings)

    def _differences(self, source: str, rewrite: str, context: str, language: str) -> tuple[list[Difference], int, int]:
        """Differences, the number of the source's facts, and of the names whose loss is tolerated."""
        before, after = extract(source, language), extract(rewrite, language)
        found = _numbers(source, rewrite, before, after, context, language)
        lost, names = _names_lost(source, before, after)
        found += _names_added(rewrite, before, after, context, language)
        forgiven = 0
        if lost:
            if len(lost) <= self.names_lost * names:
                forgiven = len(lost)
            else:
                found += lost
        negated = not (_NEGATIONS.isdisjoint(before.words) and _NEGATIONS.isdisjoint(after.words))
        if self.negations and negated and language[:2] in ("en", "", "un"):
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
    lost = [] if before.keys <= after.offers else _unmatched(before.numbers, after.offers)
    added = [] if after.keys <= before.offers else _unmatched(after.numbers, before.offers)
    if added and context:
        added = _unmatched(added, extract(context, language).offers)
    if (lost or added) and any(not f.strong for f in lost) != any(not f.strong for f in added):
        # A word that vanishes alone may be grammar ("the two men"), a small one that appears a count ("in three ways");
        # one that replaces another is neither.
        lost = [fact for fact in lost if fact.strong or not _determined(source, fact)]
        added = [fact for fact in added if fact.strong or rewrite[fact.start : fact.end].lower() not in _COUNTS]
    if lost:
        sizes = _sizes(after.numbers)
        lost = [fact for fact in lost if fact.keys[0] != "1" and not _converted(fact, sizes)]
    if added:
        added = [fact for fact in added if not _numbers_a_part(rewrite, fact) and (lost or fact.keys[0] != "1")]
    found = [Difference(f"{fact.kind}_lost", fact, in_source=True) for fact in lost]
    found += [Difference(f"{fact.kind}_added", fact) for fact in added]
    if before.units and not after.units <= before.units:
        found += _units_changed(before, after)
    return found or (_scores_changed(source, rewrite, before, after) if _SCORE.search(rewrite) else [])


_SCORE = re.compile(r"\d[-–:]\d")


def _scores_changed(source: str, rewrite: str, before: Facts, after: Facts) -> list[Difference]:
    """Scores, ranges and times ("70–69", "1:09") of the rewrite whose two numbers the source has, but nowhere side by side."""
    pairs = list(_neighbours(rewrite, after.numbers, 1))
    if not pairs:
        return []
    known = {frozenset((a.keys[0], b.keys[0])) for a, b in _neighbours(source, before.numbers, 12)}
    return [
        Difference("number_added", second)
        for first, second in pairs
        if frozenset((first.keys[0], second.keys[0])) not in known and not {first.kind, second.kind} & {"date"}
    ]


def _neighbours(text: str, facts: tuple[Fact, ...], gap: int) -> Iterator[tuple[Fact, Fact]]:
    """Consecutive numbers at most `gap` characters apart; for a gap of one, those with a dash or colon between."""
    for first, second in pairwise(facts):
        if 0 < second.start - first.end <= gap and (gap > 1 or text[first.end] in "-–:"):
            yield first, second


def _unmatched(facts: Iterable[Fact], offers: frozenset[str]) -> list[Fact]:
    """The first fact of each key that `offers` does not keep. The words "one" and "first" are never facts."""
    seen: set[str] = set()
    unmatched = []
    for fact in facts:
        key = fact.keys[0]
        if key not in offers and key not in seen and offers.isdisjoint(fact.keys) and (fact.strong or key != "1"):
            seen.add(key)
            unmatched.append(fact)
    return unmatched


_COUNTS = frozenset(["two", "three"])
_THE = re.compile(r"\b(?:the|these|those|all|his|her|its|their|our|of) $", re.IGNORECASE)


def _determined(text: str, fact: Fact) -> bool:
    """Whether a number word refers back, as in "the two" or "all three"."""
    return _THE.search(text, max(0, fact.start - 7), fact.start) is not None


def _numbers_a_part(text: str, fact: Fact) -> bool:
    """Whether a number counts the rewrite's own parts at the beginning of a line: "Step 3", "Question 2:"."""
    begin = text.rfind("\n", max(0, fact.start - 24), fact.start) + 1
    words = split_words(text[begin : fact.start]) if begin or fact.start < 24 else []
    return len(words) == 1 and words[0] in LABELS


_ALIKE = ({"£", "lb"}, {"°", "°C"}, {"°", "°F"})
"""Units that one word may mean: pounds, degrees."""


def _units_changed(before: Facts, after: Facts) -> list[Difference]:
    """Numbers that both texts measure, in units that have nothing in common."""
    units: dict[str, set[str]] = {}
    for fact in before.numbers:
        if fact.unit:
            units.setdefault(fact.keys[0], set()).add(fact.unit)
    changed: dict[str, Fact] = {}
    if units:
        for fact in after.numbers:
            key = fact.keys[0]
            if fact.unit and key in units:
                if fact.unit in units[key]:
                    units.pop(key)
                    changed.pop(key, None)
                elif not any({fact.unit, unit} in _ALIKE for unit in units[key]):
                    changed.setdefault(key, fact)
    return [Difference("unit_changed", fact, "/".join(sorted(units[key]))) for key, fact in changed.items()]


def _sizes(facts: Iterable[Fact]) -> list[tuple[str, float]]:
    return [(SIZES[f.unit][0], float(f.keys[0]) * SIZES[f.unit][1]) for f in facts if f.unit in SIZES and _plain(f)]


def _converted(fact: Fact, sizes: list[tuple[str, float]]) -> bool:
    """Whether a lost quantity is only the other half of "5 km (3.1 mi)", whose first half was kept."""
    if fact.unit not in SIZES or not _plain(fact):
        return False
    dimension, factor = SIZES[fact.unit]
    size = float(fact.keys[0]) * factor
    return any(d == dimension and abs(s - size) <= 0.06 * max(s, size) for d, s in sizes)


def _plain(fact: Fact) -> bool:
    return len(fact.keys[0]) < 16 and fact.keys[0].replace(".", "", 1).isdecimal()


def _names_lost(source: str, before: Facts, after: Facts) -> tuple[list[Difference], int]:
    """Names of the source that the rewrite lacks, and the number of distinct names."""
    if before.name_words <= after.words:
        return [], len({fact[3] for fact in before.names})
    distinct = {fact.keys: fact for fact in before.names if fact.strong or len(fact.keys) > 1}
    stems: frozenset[str] | None = None
    lost: list[Fact] = []
    for keys, fact in distinct.items():
        if after.words.issuperset(keys):
            continue
        if keys[-1] in after.name_words or 2 * sum(key in after.name_words for key in keys) >= len(keys):
            continue
        if (not fact.strong and all(ordinary(key) for key in keys)) or _short_form(source, fact):
            continue
        if _abbreviated(_acronym(source, fact), fact, after):
            continue
        if stems is None:
            stems = _stems(after)
        if 2 * sum(_known(key, stems) or key in ROMAN for key in keys) >= len(keys):
            continue
        if name_stem(_acronym(source, fact)) in stems:
            continue
        lost.append(fact)
    gone = {fact.keys for fact in lost}
    singles = {keys[-1] for keys in gone if len(keys) > 1}
    kept = [f for f in lost if len(f.keys) > 1 or f.keys[0] not in singles]
    return [Difference("name_lost", fact, in_source=True) for fact in kept], len(distinct)


def _stems(facts: Facts) -> frozenset[str]:
    """Roots of all words, and of the names' words those of their people and adjectives too."""
    return frozenset(
        [*map(stem, facts.words), *map(name_stem, facts.name_words), *map(name_stem, facts.acronyms | facts.initials)]
    )


def _known(word: str, stems: frozenset[str]) -> bool:
    return stem(word) in stems or name_stem(word) in stems


def _abbreviated(short: str, fact: Fact, other: Facts) -> bool:
    """Whether the other text has a name's acronym, or the name that the acronym `short` stands for."""
    return short in (other.acronyms if len(fact.keys) > 1 else other.initials)


def _acronym(text: str, fact: Fact) -> str:
    return acronym(fact.keys, text[fact.start : min(fact.end, fact.start + 200)])


def _names_added(rewrite: str, before: Facts, after: Facts, context: str, language: str) -> list[Difference]:
    """Names of the rewrite with a word that neither the source nor the context has in any form."""
    unknown = after.name_words - before.words
    if not unknown:
        return []
    labels = _speakers(rewrite)
    around = extract(context, language) if context else None
    stems = _stems(before)
    english = language[:2] in ("en", "", "un")
    lower_case = _lower_cased(rewrite, unknown)
    found: dict[tuple[str, ...], Difference] = {}
    for fact in after.names:
        new = [key for key in fact.keys if key in unknown]
        if around:
            new = [key for key in new if key not in around.words]
        new = [
            key
            for key in new
            if not _known(key, stems)
            and key not in labels
            and key not in lower_case
            and not (key in ROMAN and ROMAN[key] in before.offers)
            and not (key in IMPLIED or key in NUMBER_WORDS or key in FUNCTION_WORDS or _label(key))
        ]
        if not new or tuple(new) in found:
            continue
        short = _acronym(rewrite, fact)
        if _abbreviated(short, fact, before) or (around and _abbreviated(short, fact, around)):
            continue
        if new == [fact.keys[0]] or len(fact.keys) == len(new):  # the unknown words begin the name
            first = fact.keys[0]
            plain = not rewrite[fact.start : fact.start + len(first)].isupper()
            if not fact.strong and first in new and (not english or (plain and ordinary(first))):
                new = new[1:]
        if new and english and _short_form(rewrite, fact):
            continue
        if english and 3 * len(new) <= len(fact.keys) and all(ordinary(key) for key in new):
            continue  # a fuller form of a known name: "the 23rd Infantry Regiment of the US Army"
        shouted = rewrite[fact.start : fact.end].isupper()
        if new and english and not shouted and all(ordinary(key) for key in new) and _on_heading(rewrite, fact):
            continue
        if new:
            found[tuple(new)] = Difference("name_added", fact)
    return list(found.values())


def _label(word: str) -> bool:
    """Whether a word only labels a part of the text: "Question", "Q2"."""
    return word in LABELS or (word[0] in "qa" and word[1:].isdecimal())


_SPEAKER = re.compile(r"^[ \t>*_#-]*([^\W\d_][\w.’' -]{0,40}?)[*_]{0,2}:", re.MULTILINE)


def _speakers(text: str) -> set[str]:
    """Words that stand before a colon at the beginning of a line: a dialogue's speakers, a list's labels."""
    return {word for match in _SPEAKER.finditer(text) for word in split_words(match[1])}


def _lower_cased(text: str, words: frozenset[str]) -> set[str]:
    """Those of `words` that the text also writes without a capital: such a word is no name."""
    plain = frozenset(text.replace("-", " ").translate(_PUNCTUATION).split())
    return {word for word in words if word in plain}


_PUNCTUATION = str.maketrans({c: " " for c in ",.;:!?()\"'’“”*"})


_DETERMINERS = frozenset(
    ["the", "a", "an", "this", "that", "these", "those", "its", "their", "several", "some", "many"]
)
_DETERMINED = re.compile(r"\b(?:th(?:e|is|ese|ose)|an?|its|their)(?: \d+)? $")


def _short_form(text: str, fact: Fact) -> bool:
    """Whether a common word with a capital only refers back, as in "the Games"; "The Bill" is a title instead."""
    if len(fact.keys) > 1 or not ordinary(fact.keys[0]):
        return False
    run = text[fact.start : fact.end]
    if " " in run:
        return split_words(run)[0] in _DETERMINERS and starts_sentence(text, fact.start)
    return not run.isupper() and _DETERMINED.search(text, max(0, fact.start - 12), fact.start) is not None


def _on_heading(text: str, fact: Fact) -> bool:
    """Whether the name stands on a short line without a full stop, where common words may have capitals too."""
    begin = text.rfind("\n", 0, fact.start) + 1
    end = text.find("\n", fact.end)
    line = text[begin : end if end >= 0 else len(text)].strip()
    return len(line) <= 90 and line[-1:] not in (".", "!", "?", ",", ";") and (begin > 0 or end >= 0)


class _Quotes:
    """Verbatim clauses around facts, and where the other text speaks of the same."""

    def __init__(self, source: str, rewrite: str) -> None:
        self.source, self.rewrite = source, rewrite
        self._sentences: dict[bool, list[tuple[str, frozenset[str]]]] = {}

    def finding(self, difference: Difference) -> Finding:
        fact = difference.fact
        here = self.source if difference.in_source else self.rewrite
        quote = _clause(here, fact.start, fact.end)
        match = self._closest(quote, of_source=not difference.in_source)
        source, rewrite = (quote, match) if difference.in_source else (match, quote)
        return Finding(difference.kind, _detail(difference, here[fact.start : fact.end]), source, rewrite)

    def _closest(self, quote: str, of_source: bool) -> str:
        """The other text's sentence that shares most words with `quote`, shortened; empty if none shares two."""
        if of_source not in self._sentences:
            text = self.source if of_source else self.rewrite
            self._sentences[of_source] = [(s, frozenset(split_words(s))) for s in _SENTENCE.findall(text[:20_000])]
        words = frozenset(w for w in split_words(quote) if len(w) > 3)
        best, shared = "", 1
        for sentence, its_words in self._sentences[of_source]:
            if (count := len(words & its_words)) > shared:
                best, shared = sentence.strip(), count
        return best[:160]


_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s)[^.!?\n]*)*[.!?]?")
_BOUNDARY = re.compile(r"[.!?;](?=\s)|\n")


def _clause(text: str, start: int, end: int, width: int = 70) -> str:
    """A verbatim quotation around `text[start:end]`, at most `width` characters to each side, within its sentence."""
    end = min(end, start + 200)
    left, right = max(0, start - width), min(len(text), end + width)
    for match in _BOUNDARY.finditer(text, left, start):
        left = match.end()
    if match := _BOUNDARY.search(text, end, right):
        right = match.start() + (match[0] != "\n")
    if left and not text[left - 1].isspace() and not text[left].isspace():
        left = next((i for i in range(left, start) if text[i].isspace()), start)
    if right < len(text) and text[right - 1].isalnum() and text[right].isalnum():
        right = next((i for i in range(right, end, -1) if text[i].isspace()), end)
    return text[left:right].strip()


def _detail(difference: Difference, spelled: str) -> str:
    spelled = " ".join(spelled[:80].split())
    kind = difference.fact.kind
    match difference.kind:
        case "unit_changed":
            return f'Give "{spelled}" its unit in the source ({difference.other}), not {difference.fact.unit}.'
        case "negation_changed":
            return f'State "{difference.other}" as the source does: do not add or drop a negation.'
        case lost if lost.endswith("_lost"):
            return f'Keep the {kind} "{spelled}".'
        case _:
            return f'Remove or correct the {kind} "{spelled}", which the source does not have.'

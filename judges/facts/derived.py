"""Numbers and dates that one text states and the other implies: "the next day" is "November 1", 3 and 2 medals are 5.

Asked only about the few facts that a plain comparison of keys left over (`judges.facts.coverage`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from itertools import pairwise

from tokenmill.judges.facts.extract import Facts
from tokenmill.judges.facts.tables import LABELS, NUMBER_WORDS, ORDINALS, SIZES, stem
from tokenmill.judges.facts.text import Fact, is_ordinal, is_rank, label_of, split_words


# ------------------------------------------------------------------------------------------------------------- counts
def worked_out(facts: list[Fact], here: tuple[str, Facts], there: tuple[str, Facts]) -> list[Fact]:
    """`facts` of one text less what its reader can count: years between two dates of the other text, sums and lists.

    A sum's parts ("five medals: three gold, two silver") and a list's items ("the four states A, B, C and D") stand in
    the same sentence, where they are compared as facts of their own. Only for texts that lost no number.
    """
    if not facts:
        return facts
    (text, own), (other, theirs) = here, there
    years = sorted({int(key) for key in theirs.keys if key.isdecimal() and len(key) == 4})[:_MANY]
    spans = {str(b - a) for i, a in enumerate(years) for b in years[i + 1 :]}
    early = [int(f.keys[0]) for f in theirs.numbers if not f.unit and f.keys[0].isdecimal() and 1 < len(f.keys[0]) < 4]
    early_spans = {str(abs(b - a)) for a, b in pairwise(early[:_MANY])}  # "in 59", "in 62"
    ages = spans | {str(int(span) - 1) for span in spans}
    apart = _apart(theirs)
    days = _days_between(theirs)

    def known(fact: Fact) -> bool:
        if fact.kind != "number":
            return False
        if fact.unit == "yr":
            return fact.keys[0] in spans or (not fact.strong and fact.keys[0] in early_spans)
        if fact.unit == "d":
            return fact.keys[0] in days
        if fact.unit:
            return False
        if _AGE.search(text, max(0, fact.start - 8), fact.start):
            return fact.keys[0] in ages
        if is_ordinal(text, fact) or is_rank(text, fact) or label_of(text, fact):
            return False
        if fact.strong and fact.keys[0] in apart and not apart[fact.keys[0]].isdisjoint(_near_keys(fact, text, own)):
            return True
        return _adds_up(fact, text, own) or (
            len(fact.keys[0]) == 1
            and _lists(fact, text)
            and not lists_otherwise(fact, text)
            and not recounts(fact, text, other, theirs)
        )

    return [fact for fact in facts if not known(fact)]


_MANY = 64
"""Years and sums are tried of this many numbers at most."""


def _days_between(facts: Facts) -> set[str]:
    """How many days the dates of one text lie apart, less than a year."""
    dates = []
    for key in sorted(key for key in facts.keys if "/" in key)[:_MANY]:
        month, _, day = key.partition("/")
        if month.isdecimal() and day.isdecimal() and 0 < int(month) < 13 and 0 < int(day) < 29:
            dates.append(date(2001, int(month), int(day)))
    return {str(abs((b - a).days)) for i, a in enumerate(dates) for b in dates[i + 1 :]}


_AGE = re.compile(r"\bage(?:d|d only| of| at)? $", re.IGNORECASE)


def _apart(facts: Facts) -> dict[str, set[str]]:
    """Differences of neighbouring numbers, each with the two: a margin of votes, the survivors of a crew."""
    numbers = sorted((f for f in facts.numbers if f.kind == "number"), key=lambda f: f.start)[:_MANY]
    values = [int(f.keys[0]) if f.keys[0].isdecimal() and len(f.keys[0]) < 12 else 0 for f in numbers]
    found: dict[str, set[str]] = {}
    for a, b in pairwise(values):
        if min(a, b) > 10:
            found.setdefault(str(abs(a - b)), set()).update((str(a), str(b)))
    return found


def _near_keys(fact: Fact, text: str, facts: Facts) -> set[str]:
    """The other numbers of the sentence."""
    begin, end = _sentence(text, fact)
    return {f.keys[0] for f in facts.numbers if begin <= f.start < end and f.start != fact.start}


def _sentence(text: str, fact: Fact) -> tuple[int, int]:
    """The sentence around a fact, at most 300 characters to each side."""
    begin = max([m.end() for m in _SENTENCE_END.finditer(text, max(0, fact.start - 300), fact.start)], default=0)
    end = _SENTENCE_END.search(text, fact.end, fact.end + 300)
    return max(begin, fact.start - 300), end.start() if end else min(len(text), fact.end + 300)


_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")


def unit_left_out(fact: Fact, text: str, facts: Facts) -> bool:
    """Whether `text` states the number without its unit, in a sentence that measures another in it: "two minutes at 500
    rpm, then ten at 2,500"."""
    sentences = [_sentence(text, f) for f in facts.numbers if f.keys[0] == fact.keys[0] and not f.unit]
    return any(f.unit == fact.unit and begin <= f.start < end for begin, end in sentences for f in facts.numbers)


def _adds_up(fact: Fact, text: str, facts: Facts) -> bool:
    """Whether the two to four numbers of the sentence right after this one, or before it, add up to it.

    A small number in words may also be what two of the sentence's numbers, in a row, are apart.
    """
    begin, end = _sentence(text, fact)
    near = [f for f in facts.numbers if begin <= f.start < end and f.kind == "number" and f.keys[0].isdecimal()]
    near = sorted([f for f in near if len(f.keys[0]) < 6], key=lambda f: f.start)
    total = int(fact.keys[0]) if fact.keys[0].isdecimal() else -1
    after = [int(f.keys[0]) for f in near if f.start > fact.start]
    before = [int(f.keys[0]) for f in near if f.start < fact.start]
    return any(
        len(parts) == n and sum(parts) == total and min(parts) for n in (2, 3, 4) for parts in (after[:n], before[-n:])
    ) or (not fact.strong and total in (abs(a - b) for a, b in (*pairwise(before[-2:]), *pairwise(after[:2]))))


def _lists(fact: Fact, text: str) -> bool:
    """Whether the sentence lists ("a, b and c") as many things as the fact says, right after it or anywhere."""
    begin, end = _sentence(text, fact)
    listed = _listed_after(fact, text, max(end, fact.end + _NEAR))
    if str(listed) == fact.keys[0]:
        return True
    if str(_listed_below(text, end)) == fact.keys[0]:
        return True
    if listed and len(_AND.findall(text, fact.end, end)) == 1:
        return False  # this list is all that the number can mean
    if fact.keys[0] not in _FEW:
        return False
    for clause in _CLAUSE_END.split(text[begin:end]):
        ands = list(_AND.finditer(clause))
        if ands and (commas := clause.count(",", 0, ands[-1].start())) and str(commas + 2) == fact.keys[0]:
            return True
    return False


def _listed_below(text: str, end: int) -> int | None:
    """How many items the list has, or rows the table, that stands below a sentence which ends at `end`; None when there
    is none."""
    head, _, below = text[end : end + _BLOCK].partition("\n")
    if len(head) > 1:
        return None
    items = rows = 0
    for line in below.splitlines():
        if _ITEM.match(line) and not rows:
            items += 1
        elif line.lstrip().startswith("|") and not items:
            rows += 1
        elif line.strip() and not (items and line[0] in " \t"):
            break
    return items or (rows - 2 if rows > 2 else None)  # a table begins with its header and a rule


def lists_at_once(fact: Fact, text: str) -> bool:
    """Whether as many things as the fact says are named right after it: "two popes, Adrian and Alexander"."""
    return str(_listed_after(fact, text, fact.end + _NEAR)) == fact.keys[0]


def _listed_after(fact: Fact, text: str, end: int) -> int | None:
    """How many things are named right after a number and before `end`; None when it is no list."""
    listed = _LIST_AFTER.match(text, fact.end, min(len(text), end))
    return len(_ITEM_END.findall(listed[1])) + 2 if listed else None


def lists_otherwise(fact: Fact, text: str) -> bool:
    """Whether another number of things than the fact says is listed right after it: "two sports: golf, polo and chess"."""
    listed = _LISTS.match(text, fact.end) or _NAMED.match(text, fact.end, fact.end + _NEAR)
    if not listed or not NUMBER_WORDS.isdisjoint(split_words(listed[0])):  # "five medals: one gold and four silver"
        return False
    return str(len(_ITEM_END.findall(listed[1])) + 2) != fact.keys[0]


_LISTS = re.compile(
    r"(?: [^\W\d_-]+){1,5}:(?: |\n)([^.;:!?\n()]{1,160}?),? (?:and|or|&) [^,.;:!?\n()]{1,60}(?:[.;!?\n]|\Z)"
)
_NAME = r"(?:the )?[A-Z][\w'’-]*(?: [\w'’-]+){0,3}"
_NAMED = re.compile(rf"(?: [a-z]+){{1,4}}, ({_NAME}(?:, {_NAME}){{0,8}}),? (?:and|or|&) {_NAME}(?:, (?=[a-z])|[.;])")
_FEW = ("3", "4")
"""Numbers for which any list of the sentence will do; longer lists seldom stand away from their number."""
_NEAR = 200
"""Characters after a number in which a list may begin and end, whatever the sentence's length."""
_LIST_AFTER = re.compile(r"(?: [^\W\d_-]+){1,5}(?:[,:] |: ?\n)([^.;:!?\n]{0,160}?),? (?:and|or|&) ")
_BLOCK = 4_000
"""Characters of a list or table below a sentence that are looked at."""
_ITEM = re.compile(r"(?:[-*+•]|\d{1,2}[.)])\s")
_ITEM_END = re.compile(r",(?= )")
_CLAUSE_END = re.compile(r"[.;:!?()\n—–]|\b(?:namely|including|such as|like|were|are|in|on)\b")
_AND = re.compile(r",? (?:and|or|&) ")
_WORDS_AFTER = re.compile(r"[ -]([^\W\d_]+)(?:[ -]([^\W\d_]+))?")


def recounts(fact: Fact, text: str, other: str, theirs: Facts) -> bool:
    """Whether `other` counts the same things (one of the next two words) and says another number of them."""
    if is_ordinal(text, fact) or text[max(0, fact.start - 4) : fact.start].lower() == "the ":
        return False
    nouns = _nouns(text, fact.end)
    return bool(nouns) and any(
        f.kind == "number" and f.keys[0] != fact.keys[0] and nouns & _nouns(other, f.end) and not is_ordinal(other, f)
        for f in theirs.numbers
    )


def _nouns(text: str, at: int) -> frozenset[str]:
    match = _WORDS_AFTER.match(text, at)
    return frozenset(stem(w) for w in match.groups() if w and len(w) > 3 and w.islower()) if match else frozenset()


# -------------------------------------------------------------------------------------------------------- enumeration
_PLACED = re.compile(r"[^\W\d_] $")
_DETERMINED = re.compile(
    r"\b(?:an?|the|th(?:is|at|ese|ose)|his|her|its|their|our|my|your|every|each|another|and|or|but|then) $",
    re.IGNORECASE,
)
_ORDINAL_NAMES = {str(value): word for word, value in ORDINALS.items() if value < 13}


def enumerates(fact: Fact, text: str, words: frozenset[str]) -> bool:
    """Whether a number only orders the parts of its own text: "(2)", "step two", "a second problem", "the third"."""
    key = fact.keys[0]
    spelled = text[fact.start : fact.end].lower().removesuffix(" one")
    if not key.isdecimal() or len(key) > 2 or (fact.unit and spelled not in ORDINALS):
        return False
    before, after = text[max(0, fact.start - 24) : fact.start], text[fact.end : fact.end + 1]
    if spelled == key and before[-1:] == "(" and after == ")":
        return "(1)" in text
    if spelled in ORDINALS:
        if _PLACED.search(before) and not _DETERMINED.search(before):
            return False  # "he was second in his heat"
        return int(key) < 13 and all(_ORDINAL_NAMES[str(n)] in words for n in range(2, int(key)))
    line = before.rpartition("\n")
    label = split_words(before)[-1:]
    if not label or label[0] not in LABELS or not before.endswith((" ", "#")):
        return False
    begins = len(split_words(line[2])) <= 2 and (line[1] or fact.start < 24)
    return bool(begins) or (len(label[0]) > 1 and text.lower().count(f"{label[0]} ") > 1)


# ----------------------------------------------------------------------------------------------- shares, conversions
_SHARES = {
    "50": ("half", "halves"),
    "25": ("quarter", "fourth"),
    "75": ("quarters", "fourths"),
    "20": ("fifth", "five"),
    "33": ("third", "thirds"),
    "67": ("thirds",),
    "66": ("thirds",),
    "10": ("tenth", "ten"),
    "100": ("all", "every", "whole"),
}


def as_share(fact: Fact, words: frozenset[str]) -> bool:
    """Whether a percentage is told in a word: 50 % as "half", 20 % as "one in five"."""
    return fact.unit == "%" and not words.isdisjoint(_SHARES.get(fact.keys[0].partition(".")[0], ()))


def converted(fact: Fact, others: Iterable[Fact]) -> bool:
    """Whether a quantity is only the other half of "5 km (3.1 mi)" or "-5 °C (23 °F)", whose first half is in `others`."""
    if not _plain(fact):
        return False
    value = float(fact.keys[0])
    if fact.unit in ("°C", "°F"):
        degrees = [(f.unit, float(f.keys[0])) for f in others if f.unit in ("°C", "°F", "°") and _plain(f)]
        return any(
            unit != fact.unit and any(_same_heat(fact.unit, value, sign * d) for sign in (1, -1)) for unit, d in degrees
        )
    if fact.unit not in SIZES:
        return False
    dimension, factor = SIZES[fact.unit]
    size = value * factor
    sizes = [
        (SIZES[f.unit][0], float(f.keys[0]) * SIZES[f.unit][1])
        for f in others
        if f.unit in SIZES and _plain(f) and (f.unit != fact.unit or f.unit == "t")
    ]
    return any(d == dimension and abs(s - size) <= 0.06 * max(s, size) for d, s in sizes)


def _same_heat(unit: str, value: float, other: float) -> bool:
    """Whether `value` in `unit`, of unknown sign, is `other` in the other unit, to a degree or two."""
    if unit == "°C":
        return abs(abs((other - 32) / 1.8) - value) <= 1
    return abs(abs(other * 1.8 + 32) - value) <= 1.8


def _plain(fact: Fact) -> bool:
    return len(fact.keys[0]) < 16 and fact.keys[0].replace(".", "", 1).isdecimal()

"""The same quantity told in other words: "two decades" are twenty years, "four in five" are 80 %, "the 6th" is 6 June."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable

from tokenmill.judges.facts.extract import Facts
from tokenmill.judges.facts.tables import MONTHS, ONES, ORDINALS
from tokenmill.judges.facts.text import Fact

_DURATIONS = {
    "s": (1, "s"),
    "min": (60, "s"),
    "h": (3600, "s"),
    "d": (86400, "s"),
    "wk": (7 * 86400, "s"),
    "mo": (1, "mo"),
    "yr": (12, "mo"),
    "decade": (120, "mo"),
    "century": (1200, "mo"),
}


def same_duration(fact: Fact, others: Iterable[Fact]) -> bool:
    """Whether exactly this time is among `others` in another unit."""
    if (mine := _duration(fact)) is None:
        return False
    return any(f.unit != fact.unit and f.unit in _DURATIONS and _duration(f) == mine for f in others)


def _duration(fact: Fact) -> tuple[float, str] | None:
    key = fact.keys[0]
    if fact.unit not in _DURATIONS or len(key) > 9 or not key.replace(".", "", 1).isdecimal():
        return None
    factor, base = _DURATIONS[fact.unit]
    return float(key) * factor, base


_PARTS = {"half": 2, "halves": 2, "quarter": 4, "quarters": 4} | {
    word + plural: value for word, value in ORDINALS.items() if 3 <= value <= 12 for plural in ("", "s")
}
_COUNT = "|".join([*list(ONES)[1:13], r"\d{1,2}"])
_SHARE = re.compile(
    rf"\b(?:({_COUNT}) (?:in|out of)(?: every)? ({_COUNT})|(an?|{_COUNT})[ -]({'|'.join(_PARTS)}))\b", re.IGNORECASE
)


def told_as_shares(facts: list[Fact], text: str, other: str, theirs: Facts) -> list[Fact]:
    """`facts` of `text` less percentages that `other` tells as shares in words, and shares that it tells as percentages.

    A share in words is taken as a round figure: "a third" may be 32 %.
    """
    if any(f.unit == "%" for f in facts):
        told = [value for _, _, value in _shares(other)]
        facts = [f for f in facts if f.unit != "%" or not _near(f, told)]
    if facts and (percents := [f for f in theirs.numbers if f.unit == "%"]):
        spans = [(a, b) for a, b, value in _shares(text) if any(_near(f, [value]) for f in percents)]
        facts = [f for f in facts if not any(a <= f.start < b for a, b in spans)]
    return facts


def _near(fact: Fact, shares: list[float]) -> bool:
    key = fact.keys[0]
    return len(key) < 8 and key.replace(".", "", 1).isdecimal() and any(abs(float(key) - s) <= 2.5 for s in shares)


def _shares(text: str) -> list[tuple[int, int, float]]:
    found = []
    for match in _SHARE.finditer(text):
        count, of, parts, part = match.groups()
        above = _value(count or parts)
        below = _value(of) if of else _PARTS[part.lower()]
        if 0 < above < below:
            found.append((*match.span(), 100 * above / below))
    return found


def _value(word: str) -> int:
    word = word.lower()
    return int(word) if word.isdecimal() else 1 if word in ("a", "an") else ONES[word]


_LAST_DAY = re.compile(rf"\blast day of ({'|'.join(m for m in MONTHS if len(m) > 4 or m == 'may')})", re.IGNORECASE)
_TURN = re.compile(r"\bturn of the (?:\w+ )?century\b", re.IGNORECASE)
_ORDINAL = {value: word for word, value in ORDINALS.items()}


def other_dates(facts: list[Fact], other: str, theirs: Facts) -> list[Fact]:
    """`facts` less days that `other` names by an ordinal beside their month, and round years, in an idiom."""
    if not any(fact.kind == "date" for fact in facts):
        return facts
    days = {f"{m}/{monthrange(2023, m)[1]}" for name in _LAST_DAY.findall(other) for m in (MONTHS[name.lower()],)}
    turn = _TURN.search(other) is not None

    def told(fact: Fact) -> bool:
        key = fact.keys[0]
        month, _, day = key.partition("/")
        if not day:
            return turn and len(key) == 4 and key.endswith("00")
        if key in days:
            return True
        if f"m{month}" not in theirs.offers or day not in theirs.offers:
            return False
        word = _ORDINAL.get(int(day), "") if day.isdecimal() else ""
        spelled = f"|{word}" if word else ""
        return re.search(rf"\bthe (?:{re.escape(day)}(?:st|nd|rd|th){spelled})\b", other) is not None

    return [fact for fact in facts if fact.kind != "date" or not told(fact)]


_ENDINGS = ("st", "nd", "rd", "th")
_RANKED = re.compile(
    r"\b(?:before|previous|previously|earlier|preceding|preceded|larger|bigger|more|ahead|better|higher)\b"
)


def ranks(lost: list[Fact], source: str, added: list[Fact], rewrite: str) -> tuple[list[Fact], list[Fact]]:
    """The two less pairs such as "the third largest" and "only two are larger"."""
    for fact in lost:
        if source[fact.start : fact.end].lower() not in ORDINALS and not source.endswith(_ENDINGS, 0, fact.end):
            continue
        for other in added:
            follows = rewrite[other.end : other.end + 80]
            if fact.keys[0].isdecimal() and other.keys[0] == str(int(fact.keys[0]) - 1) and _RANKED.search(follows):
                lost = [f for f in lost if f is not fact]
                added = [f for f in added if f is not other]
                break
    return lost, added

"""Dates and times of day: days and months by name (CLDR's, by babel), days with names of their own, the clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tokenmill.judges.facts.measures import unit_at
from tokenmill.judges.facts.quantity import Quantity, Reading
from tokenmill.judges.facts.scan import Scan
from tokenmill.judges.math.lexicon import vocabulary

_CLOCK = re.compile(
    r"(?P<hour>[01]?\d|2[0-4])"
    r"(?:(?P<colon>[:.])(?P<minute>[0-5]\d)(?!\d)(?:[:.](?P<seconds>[0-5]\d)(?!\d))?(?P<sign> ?(?:Uhr|h)\b)?"
    r"| ?(?P<mark>(?:h|Uhr)(?![^\W\d_])|(?:時|时|点|點|시)(?![間间간])) ?(?P<after>[0-5]?\d)?[分분]?)?"
    r"(?:\s?(?P<half>[ap])\.?\s?m\b\.?)?"
)
PAST = re.compile(r"(?: minutes?)? (past|after|to|before) ([^\W\d_]+|\d{1,2})\b")
_WORD_TIMES = {
    "noon": 720, "midday": 720, "midnight": 0, "mittag": 720, "mittags": 720, "mitternacht": 0, "midi": 720, "minuit": 0,
    "mediodía": 720, "medianoche": 0, "полдень": 720, "полночь": 0,
}  # fmt: skip
_CJK_TIMES = {"正午": 720, "中午": 720, "정오": 720, "자정": 0, "午夜": 0, "真夜中": 0}
_CJK_TIME = re.compile("|".join(_CJK_TIMES))
_DAYS = {
    "christmas day": 1225, "christmas eve": 1224, "new year's day": 101, "new year's eve": 1231, "heiligabend": 1224,
    "silvester": 1231, "neujahr": 101, "jour de noël": 1225, "noël": 1225, "día de navidad": 1225, "nochebuena": 1224,
    "nochevieja": 1231, "independence day": 704, "halloween": 1031, "bastille day": 714, "valentine's day": 214,
}  # fmt: skip
"""Days with names: month and day as one number."""
_DAY_STARTS = frozenset(day.partition(" ")[0] for day in _DAYS)
_NO_MONTHS = vocabulary("may march mar mai sep dec")
"""Months that are also words, unless they have a capital,"""
_UNSURE_MONTHS = vocabulary("may mar dec sep march")
"""or a year or day beside them."""
_CJK_DATE = re.compile(r"(\d{1,2}) ?[月월](?: ?(\d{1,2}) ?[日号號일])?")
_ISO_DATE = re.compile(r"(?<=\d{4}-)(?<![\d.,-]\d{4}-)(\d{2})-(\d{2})(?!\d|-)")
_NUMERIC_DATE = re.compile(r"(?<![\d./])(\d{1,2})(?:\. ?|/)(\d{1,2})(?=(?:\. ?|/)(?:1\d|20)\d\d(?!\d))")
_YEAR_AFTER = re.compile(r",? (?:1\d|20)\d\d\b")
_DAYS_BEFORE = re.compile(
    r"((?:(?<![\d.,])\d{1,2}(?:st|nd|rd|th|er|\.|º)?(?:,? ?(?:and|to|und|bis|et|au|y|al|и|или|or|&|–|-|—|,) ?)?){1,4})"
    r"(?: (?:of|de|day of))?[ \u00a0]$"
)
_DAYS_AFTER = re.compile(
    r"\.? (?:the )?((?:\d{1,2}(?:st|nd|rd|th)?(?![\d:.,]\d|\d)(?:,? ?(?:and|to|or|&|–|-|—) ?(?=\d))?){1,4})"
)
_ONE_OR_TWO_DIGITS = re.compile(r"\d{1,2}")


@lru_cache(maxsize=16)
def _months(language: str) -> dict[str, int]:
    from babel import Locale

    found: dict[str, int] = {}
    for context in ("format", "stand-alone"):
        for width in ("wide", "abbreviated"):
            for number, name in Locale(language).months[context][width].items():
                found.setdefault(name.lower().rstrip("."), number)
    if language == "en":
        found["sept"] = 9
    return {name: number for name, number in found.items() if not name[0].isdigit()}


@lru_cache(maxsize=16)
def first_words(language: str) -> frozenset[str]:
    """Words with which a date or time may begin."""
    return frozenset((*_months(language), *_WORD_TIMES, *_DAY_STARTS))


def dates(scan: Scan, candidates: list[int]) -> Iterator[Quantity]:
    """Dates, and times told in words; `candidates` are the places of words among `first_words`."""
    if scan.cjk:
        yield from _cjk_dates(scan)
    yield from _numeric(scan)
    months = _months(scan.language)
    for at in candidates:
        word = scan.words[at]
        if word in _DAY_STARTS and (named := _named_day(scan, at)):
            yield named
        elif word in _WORD_TIMES and scan.text[scan.starts[at] - 1 : scan.starts[at]] != "-":  # not "après-midi"
            yield _at_time(scan.starts[at], scan.ends[at], _WORD_TIMES[word])
        elif word in months and (word not in _NO_MONTHS or scan.raw[at][0].isupper()):
            yield from _month(scan, at, months[word])


def _numeric(scan: Scan) -> Iterator[Quantity]:
    """The days of dates in figures: 2019-05-03, and 3.5.2019 or 03/05/2019, of which either may be the month."""
    for m in _ISO_DATE.finditer(scan.text) if "-" in scan.text else ():
        if 1 <= int(m[1]) <= 12 and 1 <= int(m[2]) <= 31:
            scan.take(m.start(1), m.end())
            yield Quantity(m.start(1), m.end(), (("date", int(m[1]) * 100.0 + int(m[2]), 1.0),))
    for m in _NUMERIC_DATE.finditer(scan.text) if "/" in scan.text or scan.language != "en" else ():
        one, other = int(m[1]), int(m[2])
        readings = [
            ("date", a * 100.0 + b, 1.0) for a, b in ((one, other), (other, one)) if 1 <= a <= 12 and 1 <= b <= 31
        ]
        if readings:
            scan.take(m.start(), m.end(2))
            yield Quantity(m.start(), m.end(2), tuple(readings))


def _at_time(start: int, end: int, minutes: int) -> Quantity:
    return Quantity(start, end, (("time", float(minutes), 1.0), ("", 12.0, 1.0)), strong=False)


def _cjk_dates(scan: Scan) -> Iterator[Quantity]:
    for m in _CJK_DATE.finditer(scan.text):
        month, day = int(m[1]), int(m[2] or 0)
        if 1 <= month <= 12 and day <= 31:
            scan.take(*m.span())
            yield Quantity(*m.span(), (("date", month * 100 + day, 1.0) if day else ("month", month, 1.0),))
    for m in _CJK_TIME.finditer(scan.text):
        yield _at_time(*m.span(), _CJK_TIMES[m[0]])


def _named_day(scan: Scan, at: int) -> Quantity | None:
    for count in (3, 2, 1):
        day = _DAYS.get(" ".join(scan.words[at : at + count]).replace("’", "'"))
        if day:
            last = min(at + count, len(scan.words)) - 1
            return Quantity(scan.starts[at], scan.ends[last], (("date", float(day), 1.0),), strong=False)
    return None


def _month(scan: Scan, at: int, month: int) -> Iterator[Quantity]:
    """A month by name, with each day of it that stands beside: the nearest takes the name into its span."""
    start, end = scan.starts[at], scan.ends[at]
    days = sorted(_days_beside(scan, start, end), key=lambda day: max(start - day[1], day[0] - end))
    for count, (first, last, day) in enumerate(days):
        scan.take(first, last)
        readings = (("date", month * 100.0 + day, 1.0), ("month", float(month), 1.0))
        low, high = (first, last) if count else (min(first, start), max(last, end))
        yield Quantity(low, high, readings)
    if not days and (scan.words[at] not in _UNSURE_MONTHS or _YEAR_AFTER.match(scan.text, end)):
        yield Quantity(start, end, (("month", float(month), 1.0),))


def _days_beside(scan: Scan, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Days of the month beside its name: "3, 4 and 5 March", "March 3rd–5th", "le 1er mars", "3. März", "5 de mayo"."""
    base, text = max(0, start - 40), scan.text
    near = any(c.isdigit() for c in text[max(0, start - 12) : start])
    found = _DAYS_BEFORE.search(text[base:start]) if near else None
    if found is None:
        base, found = end, _DAYS_AFTER.match(text[end : end + 40])
    for m in _ONE_OR_TWO_DIGITS.finditer(found[1]) if found else ():
        if found and 1 <= int(m[0]) <= 31:
            yield base + found.start(1) + m.start(), base + found.start(1) + m.end(), int(m[0])


def clock(scan: Scan, start: int) -> Quantity | None:
    """The time of day that figures tell."""
    m = _CLOCK.match(scan.text, start)
    if m is None or (scan.text[start - 1 : start] in (":", ".", ",") and scan.text[max(0, start - 2)].isdigit()):
        return None
    hour, minute = int(m["hour"]), int(m["minute"] or m["after"] or 0)
    half = m["half"] if scan.cjk or scan.language == "en" else None
    if not (m["colon"] == ":" or m["sign"] or m["mark"] or half) or not scan.free(*m.span()):
        return None
    scan.take(*m.span())
    if m["seconds"]:
        spent = ("duration", hour * 3600.0 + minute * 60 + int(m["seconds"]), 1.0)
        return Quantity(*m.span(), (spent, ("time", hour * 60.0 + minute, 1.0)))
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    readings: list[Reading] = [("time", hour * 60.0 + minute, 1.0)]
    if not half and hour <= 12:
        readings.append(("time", (readings[0][1] + 720) % 1440, 1.0))
    if m["mark"] in ("h", "시"):
        readings.append(("duration", hour * 3600.0 + minute * 60, 60.0))
    readings.append(("", float(m["hour"]), 1.0))
    if m["minute"]:
        readings.append(("", float(f"{hour}.{minute:02}"), 1.0))
    return Quantity(*m.span(), tuple(readings))


def before_or_past(scan: Scan, start: int, end: int, minutes: float) -> Quantity | None:
    """ "six minutes past six", "half past ten", "a quarter to nine"."""
    m = PAST.match(scan.text, end) if scan.language == "en" else None
    hour = scan.cardinal(m[2]) if m else None
    if m is None or hour is None or not 0 < hour <= 24 or not 0 < minutes < 60:
        return None
    lasting = unit_at(scan, m.end(), 2)  # "five to ten minutes"
    between = m[1] in ("to", "before") and minutes != 15 and "minute" not in m[0]
    if between or (lasting and lasting[0].dimension == "duration"):
        return None
    at = hour * 60 + (minutes if m[1] in ("past", "after") else -minutes)
    scan.take(start, m.end())
    return Quantity(start, m.end(), (("time", at % 1440, 1.0), ("time", (at + 720) % 1440, 1.0)))

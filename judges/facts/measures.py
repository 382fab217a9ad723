"""What a number measures: the century, currency, scale, share or unit that stands beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenmill.judges.facts.number_words import SCALES
from tokenmill.judges.facts.quantity import Quantity, Reading
from tokenmill.judges.facts.scan import Scan, unit_head, unit_heads
from tokenmill.judges.facts.units import PREFIXES, Unit

CENTURY = re.compile(
    r"[-. ]{0,2}(?:centur(?:y|ies)|jahrhunderts?|siècles?|век[аеуи]?\b|столети\w+|世纪|世紀|세기|secolo|século)",
    re.IGNORECASE,
)
_CENTURY_BEFORE = ("siglo ", "siglos ", "século ")
_SAID_OF_WEEKS = {"fr": {15: 14, 8: 7}, "es": {15: 14, 8: 7}, "de": {8: 7}}
"""Days as which one or two weeks are told: quinze jours, acht Tage."""
_AND_HALF = re.compile(r" (?:and a half|et demie?|y medi[ao])\b|半| ?반(?!\w)")
_LETTER_SCALE = re.compile(r" ?(m|k|bn|M|K|B|tn)\b")
_LETTER_SCALES = {"m": 1e6, "k": 1e3, "bn": 1e9, "M": 1e6, "K": 1e3, "B": 1e9, "tn": 1e12}
_SCALE = re.compile(r"[ \u00a0\u202f-]?([^\W\d_]+)")
_PART = re.compile(r"(?: (?:in|out of|of the|of|von|sur|de cada|из) |/(?=\d))(\w+)")
_TENTHS = re.compile("[成割할]")
_AT_UNIT = re.compile(
    r"[ \u00a0\u202f-]?(?:с лишним )?((?:[^\W\d_]|[%°²³µμ℃％‰$€£])(?:[^\s\d]|(?<=[mk])[23]){0,40}(?: [^\W\d_]{1,40}){0,2})"
)
_LEADS = re.compile(r"[ \u00a0\u202f-]?(?:с лишним )?([^\W\d_]+)(?=\s)")
_PER = re.compile(r" ?/ ?([^\W\d_]{1,12})")
_SIGN_ENDS = frozenset(sign[-1] for sign in PREFIXES)


def measured(
    scan: Scan,
    start: int,
    end: int,
    amount: float,
    *,
    strong: bool = True,
    extra: Sequence[Reading] = (),
    figures: bool = False,
) -> Quantity:
    """The number at `text[start:end]` with what stands around it; `extra` are readings that it has besides."""
    if dated := century(scan, start, end, amount):
        return dated
    if sign := _sign(scan, start):
        return _money(scan, start, end, amount, sign)
    many, end = scale(scan, end)
    if many != 1:
        half = and_half(scan, end)  # "a million and a half"
        amount, strong, end = amount * many + (many / 2 if half else 0), True, half or end
    found: list[Reading] = [("", amount, 1.0), *extra]
    if part := _PART.match(scan.text, end):
        whole = scan.cardinal(part[1])
        if whole and 0 < amount < whole:
            found += [("share", amount / whole, 1.0), ("", whole, 1.0)]
            end = part.end()
    elif scan.cjk and (tenths := _TENTHS.match(scan.text, end)):
        found.append(("share", amount / 10, 1.0))
        end = tenths.end()
    elif all(dimension != "rank" for dimension, _, _ in extra) and (unit := unit_at(scan, end, 1 if figures else 2)):
        found += _in_unit(scan, amount, unit[0])
        strong, end = strong or unit[0].dimension != "duration" or amount > 1, unit[1]
        if half := and_half(scan, end):
            found += [("", amount + 0.5, 1.0), converted(amount + 0.5, unit[0])]
            end = half
    return Quantity(start, end, tuple(found), strong, scan.about(start))


def century(scan: Scan, start: int, end: int, amount: float) -> Quantity | None:
    """The century that a number counts."""
    readings = (("century", amount, 1.0), ("", amount, 1.0))
    if named := CENTURY.match(scan.text, end):
        return Quantity(start, named.end(), readings, about=scan.about(start))
    if scan.text[max(0, start - 7) : start].lower().endswith(_CENTURY_BEFORE):
        return Quantity(start, end, readings)
    return None


def converted(amount: float, unit: Unit) -> Reading:
    """An amount in the base unit of its dimension."""
    return unit.dimension, amount * unit.factor + unit.offset, unit.factor


def and_half(scan: Scan, end: int) -> int:
    """Where "and a half" ends that begins at `end`; 0 if none does."""
    half = _AND_HALF.match(scan.text, end)
    return half.end() if half else 0


def scale(scan: Scan, end: int) -> tuple[float, int]:
    """The scale word behind a number: "2.5 million", "3 тысячи"."""
    m = _SCALE.match(scan.text, end)
    many = SCALES.get(scan.language, {}).get(m[1].lower(), 0) if m else 0
    return (float(many), m.end()) if m and many >= 100 else (1.0, end)


def unit_at(scan: Scan, end: int, least: int = 1) -> tuple[Unit, int] | None:
    """The unit of `least` characters or more that stands at `end`, a space, a hyphen or nothing before it; and its end."""
    leads = _LEADS.match(scan.text, end)
    if leads and not scan.cjk and leads[1].lower() not in unit_heads(scan.language):
        return None  # as most words behind a number or an article
    m = _AT_UNIT.match(scan.text, end)
    if m is None:
        return None
    run = m[1]
    if scan.cjk:
        for length in range(min(8, len(run)), 0, -1):
            if unit := scan.units.get(run[:length]):
                return unit, m.start(1) + length
        return None
    words = run.split(" ")
    if unit_head(words[0]) not in unit_heads(scan.language):
        return None
    for count in range(len(words), 0, -1):
        phrase = " ".join(words[:count])
        for form in (phrase, phrase.rstrip(".,;:)!?"), phrase.split("-")[0]):
            unit = scan.units.get(form) or (scan.units.get(form.lower()) if len(form) > 2 else None)
            if unit and (len(form) >= least or not form.isalpha()):
                return _per(scan, form, m.start(1) + len(form)) or (unit, m.start(1) + len(form))
    return None


def _per(scan: Scan, form: str, end: int) -> tuple[Unit, int] | None:
    """ "km / h", with spaces."""
    per = _PER.match(scan.text, end)
    unit = scan.units.get(f"{form}/{per[1]}") if per else None
    return (unit, per.end()) if per and unit else None


def _in_unit(scan: Scan, amount: float, unit: Unit) -> list[Reading]:
    weeks = _SAID_OF_WEEKS.get(scan.language, {}).get(int(amount)) if unit.dimension == "duration" else None
    said = [("duration", weeks * 86400.0, 86400.0)] if weeks and unit.factor == 86400 and amount < 16 else []
    return [converted(amount, unit), *said]


def _sign(scan: Scan, start: int) -> str:
    """The currency sign that stands before a number."""
    before = scan.text[max(0, start - 5) : start].rstrip(" \u00a0\u202f")
    if before[-1:] not in _SIGN_ENDS or len(before) < min(5, start) - 1:
        return ""
    return next((sign for sign in PREFIXES if before.endswith(sign)), "")


def _money(scan: Scan, start: int, end: int, amount: float, sign: str) -> Quantity:
    many, stop = scale(scan, end)
    if letter := _LETTER_SCALE.match(scan.text, end):
        many, stop = _LETTER_SCALES[letter[1]], letter.end()
    amount, start = amount * many, scan.text.rindex(sign, 0, start)
    readings = (("", amount, 1.0), (scan.units[sign].dimension, amount, 1.0))
    return Quantity(start, stop, readings, about=scan.about(start))

"""Does a text tell a value, in whatever notation? `$1,240.50` is 1240.5; `4 March` is 2026-03-04; `3:30 PM` is 15:30."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, time
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from tokenmill.judges.facts.quantities import read
from tokenmill.judges.model.quotes import stands_in
from tokenmill.judges.rubric.conditions import number

_DIGITS = re.compile(
    r"(?<![\w.,])[-+−]?[$€£¥]?\d+(?:[.,'’\u00a0\u202f\u2009 ]\d+)*(?:[.,]\d+)?(?:\s?[kKmM]\b)?(?:\s?%)?"
)
_LIST_MARKER = re.compile(r"^\s*(?:[-*]\s*)?\d{1,2}[.)](?=\s)", re.MULTILINE)
_GROUPED = re.compile(r"\d{1,3}(?:[,'’\u00a0\u202f\u2009 ]\d{3})+(?:\.\d+)?")
_CONTINENTAL = re.compile(r"\d{1,3}(?:[.\u00a0\u202f\u2009 ]\d{3})*(?:,\d+)?|\d+,\d+")
_SEPARATORS = re.compile(r"[,'’\u00a0\u202f\u2009 ]")
_CLOCK = re.compile(
    r"(?<![\d.:])([01]?\d|2[0-3])(?:(?:[:.h](\d\d))(?::\d\d)?(?:\.\d+)?)?\s*([ap]\.?\s?m\b\.?)?", re.IGNORECASE
)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_TIME = re.compile(r"([01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?")
_NUMERIC_DATE = re.compile(r"(?<!\d)(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})(?!\d)")
_EMPHASIS = re.compile(r"\*+|`+|__+|~~")
_NAMES = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
)
_MONTH = re.compile(
    rf"(?<=\d )\b{_NAMES}\b|(?<=(?:\dst|\dnd|\drd|\dth) )\b{_NAMES}\b|(?<=\w\w of )\b{_NAMES}\b"
    rf"|\b{_NAMES}\b(?=\.? (?:the )?\d)"
)
_MONTH_NAME = re.compile(rf"\b(?!may\b|march\b|mar\b){_NAMES}\b", re.IGNORECASE)
_ABOUT = re.compile(
    r"(?:\b(?:about|around|roughly|approximately|approx\.?|nearly|almost|some|circa|ca\.)|[~≈])\s*[$€£¥]?((?:\d[\d,]*)(?:\.\d+)?)",
    re.IGNORECASE,
)
_CENTS = 2
_RUN = re.compile(r"[^\W\d_]+|\d+")
_WORD = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*")
_SCALE = {"k": 1_000, "m": 1_000_000}
_MAX_TOKENS = 4
_MIN_CODE = 5


def tells(text: str, value: Any) -> bool:
    """Whether `text` tells `value`, a number or text; text that is a number, a date or a time is read as such."""
    text = _readable(text)
    if not isinstance(value, str):
        amount = number(value)
        return _tells_number(text, amount) if amount is not None else stands_in(str(value), text)
    value = value.strip()
    if _literally(text, value):
        return True
    if iso := _ISO.fullmatch(value):
        return _tells_date(text, iso[1]) and (not iso[2] or _tells_time(text, iso[2]))
    if _TIME.fullmatch(value):
        return _tells_time(text, value)
    amount = number(value)
    if amount is None and value.endswith("%"):
        amount = number(value[:-1].rstrip())
    if amount is not None and not (value[0] == "0" and value[1:2].isdigit()):
        return _tells_number(text, amount)
    return _in_other_words(text, value)


@lru_cache(maxsize=512)
def _readable(text: str) -> str:
    """Without Markdown's emphasis, and with months capitalised where they stand beside a number."""
    text = _EMPHASIS.sub("", text)
    return _MONTH.sub(lambda m: m[0].title(), text)


def numbers_in(text: str) -> frozenset[Decimal]:
    """The values of all numbers in a text, in every notation that it may be read in."""
    return _numbers(text)


@lru_cache(maxsize=512)
def _numbers(text: str) -> frozenset[Decimal]:
    found: set[Decimal] = set()
    cleaned = _LIST_MARKER.sub(" ", text)
    for match in _DIGITS.finditer(cleaned):
        found.update(_readings(match[0]))
    for quantity in read(cleaned):
        found.update(Decimal(repr(amount)) for dimension, amount, _ in quantity.readings if not dimension)
    return frozenset(found)


def _readings(token: str) -> set[Decimal]:
    percent, token = token.endswith("%"), token.rstrip("% ")
    scale = _SCALE.get(token[-1].lower(), 1)
    digits = token.rstrip("kKmM ").lstrip("-+−$€£¥").strip(" ")
    readings = {digits}
    if _GROUPED.fullmatch(digits):
        readings.add(_SEPARATORS.sub("", digits))
    if _CONTINENTAL.fullmatch(digits):
        readings.add(re.sub(r"[.\u00a0\u202f\u2009 ]", "", digits).replace(",", "."))
    if not _GROUPED.fullmatch(digits):
        readings.update(re.split(r"[,'’\u00a0\u202f\u2009 ]", digits))  # "rooms 12, 14": several numbers
    values = {value for reading in readings if (value := _decimal(reading)) is not None}
    values |= {value * scale for value in values} if scale > 1 else set()
    return values | ({value / 100 for value in values} if percent else set())


def _decimal(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _tells_number(text: str, amount: Decimal) -> bool:
    amount = abs(amount)
    if amount in _numbers(text):
        return True
    # 86.8333 is told by "86.83", and by "about 87".
    if _decimals(amount) > _CENTS and any(_rounds(amount, told, _CENTS) for told in _numbers(text)):
        return True
    return any(_rounds(amount, told, 0) for match in _ABOUT.finditer(text) for told in _readings(match[1]))


def _rounds(amount: Decimal, told: Decimal, decimals: int) -> bool:
    """Whether `told`, which has at least so many decimals, is `amount` rounded."""
    stated = _decimals(told)
    return stated >= decimals and abs(amount - told) <= Decimal(5).scaleb(-stated - 1)


def _decimals(amount: Decimal) -> int:
    """Decimal places that a number states, below zero for such as 12E+3."""
    exponent = amount.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _literally(text: str, value: str) -> bool:
    if stands_in(value, text):
        return True
    runs = _RUN.findall(_bare(value))
    if not runs or sum(map(len, runs)) < 3:
        return False
    if len(runs) == 1 and value.isdecimal() and len(value) >= _MIN_CODE:
        return re.search(rf"(?<!\d){'[ -]?'.join(value)}(?!\d)", text) is not None  # "008 213"
    # "BK-10293" may be written "BK 10293" or "bk10293".
    pattern = r"[\W_]{0,3}".join(map(re.escape, runs))
    return re.search(rf"(?<![^\W_]){pattern}(?![^\W_])", _bare(text)) is not None


@lru_cache(maxsize=512)
def _bare(text: str) -> str:
    """Lower case without accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _tells_date(text: str, wanted: str) -> bool:
    try:
        day = date.fromisoformat(wanted)
    except ValueError:
        return False
    other_year = rf"{_NAMES}\.? (?:the )?{day.day}(?:st|nd|rd|th)?,? (?!{day.year})(?:19|20)\d\d\b"
    other_year += rf"|\b{day.day}(?:st|nd|rd|th)? (?:of )?{_NAMES},? (?!{day.year})(?:19|20)\d\d\b"
    rest = re.sub(other_year, " ", re.sub(rf"(?!{day.year})\b\d{{4}}-\d\d-\d\d", " ", text), flags=re.IGNORECASE)
    if any(("date", day.month * 100 + day.day, 1.0) in quantity.readings for quantity in read(rest)):
        return True
    if re.search(rf"\bthe {day.day}(?:st|nd|rd|th)\b(?! of)", text, re.IGNORECASE) and not _MONTH_NAME.search(text):
        return True
    for match in _NUMERIC_DATE.finditer(text):
        parts = [int(part) for part in match.groups()]
        parts = [part + 2000 if len(match[i + 1]) == 2 and i == 2 else part for i, part in enumerate(parts)]
        if sorted(parts) == sorted((day.year, day.month, day.day)):
            return True
    return False


def _tells_time(text: str, wanted: str) -> bool:
    at = time.fromisoformat(wanted if wanted.index(":") == 2 else f"0{wanted}")
    lower = text.lower()
    if (at.hour, at.minute) in ((12, 0), (0, 0)) and ("noon" if at.hour else "midnight") in lower:
        return True
    for hour, minute, half in _CLOCK.findall(text):
        if not minute and not half:
            continue
        hours = int(hour)
        readings = {hours} if not half else {hours % 12 + (12 if half[0].lower() == "p" else 0)}
        if at.hour in readings and int(minute or 0) == at.minute:
            return True
    return False


def _in_other_words(text: str, value: str) -> bool:
    """Whether the few words of a value stand in the text in another form: "5 nights" in "a five-night stay"."""
    tokens = _WORD.findall(_bare(value))
    if not 1 < len(tokens) <= _MAX_TOKENS or not any(token[0].isdigit() for token in tokens):
        return False
    present = {_stem(word) for word in _WORD.findall(_bare(text))}
    numbers = _numbers(text)
    return all(
        (number(token) in numbers if token[0].isdigit() else _stem(token) in present) for token in tokens
    )  # fmt: skip


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word

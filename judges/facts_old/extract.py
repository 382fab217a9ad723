"""The checkable facts of a text: numbers with their units, dates, and names, each with its place.

One combined regular expression finds every candidate; number words, which need their own grammar, are looked for only
when the text's set of words has one. Facts are compared through keys, not through their spelling: "1,204" and "1204",
"twelve" and "12", "3 March" and "March 3rd", "5 km" and "5 kilometres" share their keys.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from tokenmill.judges.facts.number_words import note_spelled
from tokenmill.judges.facts.tables import (
    CURRENCY_CODES,
    DECADES,
    FUNCTION_WORDS,
    IMPLIED,
    MONTHS,
    NUMBER_WORDS,
    PARTICLES,
    ROMAN,
    SCALES,
    SHORT_SCALES,
    UNIT_PREFIXES,
    UNITS,
)
from tokenmill.judges.facts.text import AFTER, COMPOUND, Fact, canonical, split_words, starts_sentence, unit_of

NAMELESS = frozenset(("de", "lb"))
"""Languages that capitalise every noun, so that a capital says nothing about names."""


class Facts(NamedTuple):
    """Everything that `extract` finds in one text."""

    numbers: tuple[Fact, ...]
    """Numbers and dates, in no particular order."""
    names: tuple[Fact, ...]
    keys: frozenset[str]
    """First keys of the numbers and dates."""
    units: frozenset[tuple[str, str]]
    """(first key, unit) of the numbers that have a unit."""
    offers: frozenset[str]
    """Keys of numbers and dates that the text keeps, whether named or implied ("both" keeps 2)."""
    words: frozenset[str]
    """All words, lower-cased."""
    name_words: frozenset[str]
    """Words of the names."""
    acronyms: frozenset[str]
    """Acronyms, lower-cased: `un`."""
    initials: frozenset[str]
    """What names of several words would be abbreviated to: `un` for "United Nations"."""


def _candidate(upper: str, digit: str) -> re.Pattern[str]:
    """Finds names and numbers: (rest of a name | None, rest of the digits, letters attached, word after).

    It begins with the one character class that everything begins with, which lets the engine skip to it.
    """
    name = rf"[{upper}]\w*(?:['’.&–-][^\W\d]\w*)*"
    rest = r"\w*(?:['’.&–-][^\W\d]\w*)*"
    particles = "|".join(sorted(PARTICLES))
    return re.compile(
        rf"[{upper}{digit}\[hw](?:"
        rf"(?<=[{upper}])({rest}(?:(?: (?:(?:{particles}) ){{0,3}}|(?<=\b[A-Z])(?<!°[A-Z])\. ?){name})*)"
        rf"|(?<=[{digit}])(\d*(?:[.,]\d+)*)([A-Za-z]*)(?=[ \u00a0-]?([%°€$£¥]?(?:[^\W\d_]|[²³/])*\d?))"
        r"|(?<=h)ttps?://\S+|(?<=w)ww\.\S+|(?<=\[)\d+\])"
    )


_UPPER = "".join(c for c in map(chr, [*range(0x41, 0x530), *range(0x1E00, 0x2000)]) if c.isupper())
_ASCII_CANDIDATE, _ANY_CANDIDATE = _candidate("A-Z", "0-9"), _candidate(_UPPER, r"\d")
_MONTH = (
    r"(?:(?:January|February|April|June|July|September|October|November|December|August|March|May)\b"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\b\.?)"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?(?!\d|[.,:]\d)"
_MONTH_DAYS = re.compile(rf"{_MONTH} (?:the )?({_DAY}(?:(?:–|-|, and |, | and | to ){_DAY}(?! ?[A-Za-z%]))*)")
_DAY_FIRST = re.compile(
    rf"(?:st|nd|rd|th)?(?: ?(?:–|-|and|to|or|,|&) ?\d{{1,2}}(?:st|nd|rd|th)?){{0,4}}(?: of)? ({_MONTH})"
)
_MONTH_WORD = re.compile(rf"\b{_MONTH}(?!\w)")
_MAY_I = re.compile(r"May (?:I|we|you|he|she|it|they|one|the|an?|this|these|my|our|your|any(?:one|body)?)\b(?! \d)")
"""A question or a wish, where it begins a sentence."""
_YEAR_AFTER = re.compile(r"\.? (?:1\d|20)\d\d\b")
_ORDINAL_ENDINGS = ("", "st", "nd", "rd", "th", "d")
_ERAS = ("", "ad", "bc")
_ISO_REST = re.compile(r"-(\d\d)-(\d\d)(?!\d)")
_NUMERIC_DATE = re.compile(r"([0-3]?\d)/([0-3]?\d)/((?:1\d|20)\d\d)(?!\d)")
_VULGAR = {"½": ".5", "¼": ".25", "¾": ".75"}
_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[^\W\d_]*")
_SCALING = frozenset(
    [*SCALES, *SHORT_SCALES, *UNIT_PREFIXES, "century", "centuries", "and", "to", "or", "of", "bc", "bce", "ad", "ce"]
)
_NO_DATE = FUNCTION_WORDS - _SCALING
_NO_NAME = (
    PARTICLES
    | NUMBER_WORDS
    | FUNCTION_WORDS
    | CURRENCY_CODES
    | {"bc", "bce", "ad", "ce", "am", "pm", "op", "opus", "nos", "vol", "ed", "ph"}
    | {"ne", "nw", "se", "sw", "nne", "ene", "ese", "sse", "ssw", "wsw", "wnw", "nnw"}
)
SHORT_COUNTRIES = frozenset(["us", "dc", "uk", "un", "eu", "usa", "ussr", "uae"])
_SPELLED_ACRONYMS = frozenset(["us", "it", "who", "un"])
"""Function words that are names in capitals."""
_NUMBER_WORDS = NUMBER_WORDS - {"one", "first"}
"""Number words that are worth a search; "one" and "first" are never facts on their own."""
_ONCE = frozenset(["one", "first"])
_IMPLYING = frozenset([*IMPLIED, *DECADES])
_CACHED = 20_000
"""Longest text, in characters, whose facts are remembered."""


def extract(text: str, language: str = "en") -> Facts:
    """Facts of `text`; the same text (a source chunk under repair) is read once.

    Number words are read in English only (`en`, or empty or `und` when it is not known); names in every language whose
    capitals mark them. Time and memory are linear in the length of the text.
    """
    english = language[:2] in ("en", "", "un")
    named = language[:2] not in NAMELESS
    return _remembered(text, english, named) if len(text) <= _CACHED else _extract(text, english, named)


def _extract(text: str, english: bool, named: bool) -> Facts:
    words = frozenset(split_words(text))
    numbers: list[Fact] = []
    names: list[Fact] = []
    offers: set[str] = set()
    name_words: set[str] = set()
    acronyms: set[str] = set()
    initials: set[str] = set()
    year, year_end, read_until, marker = "", -1, 0, 0
    for match in (_ASCII_CANDIDATE if text.isascii() else _ANY_CANDIDATE).finditer(text):
        rest, more_digits, attached, after = match.groups()
        start, end = match.span()
        digits = "" if more_digits is None else text[start] + more_digits
        if rest is not None:
            run = match[0]
            found, short, numerals, month, strong = _run(run) if end - start < 200 else _read_run(run)
            if month >= 0:
                read_until = _month(text, run, start + month, month, numbers, offers)
            if named and found and not (run.lower() in UNITS and _measures(text, start)):
                strong = strong or (start > 1 and text[start - 1] == " " and text[start - 2].islower())
                names.append(Fact("name", start, end, found, "", strong or not starts_sentence(text, start)))
                name_words.update(found)
                if numerals:
                    offers.update(numerals)
            if short:
                (acronyms if len(found) == 1 else initials).add(short)
        elif digits and start >= read_until:
            before = text[start - 1] if start else " "
            if before == " " and text[start - 2 : start - 1].islower() and (plain := _plain(digits, attached, after)):
                kind, value, unit, keys = plain  # most numbers, quickly
                numbers.append(Fact(kind, start, end, keys, unit))
                offers.add(value)
                year, year_end = value if kind == "date" else "", end
                continue
            if before.isascii() and before.isalpha():
                continue
            if not attached and text[end : end + 1] in (".", ")") and _list_marker(text, start, end):
                counted = marker + 1
                marker = int(digits) if digits.isdecimal() and len(digits) < 4 else 0
                if marker in (1, counted) or (counted == 1 and marker):
                    continue  # a number out of its turn marks no item
                marker = counted
            joined = start == year_end + 1 and year and not attached and text[year_end] in "-–/"
            year, read_until = _number(
                text, (start, end), (digits, attached, after), numbers, offers, english, year if joined else ""
            )
            year_end = end
    if english:
        if not _NUMBER_WORDS.isdisjoint(words):
            note_spelled(text, words & _NUMBER_WORDS, numbers, offers)
        if not _ONCE.isdisjoint(words):
            offers.add("1")
        for word in words & _IMPLYING:
            offers.add(IMPLIED.get(word) or f"~{DECADES[word]}s")
    return Facts(
        tuple(numbers),
        tuple(names),
        frozenset([fact[3][0] for fact in numbers]),
        frozenset([(fact[3][0], fact[4]) for fact in numbers if fact[4]]),
        frozenset(offers),
        words,
        frozenset(name_words),
        frozenset(acronyms),
        frozenset(initials),
    )


_remembered = lru_cache(maxsize=1024)(_extract)


def forget() -> None:
    """Empty the memory of texts already read, for measurements."""
    _remembered.cache_clear()


def _measures(text: str, start: int) -> bool:
    """Whether the word at `start` follows a number or "degrees", so that its capital is that of a unit."""
    return start > 1 and (text[start - 2].isdigit() or text.endswith(("degrees ", "degree "), max(0, start - 8), start))


def _list_marker(text: str, start: int, end: int) -> bool:
    """Whether the digits only number a line: "2. Then ..."."""
    if text[end + 1 : end + 2] not in (" ", ""):
        return False
    before = text[max(0, start - 8) : start].rstrip(" *-")
    return before.endswith("\n") or (not before and start < 8)


def _scaled(value: str, scale: int) -> str:
    try:
        return canonical(format(Decimal(value) * scale, "f"))
    except InvalidOperation:
        return value


@lru_cache(maxsize=1 << 13)
def _plain(digits: str, attached: str, after: str) -> tuple[str, str, str, tuple[str, ...]] | None:
    """(kind, value, unit, keys) of a number that needs no look at its surroundings, or else None.

    It has digits only and may be a year or have a unit of one word; the word after it neither scales it nor makes it a
    date.
    """
    lower = after.lower()
    if attached or not digits.isascii() or not digits.isdecimal() or digits[0] == "0":
        return None
    if (not after.islower() and after) or lower in _SCALING:
        return None
    unit = UNITS.get(lower, "")
    if unit in COMPOUND:
        return None
    if len(digits) == 4 and "1000" <= digits <= "2100" and not unit:
        return ("date", digits, "", (digits,)) if after else None  # an ISO date may follow
    return ("number", digits, unit, (digits,)) if len(digits) > 2 or lower in _NO_DATE or unit else None


def _number(
    text: str,
    span: tuple[int, int],
    parts: tuple[str, str, str],
    numbers: list[Fact],
    offers: set[str],
    english: bool,
    range_start: str,
) -> tuple[str, int]:
    """Note the number at `span`: its digits, the letters attached to them, the word after.

    Returns it when it is a plain year (for "1914–18"), or else "", and where the reading of numbers goes on.
    """
    digits, attached, after = parts
    start, end = span
    value = canonical(digits, english)
    ending = attached.lower()
    if ending in _ORDINAL_ENDINGS:
        small = value == digits and len(value) <= 2 and int(value) <= 31
        if small and (days := _DAY_FIRST.match(text, start + len(digits))):
            month = MONTHS[days[1].rstrip(".").lower()]
            for day in [value, *_DIGITS.findall(days[0])]:
                _date(month, day.lstrip("0"), start, days.end(), numbers, offers)
            return "", days.end()
    elif ending == "s" and value == digits and value[-1] == "0" and len(value) in (2, 4):
        _decade(value, start, end, numbers, offers)
        return "", end
    elif attached not in UNITS and (ending not in SHORT_SCALES or attached.isupper()):
        numbers.append(Fact("number", start, end, (value + ending,)))
        offers.update((value + ending, value))
        return "", end
    if text[end : end + 1] == "/" and len(digits) <= 2 and (numeric := _NUMERIC_DATE.match(text, start)):
        return "", _numeric_date(numeric, numbers, offers)
    unit = currency = text[start - 1] if start and text[start - 1] in "$£€¥" else ""
    ordinal = attached and ending in _ORDINAL_ENDINGS
    word, at = (attached, start + len(digits)) if attached and not ordinal else (after, end)
    if word[:1] in _VULGAR and text[at : at + 1] == word[0]:
        value = canonical(value + _VULGAR[word[0]])
        follows = AFTER.match(text, at + 1)
        word, at = (follows[1] if follows else ""), at + 1
        end = at
    if word:
        lower = word.lower()
        scale = SCALES.get(lower) or (SHORT_SCALES.get(lower) if currency or lower in ("bn", "mn") else None)
        if scale:
            value = _scaled(value, scale)
            end = text.index(word, at) + len(word)
            follows = AFTER.match(text, end)
            word, at = (follows[1] if follows else ""), end
        if word and not currency and not ordinal:
            unit = unit_of(word, text, at)
    year = digits if value == digits and len(value) == 4 and "1000" <= value <= "2100" and unit in _ERAS else ""
    keys: tuple[str, ...] = (value,)
    if year and not attached and (iso := _ISO_REST.match(text, end)) and 1 <= int(iso[1]) <= 12:
        _date(int(iso[1]), iso[2].lstrip("0"), start, iso.end(), numbers, offers)
        end = iso.end()
    elif range_start and len(value) == 2 and digits > range_start[2:]:
        keys = (range_start[:2] + digits, value)
    elif word in ("century", "centuries") and value.isdecimal() and len(value) < 3:
        keys = (value, f"{int(value) - 1}00s")
        unit = ""
    offers.update(keys)
    dated = year or len(keys) == 2 or unit in ("ad", "bc")
    numbers.append(Fact("date" if dated else "number", start, end, keys, unit))
    return year, end


def _numeric_date(match: re.Match, numbers: list[Fact], offers: set[str]) -> int:
    """Note "3/12/1958", whose day and month may stand in either order; returns where its year begins."""
    pairs = [(m, d) for m, d in ((match[2], match[1]), (match[1], match[2])) if 0 < int(m) <= 12 and 0 < int(d) <= 31]
    keys = tuple(dict.fromkeys(f"{int(m)}/{int(d)}" for m, d in pairs))
    if keys:
        for key in keys:
            month, _, day = key.partition("/")
            offers.update((key, f"m{month}", day))
        numbers.append(Fact("date", match.start(), match.end(2), keys))
    return match.start(3)


def _decade(value: str, start: int, end: int, numbers: list[Fact], offers: set[str]) -> None:
    if len(value) == 4:
        offers.update((f"{value}s", f"+{value[2:]}s"))
        keys = (f"{value}s", f"~{value[2:]}s")
        if value.endswith("00"):
            keys += (str(int(value[:2]) + 1),)
    else:
        offers.add(f"~{value}s")
        keys = (f"~{value}s", f"+{value}s")
    numbers.append(Fact("date", start, end, keys))


def _date(month: int, day: str, start: int, end: int, numbers: list[Fact], offers: set[str]) -> None:
    offers.update((f"{month}/{day}", f"m{month}", day))
    numbers.append(Fact("date", start, end, (f"{month}/{day}",)))


def _month(text: str, run: str, start: int, offset: int, numbers: list[Fact], offers: set[str]) -> int:
    """Note the month at `start`, at `offset` in its run, with the days after it; returns where reading goes on."""
    month = MONTHS[text[start : start + 3].lower()]
    if days := _MONTH_DAYS.match(text, start):
        for day in _DIGITS.finditer(days[1]):
            _date(month, day[0].lstrip("0"), start, days.start(1) + day.end(), numbers, offers)
        return days.end()
    word = _LETTERS.match(run, offset)[0]
    if word.lower() in MONTHS and (len(word) > 3 or word == "May" or _YEAR_AFTER.match(text, start + len(word))):
        if word == "May" and _MAY_I.match(text, start) and starts_sentence(text, start):
            return 0
        offers.add(f"m{month}")
        doubtful = word in ("May", "March", "August", "April", "June") and (
            len(run) > offset + len(word) or starts_sentence(text, start) or text[start - 2 : start - 1].isupper()
        )  # it may be a name or begin a sentence
        numbers.append(Fact("date", start, start + len(word), (f"m{month}",), "", not doubtful))
    return 0


class _Run(NamedTuple):
    """What a run of capitalised words holds."""

    words: tuple[str, ...]
    acronym: str
    numerals: tuple[str, ...]
    """Values of its Roman numerals."""
    month: int
    """Offset of the first month's name, or -1."""
    led: bool
    """Whether an article or the like stands before the first of `words`."""


def _read_run(run: str) -> _Run:
    every = split_words(run)
    words = [w for w in every if len(w) > 1 and (w not in _NO_NAME or (w in _SPELLED_ACRONYMS and w.upper() in run))]
    month = next((m.start() for m in _MONTH_WORD.finditer(run)), -1)
    if month >= 0:
        words = [w for w in words if w not in MONTHS] if len(words) <= 1 or month == 0 else words
    if "." in run and len(run) < 200:  # "the U.S. Army"
        words += [w for w in run.replace(".", "").lower().split() if w in SHORT_COUNTRIES]
    distinct = tuple(dict.fromkeys(words))
    numerals = tuple([ROMAN[w] for w in words if w in ROMAN])
    return _Run(distinct, acronym(distinct, run), numerals, month, words[:1] != every[:1])


def acronym(words: tuple[str, ...], run: str) -> str:
    """What a name is abbreviated to ("un" for United Nations), or the acronym that it is, or an empty string."""
    if len(words) == 1:
        return words[0] if len(words[0]) <= 8 and words[0].upper() in run.replace(".", "") else ""
    return "".join([word if word in ROMAN else word[0] for word in words]) if 1 < len(words) <= 8 else ""


_run = lru_cache(maxsize=1 << 14)(_read_run)

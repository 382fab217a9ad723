"""Reads the numbers, dates and measures of a text: figures, words and numerals of several languages.

The words that can begin a quantity (`_starts`) are looked up in one table, and figures found in one pass, so that a text
costs little beyond its tokens. Every pass is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice

from tokenmill.judges.facts.number_words import (
    COLLECTIVES,
    FRACTIONS,
    HAN,
    HAN_COUNTERS,
    MYRIADS,
    SCALES,
    first_words,
    han_value,
    korean,
    roman_value,
    spelled_at,
)
from tokenmill.judges.facts.quantity import Quantity, Reading
from tokenmill.judges.facts.units import CJK, PREFIXES, READ, Unit, units_of
from tokenmill.judges.math.lexicon import vocabulary
from tokenmill.judges.math.numerals import DIGITS, NUMBER, comma_decimal, value

MAX_QUANTITIES = 2_000
"""Numbers of one text that are read; a table of more is for the judge."""
MAX_NUMERAL = 40
"""Characters of a numeral; a longer one is an identifier."""

_ABOUT = {
    "en": vocabulary("about around nearly almost roughly approximately approx some over just circa ca close more"),
    "de": vocabulary("etwa rund ungefähr fast knapp circa ca gut über mehr als beinahe nahezu annähernd unter"),
    "fr": vocabulary("environ près presque quelque quelques plus de autour moins"),
    "es": vocabulary("unos unas casi cerca alrededor aproximadamente más de menos"),
    "ru": vocabulary("около почти примерно порядка более свыше менее приблизительно"),
}
"""Words before a number that make it an approximation."""
_CJK_ABOUT = re.compile("(?:约|約|大约|近|超过|およそ|ほぼ|약|거의|대략) ?$")
_LETTERS = re.compile(r"[^\W\d_]+")
_CENTURY = re.compile(
    r"[-. ]{0,2}(?:centur(?:y|ies)|jahrhunderts?|siècles?|век[аеуи]?\b|столети\w+|世纪|世紀|세기|secolo|século)",
    re.IGNORECASE,
)
_CENTURY_BEFORE = ("siglo ", "siglos ", "século ")
_DECADE = re.compile(r"['’]?s\b|er\b|-х\b|-е\b|年代|년대")
_ORDINAL_END = re.compile(r"(?:st|nd|rd|th|ère|er|ème|e|º|ª|ter|ten|te|-?(?:й|го|му|м|я|ю|е|х))\b")
_SYMBOL_SCALE = re.compile(r" ?(k|K|M|bn|m|тыс\.?|млн|млрд|Mio\.?|Mrd\.?)\b(?!\w)")
_SYMBOLS = {"k": 1e3, "K": 1e3, "M": 1e6, "bn": 1e9, "тыс": 1e3, "млн": 1e6, "млрд": 1e9, "Mio": 1e6, "Mrd": 1e9}
_URL = re.compile(r"https?://\S+|www\.\S+|\S{1,200}@\S+")
_MARK_BEFORE = re.compile(r"[ \t>*#|-]*(?:Q|A|F|R|S|Step|Part|Schritt|Étape|Paso|Шаг)?[ .]?\(?")
_MARK_AFTER = re.compile(
    r"[.):](?=\s)(?! ?(?:Jahrhundert|Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember))"
)
_CLOCK = re.compile(
    r"(?P<hour>[01]?\d|2[0-4])"
    r"(?:(?P<colon>[:.])(?P<minute>[0-5]\d)(?!\d)(?:[:.](?P<seconds>[0-5]\d)(?!\d))?(?P<sign> ?(?:Uhr|h)\b)?"
    r"| ?(?P<mark>h|Uhr|時|时|点|點|시)(?![間间간]|[^\W\d_]) ?(?P<after>[0-5]?\d)?[分분]?)?"
    r"(?:\s?(?P<half>[ap])\.?\s?m\b\.?)?"
)
_PAST = re.compile(r"(?: minutes?)? (past|after|to|before) ([^\W\d_]+|\d{1,2})\b")
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
_PERIODS = {"fortnight": 14 * 86400, "fortnights": 14 * 86400, "quinzaine": 14 * 86400}
_SAID_OF_WEEKS = {"fr": {15: 14, 8: 7}, "es": {15: 14, 8: 7}, "de": {8: 7}}
"""Days as which one or two weeks are told: quinze jours, acht Tage."""
_ARTICLES = vocabulary("a an eine einem einen un une una")
_NO_MONTHS = vocabulary("may march mar mai sep dec")
"""Short months that are also words, unless they have a capital."""
_UNSURE_MONTHS = vocabulary("may mar dec sep march")
_ROMAN = re.compile(
    r"(?=[IVXLCDM])(M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3}))(?:e|er|ème)?(?![\w.º]*\w)"
)
_HAN_NUMBER = re.compile(rf"[{HAN}]+")
_CJK_DATE = re.compile(r"(\d{1,2}) ?[月월](?: ?(\d{1,2}) ?[日号號일])?")
_PART_OF = re.compile(rf"([\d{HAN}]{{1,12}}) ?[分분] ?[のの之의지] ?([\d{HAN}]{{1,12}})")
_TENTHS = re.compile("[成割할]")
_WORD = re.compile(r"([^\W\d_]+(?:['’](?=[^\W\d_])[^\W\d_]+)?)")
_FILLERS = vocabulary("a an of the d de la le un une der die das dem den eine einem einer von el los las del")
_YEAR_BEFORE = re.compile(r"(\d{2})\d{2}\s?[-–—/]\s?$")
_YEAR_AFTER = re.compile(r",? (?:1\d|20)\d\d\b")
_DAYS_BEFORE = re.compile(
    r"((?:(?<![\d.,])\d{1,2}(?:st|nd|rd|th|er|\.|º)?(?:,? ?(?:and|to|und|bis|et|au|y|al|и|или|or|&|–|-|—|,) ?)?){1,4})"
    r"(?: (?:of|de|day of))?[ \u00a0]$"
)
_DAYS_AFTER = re.compile(
    r"\.? (?:the )?((?:\d{1,2}(?:st|nd|rd|th)?(?![\d:.,]\d|\d)(?:,? ?(?:and|to|or|&|–|-|—) ?(?=\d))?){1,4})"
)
_ONE_OR_TWO_DIGITS = re.compile(r"\d{1,2}")
_WHOLE_BEFORE = re.compile(r"(\w+) (?:and a|and|et|y|und) $")
_AND_HALF = re.compile(r" (?:and a half|et demie?|y medi[ao])\b")
_LETTER_SCALE = re.compile(r" ?(m|k|bn|M|K|B|tn)\b")
_LETTER_SCALES = {"m": 1e6, "k": 1e3, "bn": 1e9, "M": 1e6, "K": 1e3, "B": 1e9, "tn": 1e12}
_SCALE = re.compile(r"[ \u00a0\u202f-]?([^\W\d_]+)")
_PART = re.compile(r"(?: (?:in|out of|of the|of|von|sur|de cada|из) |/(?=\d))(\w+)")
_AT_UNIT = re.compile(
    r"[ \u00a0\u202f-]?(?:с лишним )?((?:[^\W\d_]|[%°²³µμ℃％‰$€£])(?:[^\s\d]|(?<=[mk])[23]){0,40}(?: [^\W\d_]{1,40}){0,2})"
)
_SIGN_ENDS = frozenset(sign[-1] for sign in PREFIXES)
_JOINED = re.compile(r",? ?(?:and|und|et|y|и)? ?")
_NUMERAL = {comma: re.compile(pattern) for comma, pattern in NUMBER.items()}
_OTHER_DIGIT = re.compile("[" + "".join(map(chr, DIGITS)) + "]")


def read(text: str, language: str = "en") -> tuple[Quantity, ...]:
    """The quantities of a text, by place, `MAX_QUANTITIES` at most. A language that is not among `READ` is read as English is."""
    return _read(text, language[:2] if language[:2] in READ else "en")


@lru_cache(maxsize=64)
def _read(text: str, language: str) -> tuple[Quantity, ...]:
    found = sorted(islice(_Reader(text, language).all(), MAX_QUANTITIES), key=lambda q: (q.start, -q.end))
    kept: list[Quantity] = []
    for quantity in found:
        if kept and quantity.end <= kept[-1].end:
            continue
        beside = kept and _JOINED.fullmatch(text, kept[-1].end, max(quantity.start, kept[-1].end))
        if beside and (joined := _together(kept[-1], quantity)):
            kept[-1] = joined
        else:
            kept.append(quantity)
    return tuple(kept)


def _together(one: Quantity, other: Quantity) -> Quantity | None:
    """ "2 hours 14 minutes" is one duration, "5 feet 9 inches" one length."""
    for dimension, amount, size in one.readings:
        for also, more, smaller in other.readings:
            if dimension == also and dimension in ("duration", "length", "mass") and smaller < size:
                return Quantity(one.start, other.end, ((dimension, amount + more, smaller),), one.strong, one.about)
    return None


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
def _starts(language: str) -> frozenset[str]:
    """Words with which a quantity may begin: those of a text that are not among them are passed over."""
    tables = (FRACTIONS, COLLECTIVES, SCALES)
    return first_words(language).union(
        _months(language), _WORD_TIMES, _DAY_STARTS, _PERIODS, _ARTICLES, *(table.get(language, {}) for table in tables)
    )


def _head(word: str) -> str:
    return word.partition("-")[0].rstrip(".,;:)!?").lower()


@lru_cache(maxsize=16)
def _unit_heads(language: str) -> frozenset[str]:
    """The first words of units, in small letters."""
    return frozenset(_head(unit.partition(" ")[0]) for unit in units_of(language))


class _Reader:
    """One reading of one text. `_taken` marks the characters that belong to a quantity already."""

    def __init__(self, text: str, language: str) -> None:
        self.text = text.translate(DIGITS) if not text.isascii() and _OTHER_DIGIT.search(text) else text
        self.language, self.units = language, units_of(language)
        parts = _WORD.split(self.text)  # gap, word, gap, word, ..., gap
        ends = list(accumulate(map(len, parts)))
        self.raw, self.starts, self.ends = parts[1::2], ends[0::2], ends[1::2]
        self.words = [word.lower() for word in self.raw]
        known = _starts(language)
        self.candidates = [i for i, word in enumerate(self.words) if word in known]
        self._taken = bytearray(len(self.text))
        if "@" in text or "://" in text or "www." in text:
            for m in _URL.finditer(self.text):
                self._take(*m.span())

    def all(self) -> Iterator[Quantity]:
        """Every quantity, some of them inside another: the longest at a place is the one that counts."""
        yield from self._dates()
        if self.language in CJK:
            yield from self._cjk_parts()
        yield from self._figures()
        yield from self._spelled()
        if self.language in ("zh", "ja"):
            yield from self._han()
        if self.language == "ko":
            for start, end, amount in korean(self.text):
                if self._free(start, end):
                    yield self._measured(start, end, amount, strong=amount > 2)
        yield from self._romans()

    def _take(self, start: int, end: int) -> None:
        self._taken[start:end] = b"\1" * (end - start)

    def _free(self, start: int, end: int) -> bool:
        return self._taken.find(1, start, end) < 0

    # -- dates and times

    def _dates(self) -> Iterator[Quantity]:
        if self.language in CJK:
            yield from self._cjk_dates()
        months = _months(self.language)
        for at in self.candidates:
            word = self.words[at]
            if word in _DAY_STARTS and (named := self._named_day(at)):
                yield named
            elif word in _WORD_TIMES:
                yield _at_time(self.starts[at], self.ends[at], _WORD_TIMES[word])
            elif word in months and (word not in _NO_MONTHS or self.raw[at][0].isupper()):
                yield from self._month(at, months[word])

    def _cjk_dates(self) -> Iterator[Quantity]:
        for m in _CJK_DATE.finditer(self.text):
            month, day = int(m[1]), int(m[2] or 0)
            if 1 <= month <= 12 and day <= 31:
                self._take(*m.span())
                yield Quantity(*m.span(), (("date", month * 100 + day, 1.0) if day else ("month", month, 1.0),))
        for m in _CJK_TIME.finditer(self.text):
            yield _at_time(*m.span(), _CJK_TIMES[m[0]])

    def _named_day(self, at: int) -> Quantity | None:
        for count in (3, 2, 1):
            day = _DAYS.get(" ".join(self.words[at : at + count]).replace("’", "'"))
            if day:
                last = min(at + count, len(self.words)) - 1
                return Quantity(self.starts[at], self.ends[last], (("date", float(day), 1.0),), strong=False)
        return None

    def _month(self, at: int, month: int) -> Iterator[Quantity]:
        start, end = self.starts[at], self.ends[at]
        days = list(self._days_beside(start, end))
        for first, last, day in days:
            self._take(first, last)
            readings = (("date", month * 100.0 + day, 1.0), ("month", float(month), 1.0))
            yield Quantity(min(first, start), max(last, end), readings)
        if not days and (self.words[at] not in _UNSURE_MONTHS or _YEAR_AFTER.match(self.text, end)):
            yield Quantity(start, end, (("month", float(month), 1.0),))

    def _days_beside(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Days of the month beside its name: "3, 4 and 5 March", "March 3rd–5th", "le 1er mars", "3. März", "5 de mayo"."""
        base = max(0, start - 40)
        near = any(c.isdigit() for c in self.text[max(0, start - 12) : start])
        found = _DAYS_BEFORE.search(self.text[base:start]) if near else None
        if found is None:
            base, found = end, _DAYS_AFTER.match(self.text[end : end + 40])
        for m in _ONE_OR_TWO_DIGITS.finditer(found[1]) if found else ():
            if found and 1 <= int(m[0]) <= 31:
                yield base + found.start(1) + m.start(), base + found.start(1) + m.end(), int(m[0])

    def _clock(self, start: int) -> Quantity | None:
        """The time of day that figures tell."""
        m = _CLOCK.match(self.text, start)
        if m is None or (self.text[start - 1 : start] in (":", ".", ",") and self.text[max(0, start - 2)].isdigit()):
            return None
        hour, minute = int(m["hour"]), int(m["minute"] or m["after"] or 0)
        half = m["half"] if self.language in ("en", "zh", "ja", "ko") else None
        if not (m["colon"] == ":" or m["sign"] or m["mark"] or half) or not self._free(*m.span()):
            return None
        self._take(*m.span())
        if m["seconds"]:
            spent = ("duration", hour * 3600.0 + minute * 60 + int(m["seconds"]), 1.0)
            return Quantity(*m.span(), (spent, ("time", hour * 60.0 + minute, 1.0)))
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        minutes = [hour * 60.0 + minute]
        if not half and hour <= 12:
            minutes.append((minutes[0] + 720) % 1440)
        lasting = [("duration", hour * 3600.0 + minute * 60, 60.0)] if m["mark"] in ("h", "시") else []
        bare = [("", float(m["hour"]), 1.0), *([("", float(f"{hour}.{minute:02}"), 1.0)] if m["minute"] else [])]
        return Quantity(*m.span(), (*(("time", at, 1.0) for at in minutes), *lasting, *bare))

    def _past(self, start: int, end: int, minutes: float) -> Quantity | None:
        """ "six minutes past six", "half past ten", "a quarter to nine"."""
        m = _PAST.match(self.text, end) if self.language == "en" else None
        hour = self._value(m[2]) if m else None
        if m is None or hour is None or not 0 < hour <= 24 or not 0 < minutes < 60:
            return None
        lasting = self._unit(m.end(), 2)  # "five to ten minutes"
        if (m[1] in ("to", "before") and minutes != 15 and "minute" not in m[0]) or (
            lasting and lasting[0].dimension == "duration"
        ):
            return None
        at = hour * 60 + (minutes if m[1] in ("past", "after") else -minutes)
        self._take(start, m.end())
        return Quantity(start, m.end(), (("time", at % 1440, 1.0), ("time", (at + 720) % 1440, 1.0)))

    # -- figures

    def _cjk_parts(self) -> Iterator[Quantity]:
        """ "三分之一", "3분의 1"."""
        for m in _PART_OF.finditer(self.text):
            whole, part = (float(n) if n.isdecimal() else han_value(n) for n in m.groups())
            if whole and part:
                self._take(*m.span())
                yield Quantity(*m.span(), (("share", part / whole, 1.0),), strong=False)

    def _figures(self) -> Iterator[Quantity]:
        text, comma = self.text, comma_decimal(self.language)
        for m in _NUMERAL[comma].finditer(text):
            start, end = m.span()
            before, after = text[start - 1 : start], text[end : end + 1]
            if end - start > MAX_NUMERAL or (before and (before == "_" or before.isalpha()) and before.isascii()):
                continue
            if not self._free(start, end) or (
                end - start <= 2 and after in (".", ")", ":") and self._marks(start, end)
            ):
                continue
            maybe_clock = after in (":", " ", "h", "a", "p", "U", "時", "时", "点", "點", "시", "\u00a0") or "." in m[0]
            if maybe_clock and (clock := self._clock(start)):
                yield clock
                continue
            amount = float(value(m[0], comma)[0])
            yield self._past(start, end, amount) or self._figure(start, end, amount)

    def _marks(self, start: int, end: int) -> bool:
        """Whether a figure numbers a line of a list."""
        line = self.text.rfind("\n", max(0, start - 20), start) + 1
        at_start = line > 0 or start < 20
        return at_start and bool(_MARK_BEFORE.fullmatch(self.text, line, start) and _MARK_AFTER.match(self.text, end))

    def _figure(self, start: int, end: int, amount: float) -> Quantity:
        text = self.text
        extra: list[Reading] = []
        if end - start == 2 or (end - start < 2 and text[start - 1 : start] in ("-", "–", "—", "/")):
            if year := _YEAR_BEFORE.search(text[max(0, start - 7) : start]):
                extra.append(("", int(year[1]) * 100 + amount, 1.0))
            elif text[start - 1 : start] in ("'", "’") and self.language == "en":
                extra += [("", century + amount, 1.0) for century in (1700.0, 1800.0, 1900.0, 2000.0)]
        while self.language in CJK and text[end : end + 1] in MYRIADS and end < len(text) and amount < 1e18:
            amount, end = amount * MYRIADS[text[end]], end + 1
        if scale := _SYMBOL_SCALE.match(text, end):
            sign = scale[1].rstrip(".")
            if sign in _SYMBOLS and (sign not in ("k", "K", "M") or text[end] != " "):
                amount, end = amount * _SYMBOLS[sign], scale.end()
        if decade := _DECADE.match(text, end):
            extra.append(("decade", amount, 1.0))
            if amount % 100 == 0:
                extra.append(("century", amount // 100 + 1, 1.0))
            if amount > 1000 and amount % 10 == 0:
                extra += [("", amount % 100, 1.0), ("decade", amount % 100, 1.0)]
            end = decade.end()
        elif ordinal := _ORDINAL_END.match(text, end):
            end = ordinal.end()
            extra.append(("rank", amount, 1.0))
        return self._measured(start, end, amount, extra=extra, figures=True)

    # -- words

    def _spelled(self) -> Iterator[Quantity]:
        language, done = self.language, -1
        begins, fractions = first_words(language), FRACTIONS.get(language, {})
        collective, scales = COLLECTIVES.get(language, {}), SCALES.get(language, {})
        for at in self.candidates:
            word, start, end = self.words[at], self.starts[at], self.ends[at]
            if at < done or not self._free(start, end):
                continue
            if word in _PERIODS and language in ("en", "fr"):
                yield Quantity(start, end, (("duration", float(_PERIODS[word]), 1.0),), strong=False)
            if word in _ARTICLES and self._counts_one(at) and (one := self._one(start, end)):
                yield one
                continue
            if (word in begins or word in scales) and not self._after_figure(start):
                found = spelled_at(self.words, at, language)
                if found and self._joined(at, found[1]):
                    done = at + found[1]
                    yield self._number(at, found[1], *found[0])
                    continue
            if word in fractions:
                yield self._fraction(at, fractions[word])
            elif word in collective:
                yield self._measured(start, end, collective[word], strong=collective[word] > 3)

    def _counts_one(self, at: int) -> bool:
        return self.language == "en" or self.words[at] not in ("un", "una", "une") or len(self.raw) > at + 1

    def _one(self, start: int, end: int) -> Quantity | None:
        """ "a century", "an hour and a half"."""
        unit = self._unit(end, least=3)
        if unit is None or _PAST.match(self.text, unit[1]):  # "a quarter to nine"
            return None
        half = _AND_HALF.match(self.text, unit[1])
        many, stop = (1.5, half.end()) if half else (1.0, unit[1])
        return Quantity(start, stop, (("", many, 1.0), _converted(many, unit[0])), strong=False)

    def _number(self, at: int, used: int, amount: float, ordinal: bool) -> Quantity:
        start, last = self.starts[at], self.ends[at + used - 1]
        if not ordinal:
            decade = [("decade", amount, 1.0)] if self.words[at + used - 1].endswith("ies") else []
            return self._past(start, last, amount) or self._measured(
                start, last, amount, strong=amount > 2, extra=decade
            )
        if share := self._share(at, used, amount):
            return share
        return self._measured(start, last, amount, strong=amount > 3, extra=[("rank", amount, 1.0)])

    def _joined(self, at: int, used: int) -> bool:
        """Whether only spaces and hyphens stand between the words of a spelled number."""
        places = zip(self.ends[at : at + used], self.starts[at + 1 : at + used], strict=False)
        return all(not self.text[end:start].strip(" -\u00a0,") for end, start in places)

    def _after_figure(self, start: int) -> bool:
        before = self.text[max(0, start - 2) : start]
        return before[-1:].isdigit() or (before[-1:] in "\u00a0\u202f -" and before[:1].isdigit())

    def _share(self, at: int, used: int, denominator: float) -> Quantity | None:
        """ "a fifth of", "two thirds": an ordinal that is a part."""
        if not at or denominator < 3 or self.language != "en":
            return None
        before, end = self.words[at - 1], self.ends[at + used - 1]
        count = self._value(before)
        several = self.words[at + used - 1].endswith("s") and count is not None
        if not several and not (before in ("a", "one") and self.text.startswith(" of ", end)):
            return None
        return Quantity(self.starts[at - 1], end, (("share", (count or 1.0) / denominator, 1.0),), strong=False)

    def _value(self, word: str) -> float | None:
        """The cardinal that one word or figure is."""
        if word.isdecimal():
            return float(word) if len(word) < 9 else None
        found = spelled_at([word.lower()], 0, self.language)
        return found[0].value if found and not found[0].ordinal else None

    def _fraction(self, at: int, share: float) -> Quantity:
        start, end, count = self.starts[at], self.ends[at], 1.0
        before = self._value(self.words[at - 1]) if at and share < 1 else None
        if before and before < 10 and self._joined(at - 1, 2):
            count, start = before, self.starts[at - 1]
        amount = count * share
        if share in (0.5, 0.25) and (past := self._past(start, end, 60 * share)):
            return past
        if whole := _WHOLE_BEFORE.search(self.text[max(0, start - 30) : start]):  # "one and a half years"
            amount += self._value(whole[1]) or 0.0
            start = max(0, start - 30) + whole.start()
        stop = end
        for i in range(at + 1, min(at + 3, len(self.words))):
            if self.words[i] not in _FILLERS:
                break
            stop = self.ends[i]
        if unit := self._unit(stop, least=2):
            return Quantity(start, unit[1], (("", amount, 1.0), _converted(amount, unit[0])), strong=False)
        many, scaled = self._scale(stop)  # "half a million pounds", "полтора миллиона рублей"
        if many > 100:
            found = self._unit(scaled, least=2)
            measure = [_converted(amount * many, found[0])] if found else []
            return Quantity(start, found[1] if found else scaled, (("", amount * many, 1.0), *measure))
        part: tuple[Reading, ...] = (("share", amount, 1.0),) if amount < 1 else ()
        return Quantity(start, end, (*part, ("", amount, 1.0)), strong=False)

    # -- numerals

    def _han(self) -> Iterator[Quantity]:
        for m in _HAN_NUMBER.finditer(self.text):
            amount, after = han_value(m[0]), self.text[m.end() : m.end() + 1]
            if amount is None or not (after in HAN_COUNTERS or len(m[0]) > 2) or not self._free(*m.span()):
                continue
            if len(m[0]) == 1 and m[0] in "一万千百" and after not in "年个個名位人座条台歳岁":
                continue
            yield self._measured(m.start(), m.end(), amount, strong=amount > 3)

    def _romans(self) -> Iterator[Quantity]:
        for at, word in enumerate(self.raw):
            if word[0] not in "IVXLCDM":
                continue
            start = self.starts[at]
            m = _ROMAN.match(self.text, start)
            if m is None or not self._free(*m.span()) or self.text[start - 1 : start] in tuple("._0123456789"):
                continue
            amount = roman_value(m[1])
            if century := _CENTURY.match(self.text, m.end()):
                yield Quantity(start, century.end(), (("century", amount, 1.0), ("", amount, 1.0)))
            elif self.text[max(0, start - 7) : start].lower().endswith(_CENTURY_BEFORE):
                yield Quantity(*m.span(), (("century", amount, 1.0), ("", amount, 1.0)))
            elif len(m[1]) > 1 or (m[1] in "IVX" and at and self.raw[at - 1][0].isupper() and self._joined(at - 1, 2)):
                yield Quantity(*m.span(), (("", amount, 1.0), ("rank", amount, 1.0)), strong=False)

    # -- what they measure

    def _measured(
        self,
        start: int,
        end: int,
        amount: float,
        *,
        strong: bool = True,
        extra: Sequence[Reading] = (),
        figures: bool = False,
    ) -> Quantity:
        """A number with what stands around it: century, currency sign, scale, share or unit."""
        if century := _CENTURY.match(self.text, end):
            readings = (("century", amount, 1.0), ("", amount, 1.0))
            return Quantity(start, century.end(), readings, about=self._about(start))
        if self.text[max(0, start - 7) : start].lower().endswith(_CENTURY_BEFORE):
            return Quantity(start, end, (("century", amount, 1.0), ("", amount, 1.0)))
        if sign := self._sign(start):
            return self._money(start, end, amount, sign)
        scale, end = self._scale(end)
        if scale != 1:
            amount, strong = amount * scale, True
        found: list[Reading] = [("", amount, 1.0), *extra]
        if part := _PART.match(self.text, end):
            whole = self._value(part[1])
            if whole and 0 < amount < whole:
                found.append(("share", amount / whole, 1.0))
                end = part.end()
        elif self.language in CJK and (tenths := _TENTHS.match(self.text, end)):
            found.append(("share", amount / 10, 1.0))
            end = tenths.end()
        elif not any(dimension == "rank" for dimension, _, _ in extra) and (
            unit := self._unit(end, 1 if figures else 2)
        ):
            found += self._in_unit(amount, unit[0])
            strong, end = strong or unit[0].dimension != "duration" or amount > 1, unit[1]
            if half := _AND_HALF.match(self.text, end):
                found += [("", amount + 0.5, 1.0), _converted(amount + 0.5, unit[0])]
                end = half.end()
        return Quantity(start, end, tuple(found), strong, self._about(start))

    def _in_unit(self, amount: float, unit: Unit) -> list[Reading]:
        weeks = _SAID_OF_WEEKS.get(self.language, {}).get(int(amount)) if unit.dimension == "duration" else None
        said = [("duration", weeks * 86400.0, 86400.0)] if weeks and unit.factor == 86400 and amount < 16 else []
        return [_converted(amount, unit), *said]

    def _sign(self, start: int) -> str:
        """The currency sign that stands before a number."""
        before = self.text[max(0, start - 5) : start].rstrip(" \u00a0\u202f")
        if before[-1:] not in _SIGN_ENDS or len(before) < min(5, start) - 1:
            return ""
        return next((sign for sign in PREFIXES if before.endswith(sign)), "")

    def _money(self, start: int, end: int, amount: float, sign: str) -> Quantity:
        scale, stop = self._scale(end)
        if letter := _LETTER_SCALE.match(self.text, end):
            scale, stop = _LETTER_SCALES[letter[1]], letter.end()
        amount, start = amount * scale, self.text.rindex(sign, 0, start)
        return Quantity(
            start, stop, (("", amount, 1.0), (self.units[sign].dimension, amount, 1.0)), about=self._about(start)
        )

    def _scale(self, end: int) -> tuple[float, int]:
        """The scale word behind a number: "2.5 million", "3 тысячи"."""
        m = _SCALE.match(self.text, end)
        scale = SCALES.get(self.language, {}).get(m[1].lower(), 0) if m else 0
        return (float(scale), m.end()) if m and scale >= 100 else (1.0, end)

    def _unit(self, end: int, least: int = 1) -> tuple[Unit, int] | None:
        """The unit of `least` characters or more that stands at `end`, a space, a hyphen or nothing before it."""
        m = _AT_UNIT.match(self.text, end)
        if m is None:
            return None
        run = m[1]
        if self.language in CJK:
            for length in range(min(8, len(run)), 0, -1):
                if unit := self.units.get(run[:length]):
                    return unit, m.start(1) + length
            return None
        words = run.split(" ")
        if _head(words[0]) not in _unit_heads(self.language):
            return None
        for count in range(len(words), 0, -1):
            phrase = " ".join(words[:count])
            for form in (phrase, phrase.rstrip(".,;:)!?"), phrase.split("-")[0]):
                unit = self.units.get(form) or (self.units.get(form.lower()) if len(form) > 2 else None)
                if unit and (len(form) >= least or not form.isalpha()):
                    return unit, m.start(1) + len(form)
        return None

    def _about(self, start: int) -> bool:
        before = self.text[max(0, start - 24) : start].lower()
        if self.language in CJK:
            return bool(_CJK_ABOUT.search(before))
        near = _ABOUT.get(self.language, frozenset())
        return not near.isdisjoint(_LETTERS.findall(before)[-2:]) or before.rstrip().endswith(("~", "≈"))


def _converted(amount: float, unit: Unit) -> Reading:
    return unit.dimension, amount * unit.factor + unit.offset, unit.factor


def _at_time(start: int, end: int, minutes: int) -> Quantity:
    return Quantity(start, end, (("time", float(minutes), 1.0), ("", 12.0, 1.0)), strong=False)

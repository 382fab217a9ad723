"""The numbers, dates and measures of a text, each with every value that it may be read as.

"half an hour" is 0.5 and 1,800 seconds, "30 minutes" is 30 and 1,800 seconds: two texts say the same where any reading is
shared, so there is one comparison instead of a rule for each way of putting it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tokenmill.judges.facts.number_words import (
    COLLECTIVES,
    FRACTIONS,
    HAN,
    MYRIADS,
    SCALES,
    WORDED,
    first_words,
    han_value,
    native_korean,
    spelled_at,
)
from tokenmill.judges.facts.units import PREFIXES, READ, Unit, same_dimension, units_of
from tokenmill.judges.math.lexicon import vocabulary
from tokenmill.judges.math.numerals import DIGITS, NUMBER, comma_decimal, value

Reading = tuple[str, float, float]
"""What is measured (`length`, `money USD`, `rank`, `date`, ...; empty for a bare number), how much, and in units of what size."""
MAX_QUANTITIES = 2_000
"""Numbers of one text that are read; a table of more is for the judge."""


@dataclass(frozen=True)
class Quantity:
    """A number, date or measure at `text[start:end]`."""

    start: int
    end: int
    readings: tuple[Reading, ...]
    strong: bool = True
    """False for what may be mere grammar: "one", "second", "both", "half"."""
    about: bool = False
    """Whether it is told as an approximation."""

    @property
    def kind(self) -> str:
        """`date` or `number`, as findings name it."""
        dimensions = {dimension for dimension, _, _ in self.readings}
        dated = bool(dimensions & _CALENDAR) or (dimensions == {""} and _is_year(self.readings[0][1]))
        return "date" if dated else "number"

    def same_as(self, other: Quantity) -> bool:
        """Whether the two may mean the same: in one dimension that both measure, or else as bare numbers."""
        about = _ABOUT_SLACK if self.about or other.about else 0.0
        mine = [reading for reading in self.readings if reading[0] not in _LOOSE]
        theirs = [reading for reading in other.readings if reading[0] not in _LOOSE]
        shared = [(a, b) for a in mine for b in theirs if same_dimension(a[0], b[0])]
        if shared:
            if "date" in {a[0] for a, _ in shared}:
                shared = [(a, b) for a, b in shared if a[0] == "date"]
            # Conversion rounds; the same unit says the same number.
            return any(_near(a[1], b[1], about if a[2] == b[2] else max(about, _ROUNDED)) for a, b in shared)
        if mine and theirs:
            return False
        return any(_near(a[1], b[1], about) for a in self.readings for b in other.readings if not a[0] and not b[0])

    def comparable(self, other: Quantity) -> bool:
        """Whether the two are of one sort: both dates, both of one dimension, or both bare numbers."""
        mine = {dimension for dimension, _, _ in self.readings} - {""}
        theirs = {dimension for dimension, _, _ in other.readings} - {""}
        if self.kind != other.kind:
            return False
        return not mine or not theirs or any(same_dimension(a, b) for a in mine for b in theirs) or self.kind == "date"

    def counts_rank(self, other: Quantity) -> bool:
        """Whether the one says which and the other how many: "the seventh", "seven"."""
        ranks = ["rank" in {dimension for dimension, _, _ in q.readings} for q in (self, other)]
        return ranks[0] != ranks[1]

    def other_unit_than(self, other: Quantity) -> bool:
        """Whether the bare numbers agree and the units do not: 5 km and 5 miles, A$22 and US$22."""
        if self.same_as(other) or not all(_measured_in(q) for q in (self, other)):
            return False
        return any(not a[0] and not b[0] and a[1] == b[1] for a in self.readings for b in other.readings)


def _measured_in(quantity: Quantity) -> bool:
    return any(
        dimension and dimension not in _CALENDAR and dimension not in ("rank", "time")
        for dimension, _, _ in quantity.readings
    )


_CALENDAR = frozenset(("date", "month", "century", "decade", 1.0))
_LOOSE = frozenset(("", "rank"))
"""A rank is also told as a number: the third week, week three."""
_ABOUT_SLACK = 0.08
"""Of a number that is told as about so much, against the exact one."""
_ROUNDED = 0.02
"""Of a measure told in another unit."""


def _is_year(amount: float) -> bool:
    return 1000 <= amount <= 2100 and amount == int(amount)


def _near(one: float, other: float, slack: float) -> bool:
    return one == other or abs(one - other) <= max(slack, 1e-9) * max(abs(one), abs(other))


ABOUT = {
    "en": "about around nearly almost roughly approximately approx some over just circa ca close more",
    "de": "etwa rund ungefähr fast knapp circa ca gut über mehr als beinahe nahezu annähernd unter",
    "fr": "environ près presque quelque quelques plus de autour moins",
    "es": "unos unas casi cerca alrededor aproximadamente más de menos",
    "ru": "около почти примерно порядка более свыше менее приблизительно",
}
_ABOUT = {language: frozenset(words.split()) for language, words in ABOUT.items()}
_CJK_ABOUT = re.compile("(?:约|約|大约|近|超过|およそ|ほぼ|약|거의|대략) ?$")
_CENTURY = re.compile(
    r"[-. ]{0,2}(?:centur(?:y|ies)|jahrhunderts?|siècles?|век[аеуи]?\b|столети\w+|世纪|世紀|세기|secolo|século)",
    re.IGNORECASE,
)
_DECADE = re.compile(r"['’]?s\b|er\b|-х\b|-е\b|年代|년대")
_ORDINAL_END = re.compile(r"(?:st|nd|rd|th|ère|er|ème|e|º|ª|ter|ten|te|-?(?:й|го|му|м|я|ю|е|х))\b")
_SYMBOL_SCALE = re.compile(r" ?(k|K|M|bn|m|тыс\.?|млн|млрд|Mio\.?|Mrd\.?)\b(?!\w)")
_SYMBOLS = {"k": 1e3, "K": 1e3, "M": 1e6, "bn": 1e9, "тыс": 1e3, "млн": 1e6, "млрд": 1e9, "Mio": 1e6, "Mrd": 1e9}
_URL = re.compile(r"https?://\S+|www\.\S+|\S+@\S+")
_MARKER = re.compile(
    r"(?:^|\n)[ \t>*#|-]*(?:Q|A|F|R|S|Step|Part|Schritt|Étape|Paso|Шаг)?[ .]?\(?\d{1,2}[.):](?=\s)"
    r"(?! ?(?:Jahrhundert|Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember))"
)
_CLOCK = re.compile(
    r"(?<![\d:.,])(?P<hour>[01]?\d|2[0-4])"
    r"(?:(?P<colon>[:.])(?P<minute>[0-5]\d)(?!\d)(?:[:.](?P<seconds>[0-5]\d)(?!\d))?(?P<sign> ?(?:Uhr|h)\b)?"
    r"| ?(?P<mark>h|Uhr|時|时|点|點|시)(?![間间간]|[^\W\d_]) ?(?P<after>[0-5]?\d)?[分분]?)?"
    r"(?:\s?(?P<half>[ap])\.?\s?m\b\.?)?"
)
_WORD_TIMES = {
    "noon": 720, "midday": 720, "midnight": 0, "mittag": 720, "mittags": 720, "mitternacht": 0, "midi": 720, "minuit": 0,
    "mediodía": 720, "medianoche": 0, "полдень": 720, "полночь": 0,
}  # fmt: skip
_CJK_TIMES = {"正午": 720, "中午": 720, "정오": 720, "자정": 0, "午夜": 0, "真夜中": 0}
_DAYS = {
    "christmas day": (12, 25), "christmas eve": (12, 24), "new year's day": (1, 1), "new year’s day": (1, 1),
    "new year's eve": (12, 31), "new year’s eve": (12, 31), "heiligabend": (12, 24), "silvester": (12, 31), "neujahr": (1, 1),
    "jour de noël": (12, 25), "noël": (12, 25), "día de navidad": (12, 25), "nochebuena": (12, 24), "nochevieja": (12, 31),
    "independence day": (7, 4), "halloween": (10, 31), "bastille day": (7, 14), "valentine's day": (2, 14),
    "clean monday": (0, 0),
}  # fmt: skip
_DAY = re.compile("|".join(re.escape(name) for name in sorted(_DAYS, key=len, reverse=True)), re.IGNORECASE)
_UNITS_OF_TIME = {"fortnight": 14 * 86400, "fortnights": 14 * 86400, "weekend": 2 * 86400, "quinzaine": 15 * 86400}
_ROMAN = re.compile(
    r"(?<![\w.])(?=[IVXLCDM])(?:M{0,3})(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?:(?=(?:e|er|ème)\b)|\b(?![.\w]?\w))"
)
_HAN_NUMBER = re.compile(rf"[{HAN}]+")
_CJK_DATE = re.compile(r"(?:(\d{2,4}) ?[年년] ?)?(\d{1,2}) ?[月월](?: ?(\d{1,2}) ?[日号號일])?")
_PART_OF = re.compile(r"([\d" + HAN + r"]+) ?[分분] ?[のの之의지] ?([\d" + HAN + r"]+)")
_WORD = re.compile(r"[^\W\d_]+(?:['’](?=[^\W\d_])[^\W\d_]+)?")
_FILLERS = vocabulary("a an of the d de la le un une der die das dem den eine einem einer von el los las del")
_RANGE = re.compile(r"\d{4}\s?[-–—/]\s?$")


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


def read(text: str, language: str = "en") -> tuple[Quantity, ...]:
    """The quantities of a text, by place. In a language that is not among `READ` only figures are read."""
    language = language[:2] if language[:2] in READ else "en"
    return _read(text, language) if len(text) <= 20_000 else _uncached(text, language)


@lru_cache(maxsize=64)
def _read(text: str, language: str) -> tuple[Quantity, ...]:
    return _uncached(text, language)


def _uncached(text: str, language: str) -> tuple[Quantity, ...]:
    reader = _Reader(text, language)
    found = sorted(reader.all(), key=lambda q: (q.start, -q.end))
    kept: list[Quantity] = []
    for quantity in found[:MAX_QUANTITIES]:
        if kept and quantity.end <= kept[-1].end:
            continue
        beside = kept and _JOINED.fullmatch(text, kept[-1].end, max(quantity.start, kept[-1].end))
        if beside and (joined := _together(kept[-1], quantity)):
            kept[-1] = joined
        else:
            kept.append(quantity)
    return tuple(kept)


_JOINED = re.compile(r",? ?(?:and|und|et|y|и)? ?")


def _together(one: Quantity, other: Quantity) -> Quantity | None:
    """ "2 hours 14 minutes" is one duration, "5 feet 9 inches" one length."""
    for dimension, amount, size in one.readings:
        for also, more, smaller in other.readings:
            if dimension == also and dimension in ("duration", "length", "mass") and smaller < size:
                return Quantity(one.start, other.end, ((dimension, amount + more, smaller),), one.strong, one.about)
    return None


class _Reader:
    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text.translate(DIGITS), language
        self.units, self.months = units_of(language), _months(language)
        self.skip = [m.span() for m in _URL.finditer(text)] + [m.span() for m in _MARKER.finditer(text)]
        self.words = [(m[0].lower(), m.start(), m.end()) for m in _WORD.finditer(self.text)]
        self.taken: list[tuple[int, int]] = []

    def all(self) -> Iterator[Quantity]:
        yield from self._dates()
        yield from self._clocks()
        yield from self._figures()
        if self.language in WORDED:
            yield from self._spelled()
        if self.language in ("zh", "ja"):
            yield from self._han()
        if self.language == "ko":
            for start, end, amount in native_korean(self.text):
                yield self._measured(start, end, amount, strong=amount > 2)
        yield from self._romans()

    def _free(self, start: int, end: int) -> bool:
        return all(end <= s or start >= e for s, e in self.taken) and all(end <= s or start >= e for s, e in self.skip)

    # -- dates and times

    def _dates(self) -> Iterator[Quantity]:
        for m in _CJK_DATE.finditer(self.text) if self.language in ("zh", "ja", "ko") else ():
            month, day = int(m[2]), int(m[3] or 0)
            if 1 <= month <= 12 and day <= 31:
                start = m.start(2)
                self.taken.append((start, m.end()))
                yield Quantity(start, m.end(), (("date", month * 100 + day, 1.0),) if day else (("month", month, 1.0),))
        for m in _DAY.finditer(self.text):
            month, day = _DAYS[m[0].lower()]
            if month:
                yield Quantity(m.start(), m.end(), (("date", month * 100 + day, 1.0),), strong=False)
        for word, start, end in self.words:
            month = self.months.get(word)
            if not month or (word in ("may", "march", "mar", "mai", "sep", "dec") and not self.text[start].isupper()):
                continue
            days = list(self._days_beside(start, end))
            if not days and word in ("may", "mar", "dec", "sep", "march") and not _year_after(self.text, end):
                continue
            if not days:
                yield Quantity(start, end, (("month", month, 1.0),))
            for s, e, day in days:
                self.taken.append((s, e))
                yield Quantity(min(s, start), max(e, end), (("date", month * 100 + day, 1.0), ("month", month, 1.0)))

    def _days_beside(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Days of the month beside its name: "3, 4 and 5 March", "March 3rd–5th", "le 1er mars", "3. März", "5 de mayo"."""
        before = re.search(
            r"((?:(?<![\d.,])\d{1,2}(?:st|nd|rd|th|er|\.|º)?(?:,? ?(?:and|to|und|bis|et|au|y|al|и|или|or|&|–|-|—|,) ?)?){1,4})"
            r"(?: (?:of|de|day of))?[  ]$",
            self.text[max(0, start - 40) : start],
        )
        base = max(0, start - 40)
        if before:
            for m in re.finditer(r"\d{1,2}", before[1]):
                if 1 <= int(m[0]) <= 31:
                    yield base + before.start(1) + m.start(), base + before.start(1) + m.end(), int(m[0])
            return
        after = re.match(
            r"\.? (?:the )?((?:\d{1,2}(?:st|nd|rd|th)?(?![\d:.,]\d|\d)(?:,? ?(?:and|to|or|&|–|-|—) ?(?=\d))?){1,4})",
            self.text[end : end + 40],
        )
        if after:
            for m in re.finditer(r"\d{1,2}", after[1]):
                if 1 <= int(m[0]) <= 31:
                    yield end + after.start(1) + m.start(), end + after.start(1) + m.end(), int(m[0])

    def _clocks(self) -> Iterator[Quantity]:
        for m in _CLOCK.finditer(self.text):
            hour, minute = int(m["hour"]), int(m["minute"] or m["after"] or 0)
            half = m["half"] if self.language in ("en", "zh", "ja", "ko") else None
            clock = m["colon"] == ":" or m["sign"] or m["mark"] or half
            if not clock or not self._free(*m.span()):
                continue
            self.taken.append(m.span())
            if m["seconds"]:
                spent = ("duration", hour * 3600.0 + minute * 60 + int(m["seconds"]), 1.0)
                yield Quantity(m.start(), m.end(), (spent, ("time", hour * 60.0 + minute, 1.0)))
                continue
            if half:
                hour = hour % 12 + (12 if half == "p" else 0)
            minutes = [hour * 60.0 + minute]
            if not half and hour <= 12:
                minutes.append((minutes[0] + 720) % 1440)
            lasting = [("duration", hour * 3600.0 + minute * 60, 60.0)] if m["mark"] in ("h", "시") else []
            bare = [("", float(m["hour"]), 1.0), *([("", float(f"{hour}.{minute:02}"), 1.0)] if m["minute"] else [])]
            yield Quantity(m.start(), m.end(), (*(("time", at, 1.0) for at in minutes), *lasting, *bare))
        for word, start, end in self.words:
            if word in _WORD_TIMES:
                yield Quantity(start, end, (("time", float(_WORD_TIMES[word]), 1.0), ("", 12.0, 1.0)), strong=False)
        for name, minutes_ in _CJK_TIMES.items():
            for m in re.finditer(name, self.text):
                yield Quantity(m.start(), m.end(), (("time", float(minutes_), 1.0), ("", 12.0, 1.0)), strong=False)

    # -- numbers

    def _figures(self) -> Iterator[Quantity]:
        text = self.text
        for m in _PART_OF.finditer(text) if self.language in ("zh", "ja", "ko") else ():
            whole, part = (float(n) if n.isdigit() else han_value(n) for n in m.groups())
            if whole and part:
                self.taken.append(m.span())
                yield Quantity(m.start(), m.end(), (("share", part / whole, 1.0),), strong=False)
        for m in re.compile(NUMBER[comma_decimal(self.language)]).finditer(text):
            start, end = m.span()
            glued = start and (text[start - 1].isalpha() or text[start - 1] == "_") and text[start - 1].isascii()
            if glued or len(m[0]) > 40 or not self._free(start, end):
                continue
            amount = float(value(m[0], comma_decimal(self.language))[0])
            extra: list[Reading] = []
            if _RANGE.search(text[max(0, start - 7) : start]) and end - start <= 2:
                century = int(re.findall(r"\d{4}", text[max(0, start - 7) : start])[-1]) // 100
                extra.append(("", float(century * 100 + amount), 1.0))
            elif end - start == 2 and text[start - 1 : start] in ("'", "’") and self.language == "en":
                extra += [("", century + amount, 1.0) for century in (1700.0, 1800.0, 1900.0, 2000.0)]
            myriads = [c for c in text[end : end + 2]]
            while myriads and myriads[0] in MYRIADS and self.language in ("zh", "ja", "ko"):
                amount, end = amount * MYRIADS[myriads[0]], end + 1
                myriads = [c for c in text[end : end + 1]]
            if scale := _SYMBOL_SCALE.match(text, end):
                sign = scale[1].rstrip(".")
                if sign in _SYMBOLS and (sign not in ("k", "K", "M") or text[end] != " "):
                    amount, end = amount * _SYMBOLS[sign], scale.end()
            if decade := _DECADE.match(text, end):
                extra += (
                    [("decade", amount, 1.0), ("century", amount // 100 + 1, 1.0)]
                    if amount % 100 == 0
                    else [("decade", amount, 1.0)]
                )
                if amount > 1000 and amount % 10 == 0:
                    extra.append(("", amount % 100, 1.0))
                end = decade.end()
            elif ordinal := _ORDINAL_END.match(text, end):
                end = ordinal.end()
                extra.append(("rank", amount, 1.0))
            yield self._measured(start, end, amount, extra=extra)

    def _spelled(self) -> Iterator[Quantity]:
        language = self.language
        begins, fractions = first_words(language), FRACTIONS.get(language, {})
        collective, scales = COLLECTIVES.get(language, {}), SCALES.get(language, {})
        words = [word for word, _, _ in self.words]
        parts = [p for word in words for p in (word,)]
        at = 0
        while at < len(words):
            word, start, end = self.words[at]
            if word in _UNITS_OF_TIME and language in ("en", "fr"):
                yield Quantity(start, end, (("duration", float(_UNITS_OF_TIME[word]), 1.0),), strong=False)
            if (word in begins or word in scales) and self._free(start, end) and not self._after_figure(start):
                found = spelled_at(parts, at, language)
                if found and self._joined(at, found[1]):
                    spelled, used = found
                    last = self.words[at + used - 1][2]
                    strong = spelled.value > 2 and not (spelled.ordinal and spelled.value <= 3)
                    if spelled.ordinal and (share := self._share(at, used, spelled.value)):
                        yield share
                    else:
                        rank = [("rank", spelled.value, 1.0)] if spelled.ordinal else []
                        yield self._measured(start, last, spelled.value, strong=strong, extra=rank)
                    at += used
                    continue
            if word in fractions and self._free(start, end):
                yield self._fraction(at, fractions[word])
            elif word in collective and self._free(start, end):
                yield self._measured(start, end, collective[word], strong=collective[word] > 3)
            elif word in ("a", "an", "eine", "einem", "einen", "un", "une", "una") and (unit := self._unit(end)):
                half = _AND_HALF.match(self.text, unit[1])
                many = 1.5 if half else 1.0
                stop = half.end() if half else unit[1]
                yield Quantity(start, stop, (("", many, 1.0), _converted(many, unit[0])), strong=False)
            at += 1

    def _joined(self, at: int, used: int) -> bool:
        """Whether only spaces and hyphens stand between the words of a spelled number."""
        spans = self.words[at : at + used]
        return all(self.text[a[2] : b[1]].strip(" -\u00a0,") == "" for a, b in pairwise(spans))

    def _after_figure(self, start: int) -> bool:
        return bool(re.search(r"\d[\u00a0\u202f -]?$", self.text[max(0, start - 2) : start]))

    def _share(self, at: int, used: int, denominator: float) -> Quantity | None:
        """ "a fifth", "two thirds": an ordinal that is a part."""
        if not at or denominator < 3 or self.language != "en":
            return None
        before = self.words[at - 1][0]
        found = spelled_at([before], 0, "en")
        plural = self.words[at + used - 1][0].endswith("s")
        if not (plural and found) and not (before in ("a", "one") and self._unit_or_of(self.words[at + used - 1][2])):
            return None
        count = found[0].value if found else 1.0
        return Quantity(
            self.words[at - 1][1], self.words[at + used - 1][2], (("share", count / denominator, 1.0),), strong=False
        )

    def _unit_or_of(self, end: int) -> bool:
        return self.text.startswith(" of ", end)

    def _fraction(self, at: int, share: float) -> Quantity:
        _, start, end = self.words[at]
        count = 1.0
        found = spelled_at([self.words[at - 1][0]], 0, self.language) if at and share < 1 else None
        if found and found[0].value < 10 and not found[0].ordinal:
            count, start = found[0].value, self.words[at - 1][1]
        amount = count * share
        if whole := _WHOLE_BEFORE.search(self.text[max(0, start - 30) : start]):  # "one and a half years"
            found = spelled_at([whole[1].lower()], 0, self.language)
            amount += float(whole[1]) if whole[1].isdigit() else found[0].value if found else 0.0
            start = max(0, start - 30) + whole.start()
        at_unit = end
        for filler, _, stop in self.words[at + 1 : at + 3]:
            if filler not in _FILLERS:
                break
            at_unit = stop
        if unit := self._unit(at_unit):
            return Quantity(start, unit[1], (("", amount, 1.0), _converted(amount, unit[0])), strong=False)
        scale = self.words[at + 2][0] if at + 2 < len(self.words) else ""
        if many := SCALES.get(self.language, {}).get(scale):
            return Quantity(start, self.words[at + 2][2], (("", amount * many, 1.0),), strong=True)
        return Quantity(start, end, (("share", amount, 1.0), ("", amount, 1.0)), strong=False)

    def _han(self) -> Iterator[Quantity]:
        for m in _HAN_NUMBER.finditer(self.text):
            amount = han_value(m[0])
            after = self.text[m.end() : m.end() + 1]
            counted = (
                after
                in "年月日号個个名位人件座条本台次回岁歳分秒时時点點世周天小章项項种種倍层層家支冊册枚匹頭头米公千克吨度成割つ"
            )
            if amount is None or not (counted or len(m[0]) > 2) or not self._free(*m.span()):
                continue
            if len(m[0]) == 1 and m[0] in "一万千百" and after not in "年个個名位人座条台歳岁":
                continue
            yield self._measured(m.start(), m.end(), amount, strong=amount > 3)

    def _romans(self) -> Iterator[Quantity]:
        for m in _ROMAN.finditer(self.text):
            if len(m[0]) < 1 or not self._free(*m.span()):
                continue
            amount = _roman(m[0])
            ending = re.compile(r"(?:e|er|ème|º|ª)?\b").match(self.text, m.end())
            century = _CENTURY.match(self.text, ending.end() if ending else m.end())
            siglo = self.text[max(0, m.start() - 7) : m.start()].lower().endswith(("siglo ", "siglos ", "século "))
            if century or siglo:
                yield Quantity(m.start(), m.end(), (("century", float(amount), 1.0), ("", float(amount), 1.0)))
            elif len(m[0]) > 1 or self.text[: m.start()].rstrip()[-1:].isalpha():
                yield Quantity(m.start(), m.end(), (("", float(amount), 1.0),), strong=False)

    # -- what they measure

    def _measured(
        self, start: int, end: int, amount: float, *, strong: bool = True, extra: Sequence[Reading] = ()
    ) -> Quantity:
        text, readings = self.text, [("", amount, 1.0), *extra]
        first = start
        if century := _CENTURY.match(text, end):
            return Quantity(
                start, century.end(), (("century", amount, 1.0), ("", amount, 1.0)), about=self._about(start)
            )
        for sign in PREFIXES:
            if text[max(0, start - len(sign) - 1) : start].rstrip(" \u00a0\u202f").endswith(sign):
                scale = self._scale(end)
                if letter := _LETTER_SCALE.match(text, end):
                    scale = _LETTERS[letter[1]], letter.end()
                amount, end = amount * scale[0], scale[1]
                readings = [("", amount, 1.0), (self.units[sign].dimension, amount, 1.0)]
                first = start - len(sign)
                return Quantity(first, end, tuple(readings), about=self._about(first))
        scale = self._scale(end)
        if scale[0] != 1:
            amount, end = amount * scale[0], scale[1]
            readings, strong = [("", amount, 1.0), *extra], True
        part = _PART.match(text, end)
        ranked = any(dimension == "rank" for dimension, _, _ in readings)
        if not part and not ranked and (unit := self._unit(end)):
            readings.append(_converted(amount, unit[0]))
            end = unit[1]
            strong = strong or unit[0].dimension != "duration" or amount > 1
            if half := _AND_HALF.match(text, end):
                readings += [("", amount + 0.5, 1.0), _converted(amount + 0.5, unit[0])]
                end = half.end()
        elif part:
            of = part
            whole = float(of[1]) if of[1].isdigit() and len(of[1]) < 9 else None
            if whole is None and self.language in WORDED and (found := spelled_at([of[1].lower()], 0, self.language)):
                whole = found[0].value
            if whole and 0 < amount < whole:
                readings.append(("share", amount / whole, 1.0))
                end = of.end()
        return Quantity(first, end, tuple(readings), strong, self._about(start))

    def _scale(self, end: int) -> tuple[float, int]:
        """The scale word behind a figure: "2.5 million", "3 тысячи"."""
        m = re.compile(r"[ \u00a0\u202f-]?([^\W\d_]+)").match(self.text, end)
        scales = SCALES.get(self.language, {})
        if m and (scale := scales.get(m[1].lower())) and scale >= 100:
            return float(scale), m.end()
        return 1.0, end

    def _unit(self, end: int) -> tuple[Unit, int] | None:
        """The unit that stands at `end`, a space, a hyphen or nothing before it."""
        m = _AT_UNIT.match(self.text, end)
        if m is None:
            return None
        run = m[1]
        if self.language in ("zh", "ja", "ko"):
            for length in range(min(8, len(run)), 0, -1):
                if unit := self.units.get(run[:length]):
                    return unit, m.start(1) + length
            return None
        words = run.split(" ")
        for count in (3, 2, 1):
            phrase = " ".join(words[:count])
            for form in (phrase, phrase.rstrip(".,;:)!?"), phrase.split("-")[0]):
                if unit := self.units.get(form) or (self.units.get(form.lower()) if len(form) > 2 else None):
                    return unit, m.start(1) + len(form)
        return None

    def _about(self, start: int) -> bool:
        before = self.text[max(0, start - 24) : start].lower()
        if self.language in ("zh", "ja", "ko"):
            return bool(_CJK_ABOUT.search(before))
        near = _ABOUT.get(self.language, frozenset())
        return any(word in near for word in re.findall(r"[^\W\d_]+", before)[-2:]) or before.rstrip().endswith(
            ("~", "≈")
        )


_WHOLE_BEFORE = re.compile(r"(\w+) (?:and a|and|et|y|und) $")
_AND_HALF = re.compile(r" (?:and a half|et demie?|y medi[ao])\b")
_LETTER_SCALE = re.compile(r" ?(m|k|bn|M|K|B|tn)\b")
_LETTERS = {"m": 1e6, "k": 1e3, "bn": 1e9, "M": 1e6, "K": 1e3, "B": 1e9, "tn": 1e12}
_PART = re.compile(r"(?: (?:in|out of|of the|of|von|sur|de cada|из) |/(?=\d))(\w+)")
_AT_UNIT = re.compile(r"[ \u00a0\u202f-]?((?:[^\W\d_]|[%°²³µμ℃％‰$€£])(?:[^\s\d]|(?<=[mk])[23])*(?: [^\W\d_]+){0,2})")


def _converted(amount: float, unit: Unit) -> Reading:
    return unit.dimension, amount * unit.factor + unit.offset, unit.factor


def _year_after(text: str, end: int) -> bool:
    return re.match(r",? (?:1\d|20)\d\d\b", text[end : end + 7]) is not None


def _roman(text: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}[c] for c in text]
    return sum(-v if i + 1 < len(values) and v < values[i + 1] else v for i, v in enumerate(values))

"""Numbers in words and numerals: "twelve hundred", "a third of", "half an hour", "XIX", "二万五千", "아홉 개"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tokenmill.judges.facts.measures import and_half, century, converted, measured, scale, unit_at
from tokenmill.judges.facts.number_words import (
    COLLECTIVES,
    FRACTIONS,
    HAN,
    HAN_COUNTERS,
    SCALES,
    first_words,
    han_value,
    korean,
    roman_value,
    spelled_at,
)
from tokenmill.judges.facts.quantity import Quantity, Reading
from tokenmill.judges.facts.scan import Scan
from tokenmill.judges.facts.times import PAST, before_or_past
from tokenmill.judges.math.lexicon import vocabulary

_PERIODS = {"fortnight": 14 * 86400, "fortnights": 14 * 86400, "quinzaine": 14 * 86400}
_ARTICLES = vocabulary("a an eine einem einen un une una")
_AFTER_ROMAN = ("", "e", "è", "'", "’")
_ROMAN = re.compile(
    r"(?=[IVXLCDM])(M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3}))(?:e|er|ème)?(?![\w.º]*\w)"
)
_HAN_NUMBER = re.compile(rf"[{HAN}]+")
_CJK_HALF = re.compile(rf"(?:([\d{HAN}]{{1,4}})[个個])?半(?!分)[个個]?|(?<![가-힣])반 ?")
_HALVED = ("duration", "volume", "mass", "length")
_FILLERS = vocabulary("a an of the d de la le un une der die das dem den eine einem einer von el los las del")
_WHOLE_BEFORE = re.compile(r"(\w+) (?:and a|and|et|y|und) $")


@lru_cache(maxsize=16)
def beginnings(language: str) -> frozenset[str]:
    """Words with which a spelled quantity may begin."""
    tables = (FRACTIONS, COLLECTIVES, SCALES)
    return first_words(language).union(_PERIODS, _ARTICLES, *(table.get(language, {}) for table in tables))


def spelled(scan: Scan, candidates: list[int]) -> Iterator[Quantity]:
    """Numbers in words; `candidates` are the places of words among `beginnings`."""
    language, done = scan.language, -1
    begins, fractions = first_words(language), FRACTIONS.get(language, {})
    collective, scales = COLLECTIVES.get(language, {}), SCALES.get(language, {})
    for at in candidates:
        word, start, end = scan.words[at], scan.starts[at], scan.ends[at]
        if at < done or not scan.free(start, end):
            continue
        if word in _PERIODS and language in ("en", "fr"):
            yield Quantity(start, end, (("duration", float(_PERIODS[word]), 1.0),), strong=False)
        if word in _ARTICLES and (one := _one(scan, start, end)):
            yield one
            continue
        if (word in begins or word in scales) and not _after_figure(scan.text, start):
            found = spelled_at(scan.words, at, language)
            if found and scan.joined(at, found[1]):
                done = at + found[1]
                yield _number(scan, at, found[1], *found[0])
                continue
        if word in fractions:
            yield _fraction(scan, at, fractions[word])
        elif word in collective:
            yield measured(scan, start, end, collective[word], strong=collective[word] > 3)


def _one(scan: Scan, start: int, end: int) -> Quantity | None:
    """ "a century", "an hour and a half"."""
    unit = unit_at(scan, end, least=3)
    if unit is None or PAST.match(scan.text, unit[1]):  # "a quarter to nine"
        return None
    stop = and_half(scan, unit[1])
    many = 1.5 if stop else 1.0
    return Quantity(start, stop or unit[1], (("", many, 1.0), converted(many, unit[0])), strong=False)


def _number(scan: Scan, at: int, used: int, amount: float, ordinal: bool) -> Quantity:
    start, last, word = scan.starts[at], scan.ends[at + used - 1], scan.words[at + used - 1]
    if not ordinal:
        if (many := SCALES.get(scan.language, {}).get(word, 0)) and (half := and_half(scan, last)):
            return measured(scan, start, half, amount + many / 2)  # "un millón y medio"
        decade = [("decade", amount, 1.0)] if word.endswith("ies") else []
        past = before_or_past(scan, start, last, amount)
        return past or measured(scan, start, last, amount, strong=amount > 2, extra=decade)
    if share := _share(scan, at, used, amount):
        return share
    return measured(scan, start, last, amount, strong=amount > 3, extra=[("rank", amount, 1.0)])


def _after_figure(text: str, start: int) -> bool:
    before = text[max(0, start - 2) : start]
    return before[-1:].isdigit() or (before[-1:] in "\u00a0\u202f -" and before[:1].isdigit())


def _share(scan: Scan, at: int, used: int, denominator: float) -> Quantity | None:
    """ "a fifth of", "two thirds": an ordinal that is a part."""
    if not at or denominator < 3 or scan.language != "en":
        return None
    before, end = scan.words[at - 1], scan.ends[at + used - 1]
    count = scan.cardinal(before)
    several = scan.words[at + used - 1].endswith("s") and count is not None
    if not several and not (before in ("a", "one") and scan.text.startswith(" of ", end)):
        return None
    return Quantity(scan.starts[at - 1], end, (("share", (count or 1.0) / denominator, 1.0),), strong=False)


def _fraction(scan: Scan, at: int, share: float) -> Quantity:
    start, end, amount = scan.starts[at], scan.ends[at], share
    before = scan.cardinal(scan.words[at - 1]) if at and share < 1 else None
    if before and before < 10 and scan.joined(at - 1, 2):
        amount, start = before * share, scan.starts[at - 1]
    if share in (0.5, 0.25) and (past := before_or_past(scan, start, end, 60 * share)):
        return past
    if whole := _WHOLE_BEFORE.search(scan.text[max(0, start - 30) : start]):  # "one and a half years"
        amount += scan.cardinal(whole[1]) or 0.0
        start = max(0, start - 30) + whole.start()
    stop = end
    for i in range(at + 1, min(at + 3, len(scan.words))):
        if scan.words[i] not in _FILLERS:
            break
        stop = scan.ends[i]
    many, scaled = scale(scan, stop)  # "half a million pounds", "полтора миллиона рублей"
    if many <= 100:
        many, scaled = 1.0, stop
    amount *= many
    unit = unit_at(scan, scaled, least=2)
    measure: list[Reading] = [converted(amount, unit[0])] if unit else []
    if not unit and amount < 1:
        measure = [("share", amount, 1.0)]
    last = unit[1] if unit else scaled if many > 1 else end
    return Quantity(start, last, (("", amount, 1.0), *measure), strong=many > 1)


def cjk_numerals(scan: Scan) -> Iterator[Quantity]:
    """Chinese numerals, Korean numbers, and halves of a unit: "半小时", "반 시간"."""
    for m in _CJK_HALF.finditer(scan.text):
        if scan.free(*m.span()) and (unit := unit_at(scan, m.end())) and unit[0].dimension in _HALVED:
            whole = (float(m[1]) if m[1].isdecimal() else han_value(m[1]) or 0.0) if m[1] else 0.0
            yield Quantity(
                m.start(), unit[1], (("", whole + 0.5, 1.0), converted(whole + 0.5, unit[0])), strong=whole > 0
            )
    if scan.language == "ko":
        for start, end, amount in korean(scan.text):
            if scan.free(start, end):
                yield measured(scan, start, end, amount, strong=amount > 2)
        return
    for m in _HAN_NUMBER.finditer(scan.text):
        number, after = han_value(m[0]), scan.text[m.end() : m.end() + 1]
        if number is None or not (after in HAN_COUNTERS or len(m[0]) > 2) or not scan.free(*m.span()):
            continue
        if len(m[0]) > 1 or m[0] not in "一万千百" or after in "年个個名位人座条台歳岁":
            yield measured(scan, m.start(), m.end(), number, strong=number > 3)


def romans(scan: Scan) -> Iterator[Quantity]:
    """Roman numerals: of centuries, of two letters or more, and of one letter behind a name."""
    for at, word in enumerate(scan.raw):
        start = scan.starts[at]
        may_be = word[0] in "IVXLCDM" and word.lstrip("IVXLCDM")[:1] in _AFTER_ROMAN
        m = _ROMAN.match(scan.text, start) if may_be else None
        if m is None or not scan.free(*m.span()) or scan.text[start - 1 : start] in tuple("._0123456789"):
            continue
        amount = roman_value(m[1])
        if dated := century(scan, start, m.end(), amount):
            yield dated
        elif len(m[1]) > 1 or (m[1] in "IVX" and at and scan.raw[at - 1][0].isupper() and scan.joined(at - 1, 2)):
            yield Quantity(*m.span(), (("", amount, 1.0), ("rank", amount, 1.0)), strong=False)

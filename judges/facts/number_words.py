"""Spelled numbers of several languages, from num2words turned round: "twelve hundred", "quatre-vingt-dix-sept", "一千九百".

A phrase is looked up whole (every number below a thousand has its entry) and multiplied by the scale words behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

WORDED = ("en", "de", "fr", "es", "ru", "it", "pt", "nl", "pl")
"""Languages whose number words are read."""
SCALES = {
    "en": {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12},
    "de": {"tausend": 1000, "million": 10**6, "millionen": 10**6, "milliarde": 10**9, "milliarden": 10**9, "mio": 10**6,
           "mrd": 10**9},
    "fr": {"mille": 1000, "million": 10**6, "millions": 10**6, "milliard": 10**9, "milliards": 10**9},
    "es": {"mil": 1000, "millón": 10**6, "millones": 10**6, "billón": 10**12},
    "ru": {"тысяча": 1000, "тысячи": 1000, "тысяч": 1000, "тыс": 1000, "миллион": 10**6, "миллиона": 10**6,
           "миллионов": 10**6, "млн": 10**6, "миллиард": 10**9, "миллиарда": 10**9, "миллиардов": 10**9, "млрд": 10**9},
    "it": {"mila": 1000, "mille": 1000, "milione": 10**6, "milioni": 10**6, "miliardo": 10**9, "miliardi": 10**9},
    "pt": {"mil": 1000, "milhão": 10**6, "milhões": 10**6, "bilhão": 10**9, "bilhões": 10**9},
    "nl": {"duizend": 1000, "miljoen": 10**6, "miljard": 10**9},
    "pl": {"tysiąc": 1000, "tysiące": 1000, "tysięcy": 1000, "milion": 10**6, "miliony": 10**6, "milionów": 10**6},
}  # fmt: skip
"""Scale words, which multiply what stands before them, in words or digits."""
FRACTIONS = {
    "en": {"half": 0.5, "halves": 0.5, "third": 1 / 3, "thirds": 1 / 3, "quarter": 0.25, "quarters": 0.25, "fifths": 0.2,
           "tenths": 0.1},
    "de": {"halb": 0.5, "halbe": 0.5, "halben": 0.5, "halber": 0.5, "halbes": 0.5, "hälfte": 0.5, "drittel": 1 / 3,
           "viertel": 0.25, "anderthalb": 1.5, "eineinhalb": 1.5, "zweieinhalb": 2.5, "fünftel": 0.2},
    "fr": {"demi": 0.5, "demie": 0.5, "moitié": 0.5, "tiers": 1 / 3, "quart": 0.25, "quarts": 0.25},
    "es": {"medio": 0.5, "media": 0.5, "mitad": 0.5, "tercio": 1 / 3, "tercios": 1 / 3, "cuarto": 0.25, "cuartos": 0.25},
    "ru": {"половина": 0.5, "половины": 0.5, "половину": 0.5, "пол": 0.5, "полтора": 1.5, "полторы": 1.5, "полутора": 1.5,
           "треть": 1 / 3, "трети": 1 / 3, "четверть": 0.25, "четверти": 0.25},
}  # fmt: skip
COLLECTIVES: dict[str, dict[str, float]] = {
    "en": {"dozen": 12, "pair": 2, "couple": 2, "both": 2, "twice": 2, "thrice": 3, "double": 2,
           "doubled": 2, "triple": 3, "tripled": 3, "single": 1, "once": 1, "duo": 2, "trio": 3, "quartet": 4, "twin": 2,
           "twins": 2, "quadruple": 4, "doubling": 2, "doubles": 2, "halved": 0.5, "zero": 0},
    "de": {"dutzend": 12, "beide": 2, "beiden": 2, "beider": 2, "zweimal": 2, "dreimal": 3, "doppelt": 2, "verdoppelt": 2,
           "paar": 2, "einmal": 1, "viermal": 4},
    "fr": {"douzaine": 12, "deux": 2, "double": 2, "triple": 3, "dizaine": 10, "vingtaine": 20, "trentaine": 30,
           "centaine": 100, "quinzaine": 15, "cinquantaine": 50, "quarantaine": 40, "millier": 1000, "doublé": 2},
    "es": {"docena": 12, "ambos": 2, "ambas": 2, "doble": 2, "triple": 3, "decena": 10, "centenar": 100, "veintena": 20,
           "millar": 1000},
    "ru": {"дюжина": 12, "оба": 2, "обе": 2, "двое": 2, "трое": 3, "четверо": 4, "вдвое": 2, "втрое": 3, "дважды": 2,
           "трижды": 3, "пара": 2, "десяток": 10, "десятка": 10, "сотня": 100, "сотни": 100},
}  # fmt: skip
_KOREAN = {
    "하나": 1, "한": 1, "둘": 2, "두": 2, "셋": 3, "세": 3, "넷": 4, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8,
    "아홉": 9, "열": 10, "열한": 11, "열두": 12, "열세": 13, "열네": 14, "열다섯": 15, "열여섯": 16, "열일곱": 17, "열여덟": 18,
    "열아홉": 19, "스물": 20, "스무": 20, "서른": 30, "마흔": 40, "쉰": 50, "예순": 60, "일흔": 70, "여든": 80, "아흔": 90,
}  # fmt: skip
"""Native Korean numbers, which stand before counters; CLDR and num2words have the Chinese ones alone."""
_HAN = {
    c: n
    for n, row in enumerate(("〇零", "一壱壹", "二弐两兩", "三参", "四", "五", "六", "七", "八", "九"))
    for c in row
}
_HAN_TENS = {"十": 10, "百": 100, "千": 1000}
MYRIADS = {
    "万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8, "兆": 10**12, "만": 10**4, "억": 10**8, "조": 10**12, "천": 1000,
}  # fmt: skip
"""Scale signs behind figures: 85万, 2억."""
HAN = "".join((*_HAN, *_HAN_TENS, "万萬億亿兆"))


class Spelled(NamedTuple):
    """A spelled number: its value, and whether it is an ordinal."""

    value: float
    ordinal: bool


@lru_cache(maxsize=16)
def phrases(language: str) -> dict[str, Spelled]:
    """Every spelled number below a thousand, ordinals to a hundred, and years: words between single spaces."""
    from num2words import num2words

    found: dict[str, Spelled] = {}

    def add(text: str, value: float, ordinal: bool = False) -> None:
        found.setdefault(_plain(text), Spelled(value, ordinal))

    for number in range(0, 1000):
        add(num2words(number, lang=language), number)
    for number in range(1, 101):
        ordinal = _plain(num2words(number, lang=language, to="ordinal"))
        for form in _inflected(ordinal, language):
            found.setdefault(form, Spelled(number, True))
    if language == "en":
        for number in range(0, 1000):
            found.setdefault(_plain(num2words(number).replace(" and ", " ")), Spelled(number, False))
        for number in range(1, 20):
            found.setdefault(_plain(num2words(number) + " hundred"), Spelled(100 * number, False))
        for decade in range(20, 100, 10):
            found.setdefault(num2words(decade)[:-1] + "ies", Spelled(decade, False))
    if language in ("en", "de"):
        for year in range(1100, 2100):
            found.setdefault(_plain(num2words(year, lang=language, to="year")), Spelled(year, False))
    if language == "ru":
        for number in (*range(1, 21), *range(30, 100, 10), *range(100, 1000, 100)):
            for case in "gdaip":
                for gender in "mfn":
                    add(num2words(number, lang=language, case=case, gender=gender), number)
    for feminine, masculine in _FEMININE.get(language, {}).items():
        found.setdefault(feminine, found[masculine])
    return found


_FEMININE = {
    "fr": {"une": "un"}, "es": {"una": "uno", "un": "uno", **{f"{h}as": f"{h}os" for h in ("doscient", "trescient")}},
    "de": {"ein": "eins", "eine": "eins", "einen": "eins", "einem": "eins", "einer": "eins", "zweien": "zwei", "zwo": "zwei"},
    "ru": {"одна": "один", "одно": "один", "две": "два"},
}  # fmt: skip


_RUSSIAN = "ый ий ой ого ому ым ом ая ую ое ые ых его ье ья ьего ьем"


def _inflected(ordinal: str, language: str) -> tuple[str, ...]:
    """Ordinals in the endings that they take beside nouns."""
    if language == "de":
        return tuple(ordinal[:-1] + ending for ending in ("e", "en", "er", "es", "em"))
    if language in ("es", "it", "pt"):
        stem = ordinal[:-1]
        return tuple(stem + ending for ending in ("o", "a", "os", "as")) + ((stem,) if language == "es" else ())
    if language == "fr":
        return (ordinal, ordinal + "s", {"premier": "première", "deuxième": "seconde"}.get(ordinal, ordinal))
    if language == "ru":
        return tuple(ordinal[:-2] + ending for ending in _RUSSIAN.split())
    if language == "en":
        return (ordinal, ordinal + "s") if ordinal not in ("second", "third") else (ordinal,)
    return (ordinal,)


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("-", " ").replace(",", " ").split())


@lru_cache(maxsize=16)
def first_words(language: str) -> frozenset[str]:
    """Words with which a spelled number may begin: most texts have none of most."""
    if language not in WORDED:
        return frozenset()
    return frozenset(phrase.partition(" ")[0] for phrase in phrases(language))


_LONGEST = 6


def spelled_at(words: Sequence[str], at: int, language: str) -> tuple[Spelled, int] | None:
    """The number spelled by the words from `at` on, and how many words it takes."""
    if language not in WORDED:
        return None
    known, scales, joint = phrases(language), SCALES.get(language, {}), _JOINTS.get(language, "")
    total = current = 0.0
    room = below = (
        _MOST  # the next part must be smaller than what the last one left room for, the next scale than the last
    )
    end = at
    while end < len(words):
        scale = scales.get(words[end], 0)
        if scale and scale < below and (end > at or scale in (100, 1000)) and not (scale == 100 and current >= 100):
            if scale == 100:
                current, room = (current or 1) * 100, 100
            else:
                total, current, room, below = total + (current or 1) * scale, 0.0, min(scale, 1000), scale
            end += 1
            continue
        start = end + (end > at and words[end] == joint)
        part = _longest(words, start, known, _later_words(language)) or _compound(words, start, language)
        if part is None or part[0].value >= room or (end > at and not part[0].value):
            break
        value = part[0].value
        current, end = current + value, start + part[1]
        if part[0].ordinal:
            return Spelled(total + current, True), end - at
        room = (
            0 if value >= 1000 else 100 if value and value % 100 == 0 else 10 if value >= 20 and value % 10 == 0 else 0
        )
    return (Spelled(total + current, False), end - at) if end > at else None


_MOST = 10**15
_JOINTS = {"en": "and", "es": "y", "fr": "et", "pt": "e"}


@lru_cache(maxsize=16)
def _later_words(language: str) -> frozenset[str]:
    """Words that stand in a spelled number behind its first one."""
    return frozenset(word for phrase in phrases(language) for word in phrase.split(" ")[1:])


def _longest(
    words: Sequence[str], at: int, known: dict[str, Spelled], later: frozenset[str]
) -> tuple[Spelled, int] | None:
    """The longest of the `known` phrases that begins at a word, all of whose further words are among `later`."""
    end, last = at + 1, min(at + _LONGEST, len(words))
    while end < last and words[end] in later:
        end += 1
    for length in range(min(end, last) - at, 0, -1):
        if found := known.get(" ".join(words[at : at + length])):
            return found, length
    return None


def _compound(words: Sequence[str], at: int, language: str) -> tuple[Spelled, int] | None:
    """German, Dutch and Italian thousands, written as one word: "fünfundzwanzigtausend"."""
    joint = {"de": "tausend", "nl": "duizend", "it": "mila"}.get(language)
    if not joint or at >= len(words) or joint not in words[at]:
        return None
    known = phrases(language)
    head, _, rest = words[at].partition(joint)
    many, few = known.get(head) if head else Spelled(1, False), known.get(rest) if rest else Spelled(0, False)
    return (Spelled(many.value * 1000 + few.value, False), 1) if many and few else None


def han_value(text: str) -> float | None:
    """The value of Chinese numerals, positional ("一九五六") or with tens and myriads ("二万五千"); None if they are none."""
    if len(text) > _MOST_HAN:
        return None
    if all(c in _HAN for c in text):
        return float("".join(str(_HAN[c]) for c in text))
    total = section = digit = 0
    for c in text:
        if c in _HAN:
            digit = digit * 10 + _HAN[c] if digit else _HAN[c]
        elif c in _HAN_TENS:
            section += (digit or 1) * _HAN_TENS[c]
            digit = 0
        elif c in MYRIADS:
            total += ((section + digit) or 1) * MYRIADS[c]
            section = digit = 0
        else:
            return None
    return float(total + section + digit)


_MOST_HAN = 20
HAN_COUNTERS = frozenset(
    "年月日号個个名位人件座条本台次回岁歳分秒时時点點世周天小章项項种種倍层層家支冊册枚匹頭头米公千克吨度成割つかヶカ"
)
"""Signs behind a Chinese numeral that make one of one or two characters a number."""


def roman_value(text: str) -> float:
    """The value of a Roman numeral."""
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}[c] for c in text]
    return float(sum(-v if i + 1 < len(values) and v < values[i + 1] else v for i, v in enumerate(values)))


_ONES = "한|두|세|네|다섯|여섯|일곱|여덟|아홉"
_NATIVE = re.compile(
    f"(?<![가-힣])(?:(서른|마흔|쉰|예순|일흔|여든|아흔|스물)({_ONES})"
    f"|({'|'.join(sorted(_KOREAN, key=len, reverse=True))}))(?= ?([가-힣]))"
)
_COUNTERS = frozenset(
    "개명번살시달해권대곳채마리가지차례척장점건쪽배군데세기종층그루송이쌍줄주자릿일년월분초통잔벌켤레조각"
)
_SINO = re.compile(
    "(?<![가-힣])([일이삼사오육칠팔구십백천]{1,7}) ?(?=년|개월|개|명|퍼센트|킬로|미터|시간|분|초|층|번|원)"
)
_SINO_SIGNS = str.maketrans("일이삼사오육칠팔구십백천", "一二三四五六七八九十百千")


def korean(text: str) -> list[tuple[int, int, float]]:
    """(start, end, value) of Korean numbers before a counter: native ones ("아홉 개") and Chinese ones ("십 년")."""
    found = []
    for m in _NATIVE.finditer(text):
        if m[1] or m[4] in _COUNTERS:
            found.append((*m.span(), float(_KOREAN[m[1]] + _KOREAN[m[2]] if m[1] else _KOREAN[m[3]])))
    for m in _SINO.finditer(text):
        if len(m[1]) > 1 or m[1] in "십백천" or text[m.end() - 1] == " ":
            found.append((*m.span(1), han_value(m[1].translate(_SINO_SIGNS)) or 0.0))
    return found

"""Numbers as ten languages write them: digits of any script, separators, myriads, English number words.

Only `d.ddd` and `d,ddd` (one separator, three digits) are ambiguous; there the language
decides, elsewhere the form does.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

from tokenmill.judges.math.lexicon import vocabulary

MAX_TEXT = 50_000
"""Characters of a text that the checks read; a longer one is a `ValueError`, never half checked."""
MAX_NUMERALS = 10_000
"""Numbers of one text that are listed; a text with more is a `ValueError`."""
MAX_DIGITS = 200
"""Longer numerals are left unread, so no arithmetic on them can be slow."""

COMMA_LANGUAGES = vocabulary("de es fr ru it pt nl pl sv da nb no fi cs uk tr id vi el ro hu bg hr sk sl")
"""ISO 639-1 codes whose decimal mark is the comma."""


def _digit_table() -> dict[int, str]:
    table = {0x066B: ".", 0x066C: ","}
    for code in (*range(0x0660, 0x0E60), 0x17E0, *range(0xFF10, 0xFF1A)):
        char = chr(code)
        if unicodedata.category(char) == "Nd":
            table[code] = str(unicodedata.digit(char))
    return table


DIGITS = _digit_table()
"""Every decimal digit of the Arabic, Indic, Thai and full-width blocks to its ASCII digit, and the Arabic decimal and
thousands marks to point and comma; one character for one."""

_SPACES = "\u00a0\u2009\u202f"
_DOT_GROUPS = rf"\d{{1,3}}(?:(?:,\d{{2,3}})*,\d{{3}}|(?:(?:\{{,\}}|\\,|['’{_SPACES}])\d{{3}})+)(?!\d)"
_COMMA_GROUPS = rf"\d{{1,3}}(?:(?:\.|['’{_SPACES} ]|\\,)\d{{3}})+(?!\d)"
NUMBER = {
    False: rf"(?:{_DOT_GROUPS}|\d+)(?:\.\d+)?|(?<![\d.])\.\d+",
    True: rf"(?:{_COMMA_GROUPS}(?:(?:,|\{{,\}})\d+)?|{_DOT_GROUPS}\.\d+|\d+(?:(?:,|\{{,\}})\d+|\.\d+)?)",
}
"""Regular expression of an unsigned numeral, by whether the decimal mark is a comma."""
_NUMBER = {comma: re.compile(pattern) for comma, pattern in NUMBER.items()}


def bounded(text: str) -> str:
    """`text` itself.

    Raises:
        ValueError: it is longer than `MAX_TEXT`.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"text of {len(text)} characters exceeds {MAX_TEXT}; cut it into chunks")
    return text


def comma_decimal(language: str) -> bool:
    """Whether `language` (ISO 639-1, region ignored) writes a decimal comma."""
    return language[:2].lower() in COMMA_LANGUAGES


def value(numeral: str, comma: bool = False) -> tuple[int | Fraction, int]:
    """Exact value of a numeral that `NUMBER` matched, and how many decimals it states.

    Raises:
        ValueError: more than `MAX_DIGITS` characters.
    """
    if len(numeral) > MAX_DIGITS:
        raise ValueError("numeral too long")
    if numeral.isdigit():
        return int(numeral), 0
    text = numeral.replace("{,}", ",").replace("\\,", " ")
    text = re.sub(rf"[ '’{_SPACES}]", "", text)
    dot, com = text.rfind("."), text.rfind(",")
    if dot >= 0 and com >= 0:
        mark = "." if dot > com else ","
    elif comma:
        # A dot before three digits groups thousands; a lone comma is always the decimal mark.
        mark = "," if com >= 0 or re.fullmatch(r"\d{1,3}(?:\.\d{3})+", text) else "."
    else:
        mark = "."
    whole, _, decimals = text.rpartition(mark) if mark in text else (text, "", "")
    digits = re.sub(r"[.,]", "", whole)
    if not decimals:
        return int(digits or "0"), 0
    return Fraction(int((digits or "") + decimals), 10 ** len(decimals)), len(decimals)


def in_english(text: str, language: str) -> str:
    """`text` in `language`, its numbers as English writes them: 3,5 as 3.5, 1.200 and 12 500 as 1,200 and 12,500."""
    comma = comma_decimal(language)
    return _NUMBER[comma].sub(lambda found: _in_english(found[0], comma), text.translate(DIGITS))


def _in_english(numeral: str, comma: bool) -> str:
    if numeral.isdigit() or len(numeral) > MAX_DIGITS:
        return numeral
    number, decimals = value(numeral, comma)
    whole, rest = divmod(int(number * 10**decimals), 10**decimals)
    grouped = len(re.findall(r"\D+", numeral)) > bool(decimals)
    return (f"{whole:,}" if grouped else str(whole)) + (f".{rest:0{decimals}}" if decimals else "")


_SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = dict(
    zip(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], range(20, 100, 10), strict=True)
)
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
WORDS: dict[str, Fraction] = (
    {word: Fraction(n) for n, word in enumerate(_SMALL)}
    | {word: Fraction(n) for word, n in _TENS.items()}
    | {word: Fraction(n) for word, n in SCALES.items()}
    | {word: Fraction(2) for word in ("twice", "double", "doubles", "doubled", "pair", "couple", "both", "second")}
    | {word: Fraction(3) for word in ("thrice", "triple", "triples", "tripled", "triplet", "third", "trio")}
    | {word: Fraction(4) for word in ("quadruple", "quadrupled", "fourth")}
    | {"dozen": Fraction(12), "dozens": Fraction(12), "half": Fraction(1, 2), "halves": Fraction(1, 2)}
    | {"score": Fraction(20), "fifth": Fraction(5), "sixth": Fraction(6), "seventh": Fraction(7), "eighth": Fraction(8)}
    | {"ninth": Fraction(9), "tenth": Fraction(10), "first": Fraction(1), "once": Fraction(1), "single": Fraction(1)}
    | {"thirds": Fraction(3), "quarter": Fraction(1, 4), "quarters": Fraction(1, 4), "fifths": Fraction(5)}
)
_PLAIN = {**{w: n for n, w in enumerate(_SMALL)}, **_TENS}
_UNITS = "|".join((*_TENS, *reversed(_SMALL)))
_SPELLED = re.compile(rf"\b(?:{_UNITS})(?:[ -](?:and |a )?(?:{'|'.join(SCALES)}|{_UNITS}))*\b", re.IGNORECASE)
_MYRIADS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8}
_AFTER = re.compile(
    r"(?P<myriad>[十百千万萬億亿])|\s?(?P<percent>[%％]|percent\b|per cent\b)"
    r"|[ \u00a0](?P<scale>hundred|thousand|million|billion|trillion"
    r"|тысяч[аи]?|тыс|миллион(?:а|ов)?|млн|Million(?:en)?|Tausend|millones|mil|millions?|mille|লাখ|লক্ষ|হাজার|లక్షల?|వేల|"
    r"ล้าน|พัน|หมื่น|แสน|milioni|elfu)\b|(?P<thai>\s?(?:ล้าน|แสน|หมื่น|พัน))",
    re.IGNORECASE,
)
_LOCAL_SCALES = {
    "тысяча": 1000, "тысячи": 1000, "тысяч": 1000, "тыс": 1000, "миллион": 10**6, "миллиона": 10**6,
    "миллионов": 10**6, "млн": 10**6, "million": 10**6, "millionen": 10**6, "tausend": 1000, "millones": 10**6,
    "mil": 1000, "millions": 10**6, "mille": 1000, "লাখ": 10**5, "লক্ষ": 10**5, "হাজার": 1000, "లక్ష": 10**5,
    "లక్షల": 10**5, "వేల": 1000, "ล้าน": 10**6,
    "แสน": 10**5, "หมื่น": 10**4, "พัน": 1000, "milioni": 10**6, "elfu": 1000, **SCALES,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number found in running text."""

    values: tuple[int | Fraction, ...]
    """Every value the writing can have, the likeliest first (`80.000` in a text of unknown language has two)."""
    text: str
    start: int
    end: int
    percent: bool = False
    word: bool = False
    """Written out in words."""


def spelled(words: str) -> int:
    """Value of English number words as `_SPELLED` matches them: "two hundred and five" is 205."""
    total = current = 0
    for word in re.findall(r"[a-z]+", words.lower()):
        if word in SCALES:
            scale = SCALES[word]
            if scale == 100:
                current = max(current, 1) * 100
            else:
                total, current = total + max(current, 1) * scale, 0
        elif word in _PLAIN:
            current += _PLAIN[word]
    return total + current


def find_numerals(text: str, language: str = "en", words: bool = True) -> list[Numeral]:
    """Every number written in `text` with digits, and in English words if `words`, in order of place.

    `language` settles separators; an empty string keeps both readings of an ambiguous numeral.

    Raises:
        ValueError: the text is longer than `MAX_TEXT` or holds more than `MAX_NUMERALS` numbers.
    """
    comma = comma_decimal(language)
    plain = bounded(text).translate(DIGITS)
    found: list[Numeral] = []
    position, n = 0, len(plain)
    pattern = _NUMBER[comma]
    while match := pattern.search(plain, position):
        if len(found) >= MAX_NUMERALS:
            raise ValueError(f"more than {MAX_NUMERALS} numbers in one text; cut it into chunks")
        start, position = match.span()
        if position - start > MAX_DIGITS:
            continue
        values = [value(match[0], comma)[0]]
        if language[:2] in _EITHER and _AMBIGUOUS.fullmatch(match[0]):
            other = _NUMBER[not comma].match(plain, start)
            if other and other.end() == position and (v := value(other[0], not comma)[0]) not in values:
                values.append(v)
        percent = False
        while position < n and (after := _AFTER.match(plain, position)):
            position = after.end()
            if after["percent"]:
                percent = True
                break
            if after["myriad"]:
                scale = _MYRIADS[after["myriad"]]
            else:
                scale = _LOCAL_SCALES[(after["scale"] or after["thai"]).strip().lower()]
            values = [v * scale for v in values]
            # 8万5千 is one number: what follows a myriad adds to it.
            if after["myriad"] and (tail := re.compile(r"(\d+)([十百千]?)").match(plain, position)):
                values = [v + int(tail[1]) * _MYRIADS.get(tail[2], 1) for v in values]
                position = tail.end()
        found.append(Numeral(tuple(values), text[start:position], start, position, percent))
    if words:
        found += [
            Numeral((spelled(m[0]),), text[m.start() : m.end()], m.start(), m.end(), word=True)
            for m in _SPELLED.finditer(plain)
            if not re.match(r"one\b", m[0].lower()) or " " in m[0]
        ]
        found.sort(key=lambda numeral: numeral.start)
    return found


# Spanish is written with either mark, by country.
_EITHER = ("", "es")
_AMBIGUOUS = re.compile(r"\d{1,3}[.,]\d{3}")

"""What reading facts needs to know of a text: words, sentence beginnings, units, one spelling per number."""

from __future__ import annotations

import re
from typing import NamedTuple

from tokenmill.judges.facts.tables import (
    ABBREVIATIONS,
    CASED_UNITS,
    FUNCTION_WORDS,
    LABELS,
    LONG_UNITS,
    MONTHS,
    ORDINAL_SCALES,
    ORDINALS,
    UNIT_PREFIXES,
    UNITS,
)


class Fact(NamedTuple):
    """A number, date or name at `text[start:end]`; another text keeps it when it offers any of `keys`."""

    kind: str
    """`number`, `date` or `name`."""
    start: int
    end: int
    keys: tuple[str, ...]
    """For a name: its words, lower-cased, without particles and initials."""
    unit: str = ""
    """Canonical unit of a number (`km`, `%`, `$`), or empty."""
    strong: bool = True
    """False where the words may serve as mere grammar: a small number word, a capital that begins a sentence."""


AFTER = re.compile(r"[ \u00a0-]?([%°€$£¥]?[^\W\d_]*)")
_ENDING = frozenset(["no", "jr", "sr", "inc", "ltd", "co", "etc", "al"])
"""Abbreviations after which a word in capitals begins a sentence more often than it belongs to them ("No. Ships had")."""
_SPLIT = ",.;:!?()\"'’“”‘–—-/[]*#&_\n\t"
_LABEL_ENDS = frozenset("0123456789).")
_CLAUSE_LABEL = re.compile(
    r"(?:^|\n)[ \t>*#-]*(?:§ ?\d+|\d{1,2}(?:\.\d{1,2})+[.)]?|\(?(?:[a-z]|[ivx]{2,4}|\d{1,2})\)) +$"
)
_OPENING = " \"'“‘«([*_#>"


def split_words(text: str) -> list[str]:
    """Lower-cased words. (A chain of `replace` is three times as fast as a regular expression.)"""
    text = text.lower()
    for mark in _SPLIT:
        text = text.replace(mark, " ")
    return text.split()


def canonical(digits: str, english: bool = True) -> str:
    """One spelling per value: "1,204" and "1204" give "1204", "8.0" gives "8"."""
    if digits.isdecimal():
        return (digits if digits.isascii() else _ascii(digits)).lstrip("0") or "0"
    digits = digits if digits.isascii() else _ascii(digits)
    thousands, point = (",", ".") if english else (".", ",")
    whole, _, fraction = digits.partition(point)
    groups = whole.split(thousands)
    if not english and point not in digits and len(groups) == 2 and len(groups[1]) != 3:
        groups, fraction = [groups[0]], groups[1]
    elif any(len(group) != 3 for group in groups[1:]) or (not fraction.isdecimal() and fraction):
        return digits
    whole = "".join(groups).lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _ascii(digits: str) -> str:
    return "".join(str(int(c)) if c.isdecimal() else c for c in digits)


_ORDINAL = re.compile(rf"(?:\d(?:st|nd|rd|th)|\b(?:{'|'.join([*ORDINALS, *ORDINAL_SCALES])}))s?$", re.IGNORECASE)


def is_ordinal(text: str, fact: Fact) -> bool:
    """Whether a number tells a place in an order, or a part: "3rd", "twenty-third", "5ths"."""
    return _ORDINAL.search(text, fact.start, fact.end) is not None


_RANK = re.compile(r"(?:[#№]|\b(?:No\.|number) ?)$")


def is_rank(text: str, fact: Fact) -> bool:
    """Whether a number is called one: "No. 5", "number 5", "#5"."""
    return _RANK.search(text, max(0, fact.start - 8), fact.start) is not None


_LABEL = re.compile(r"\b([A-Z][^\W\d_]*)[ -]$")
_SCORE = re.compile(r"[-–:]\d")


def label_of(text: str, fact: Fact) -> str:
    """The capitalised word that a number numbers, as in "NY 93", "F-5" or "Final Four"; empty for other numbers."""
    start = fact.start
    own = text[start]
    if (
        start < 2
        or text[start - 1] not in " -"
        or not text[start - 2].isalpha()
        or not (own.isdecimal() or own.isupper())
    ):
        return ""  # as most numbers, seen at once
    label = _LABEL.search(text, max(0, start - 24), start)
    if not label or _SCORE.match(text, fact.end):
        return ""
    lower = label[1].lower()
    common = lower in FUNCTION_WORDS or lower in MONTHS or lower in LABELS or lower in ("no", "nos")
    return "" if common else label[1]


_RATE_OR_SCALE = re.compile(r" ?(?:(?:/|per|an) ?(h(?:r|our)?)|(Celsius|Fahrenheit|[CF]))\b", re.IGNORECASE)
COMPOUND = {"km": {"h": "km/h"}, "mi": {"h": "mph"}, "°": {"c": "°C", "f": "°F"}}
"""Units that the words after them turn into others: "96 miles per hour", "5 degrees Celsius"."""


def unit_of(word: str, text: str, at: int) -> str:
    """Canonical unit spelled `word`, which begins at or after `at`; for "square km" the next word is read too."""
    lower = word.lower()
    if lower in UNIT_PREFIXES:
        end = text.index(word, at) + len(word)
        follows = AFTER.match(text, end + (text[end : end + 1] == "."))
        second = follows[1].lower() if follows else ""
        return LONG_UNITS.get((lower, UNITS.get(second, second)), "")
    if lower in CASED_UNITS and word not in ("V", "W") and not word.islower():
        return ""
    unit = UNITS.get(lower, "")
    if unit in COMPOUND and (follows := _RATE_OR_SCALE.match(text, text.index(word, at) + len(word))):
        return COMPOUND[unit].get((follows[1] or follows[2])[0].lower(), unit)
    return unit


def starts_sentence(text: str, start: int) -> bool:
    """Whether any word at `start` would be capitalised: after a full stop, a quotation mark, a newline, in a table's cell,
    after the number of a clause ("4.4 Either party", "(a) Either")."""
    at = start - 1
    if text[start - 2 : start - 1] in _LABEL_ENDS and _CLAUSE_LABEL.search(text, max(0, start - 16), start):
        return True
    while at >= 0 and text[at] in _OPENING and start - at < 8:
        if text[at] in "\"“‘«*#_'":
            return True
        at -= 1
    if at < 0 or text[at] in "\n:;!?•–—-…|":
        return True
    if text[at] in "”\"'’)" and at and text[at - 1] in ".!?":
        return True
    if text[at] != ".":
        return False
    before = text[max(0, at - 12) : at]
    word = before[max(before.rfind(" "), before.rfind("\n")) + 1 :].lstrip("(\"'“")
    if word.lower() in _ENDING or word.endswith((")", "%")) or word[-1:].isdigit():
        return True
    return not (len(word) == 1 or "." in word or word.lower() in ABBREVIATIONS)

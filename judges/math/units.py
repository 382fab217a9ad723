"""Unit words and how many of one make another, so that `90 minutes = 1.5 hours` is true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

_DIMENSIONS: dict[str, dict[str, int | Fraction]] = {
    "time": {"s sec second": 1, "min minute": 60, "h hr hour": 3600, "day": 86400, "week": 604800, "year": 365 * 86400},
    "calendar": {"month": 1, "year": 12, "decade": 120, "century": 1200, "quarter": 3},
    "weeks": {"week": 1, "year": 52, "month": 4},
    "days": {"day": 1, "month": 30, "year": 365, "week": 7},
    "metric": {"mm millimeter millimetre": 1, "cm centimeter centimetre": 10,
               "m meter metre": 1000, "km kilometer kilometre": 10**6},
    "imperial": {"in inch inches": 1, "ft foot feet": 12, "yd yard": 36, "mi mile": 63360},
    "mass": {"mg milligram": Fraction(1, 1000), "g gram": 1, "kg kilogram kilo": 1000, "ton tonne t": 10**6},
    "weight": {"oz ounce": 1, "lb pound": 16, "ton": 32000},
    "volume": {"ml milliliter millilitre": 1, "cl": 10, "l liter litre": 1000},
    "kitchen": {"tsp teaspoon": Fraction(1, 6), "tbsp tablespoon": Fraction(1, 2), "ounce oz": 1,
                "cup": 8, "pint pt": 16, "quart qt": 32, "gallon gal": 128},
    "money": {"¢ cent penny pennies": 1, "nickel": 5, "dime": 10, "quarter": 25, "$ dollar buck": 100},
    "euro": {"¢ cent": 1, "€ euro": 100},
    "sterling": {"penny pence pennies": 1, "£ pound": 100},
    "yen": {"¥ yen": 1},
    "rupee": {"₹ rupee": 1},
    "count": {"": 1, "pair": 2, "dozen": 12, "score": 20, "gross": 144},
    "share": {"": 1, "%": Fraction(1, 100)},
    "scale": {"": 1, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9},
    "angle": {"degree": 1, "turn": 360, "circle": 360},
}  # fmt: skip


def _table() -> dict[str, dict[str, Fraction]]:
    table: dict[str, dict[str, Fraction]] = {}
    for dimension, scale in _DIMENSIONS.items():
        for words, factor in scale.items():
            for word in words.split() or [""]:
                for form in (word, word + "s") if len(word) > 2 else (word,):
                    table.setdefault(form, {})[dimension] = Fraction(factor)
    return table


UNITS = _table()
"""Unit word to its size in every dimension it can measure."""
CONVERTED = {
    (part, there[dimension] / here[dimension])
    for part, here in UNITS.items()
    for there in UNITS.values()
    for dimension in here.keys() & there.keys()
    if there[dimension] >= here[dimension]
}
"""How many of a unit make another one: minute 60, days 7, 30 and 365, ..."""
CONVERSIONS = {size for _, size in CONVERTED}
COUNTS = frozenset(("count", "share", "scale"))
"""Dimensions whose words multiply a number rather than measure something."""
_RATES = {"mph": ("mi", "/", "h"), "kmh": ("km", "/", "h"), "kph": ("km", "/", "h")}
PER = frozenset(("/", "per", "a", "an", "each", "every"))
_POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}


def ratios(left: Iterable[str], right: Iterable[str]) -> set[Fraction]:
    """Every factor r for which `r` of some left unit make one of some right unit: minutes, hours give 60."""
    found = set()
    for a in [*left, ""]:
        for b in [*right, ""]:
            here, there = UNITS.get(a), UNITS.get(b)
            if here and there and a != b:
                found |= {there[dimension] / here[dimension] for dimension in here.keys() & there.keys()}
    return found - {Fraction(1)}


def spelled_out(words: Iterable[str]) -> list[str]:
    """A unit phrase without short names of rates: mph as mi / h."""
    return [part for word in words for part in _RATES.get(word, (word,))]


def factor(words: Sequence[str], dimension: str) -> Fraction | None:
    """How many base units one of a unit phrase makes: `("km", "/", "h")`, `("square", "feet")`, `("cm^2",)`.

    A word that measures several things is taken in `dimension` if it can be, else in its first. Of each side of a rate the
    first unit word counts; None where no word is a unit.
    """
    total, found = Fraction(1), False
    sign, power, open_side = 1, 1, True
    for word in spelled_out(words):
        if word in PER:
            sign, power, open_side = -1, 1, True
            continue
        power = _POWERS.get(word, power)
        name, _, exponent = word.partition("^")
        scale = UNITS.get(name, {})
        measured = dimension if dimension in scale else next((d for d in scale if d not in COUNTS), None)
        if measured is not None and open_side:
            total *= scale[measured] ** (sign * (int(exponent) if exponent else power))
            found, open_side = True, False
    return total if found else None


def parts(whole: str, part: str) -> Fraction | None:
    """How many of the smaller unit make one of the larger: hour, minutes give 60; None if they are no such pair."""
    for dimension, there in UNITS.get(whole, {}).items():
        here = UNITS.get(part, {}).get(dimension)
        if here is not None and here < there and dimension not in COUNTS:
            return there / here
    return None


def dimensions(unit_words: Iterable[str]) -> set[str]:
    """Dimensions that some of the words measure."""
    known = (UNITS.get(word.partition("^")[0], {}) for word in spelled_out(unit_words))
    return set().union(*(found.keys() for found in known))

"""The unit that a question asks for, and whether an answer is in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenmill.judges.math.expressions import Node, Num, Op, Quantity
from tokenmill.judges.math.lexicon import vocabulary
from tokenmill.judges.math.units import COUNTS, PER, UNITS, dimensions, factor, spelled_out

_HOW_MANY = re.compile(r"\bhow\s+many\s+([a-z][a-z /-]{1,80})", re.IGNORECASE)
_IN = re.compile(
    r"\bin\s+((?:(?:square|cubic|sq)\s+)?[a-z]{4,}(?:\s+(?:per|an?)\s+[a-z]{3,})?)"
    r"(?=\s*[?.,)]|\s*$|\s+(?:does|do|did|will|would|is|was|are|were)\b)",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"\b(?:what|which|how\s+many)\s+(?:percent\b|per\s+cent\b|percentage\b)", re.IGNORECASE)
_END_OF_NOUN = vocabulary(
    "does do did will would can could are is were was has have had should must may might of in to for on at that which from by "
    "with if when after before there and or left until till"
)
_FILLERS = vocabulary(
    "total more fewer less extra additional altogether combined whole full old long tall high wide deep thick away ago apart"
)
_MONEY = frozenset(("money", "euro", "sterling", "yen", "rupee"))
_SIGNS = re.compile(r"[$€£¥₹]|\b(?:dollar|euro|pound|yen|rupee)s?\b", re.IGNORECASE)


def asked_unit(question: str) -> tuple[str, ...]:
    """The unit that an English question wants its answer in: `("minutes",)`, `("miles", "/", "hour")`, `("%",)`.

    Empty where it names none ("How long …?"), counts things ("How many clips …?") or asks for several.
    """
    found = {unit for match in _HOW_MANY.finditer(question) if (unit := _unit_of(match[1].lower().split()))}
    if not found and _PERCENT.search(question):
        return ("%",)
    if not found:
        last = re.split(r"(?<=[.?!])\s", question.strip())[-1]
        found = {unit for match in _IN.finditer(last) if (unit := _unit_of(match[1].lower().split()))}
    return found.pop() if len(found) == 1 else ()


def _unit_of(words: list[str]) -> tuple[str, ...]:
    """The unit that a noun phrase is headed by: "square feet", "miles per hour", but not "dollar bills"."""
    noun: list[str] = []
    for word in words:
        if word in _END_OF_NOUN:
            break
        noun.append(word)
    at = next((i for i, word in enumerate(noun) if word in PER), len(noun))
    head = [word for word in noun[:at] if word not in _FILLERS and not word.endswith("er")]
    if not head or not _is_unit(head[-1], plural=True):
        return ()
    unit = tuple(head[-2:]) if head[-2:-1] and head[-2] in ("square", "cubic", "sq") else (head[-1],)
    rate = noun[at + 1 : at + 2]
    return (*unit, "/", rate[0]) if rate and _is_unit(rate[0]) else unit


def _is_unit(word: str, plural: bool = False) -> bool:
    return bool(UNITS.get(word, {}).keys() - COUNTS) and (not plural or word.endswith("s") or word == "feet")


def currency(text: str) -> tuple[str, ...]:
    """The one currency of a text; empty for none or several."""
    found = {frozenset(UNITS.get(sign.lower(), {}).keys() & _MONEY): sign for sign in _SIGNS.findall(text)}
    return (next(iter(found.values())).lower(),) if len(found) == 1 else ()


def phrase(node: Node) -> tuple[str, ...]:
    """Unit words of a lone quantity, sign and fraction bar aside; empty where none of them is a unit of measure."""
    while isinstance(node, Op) and (node.op == "neg" or (node.op == "/" and isinstance(node.args[0], Num))):
        node = node.args[-1]
    words = node.units if isinstance(node, Quantity) else ()
    return words if dimensions(words) - COUNTS else ()


def is_money(words: tuple[str, ...]) -> bool:
    """Whether the unit is one of money."""
    return bool(dimensions(words) & _MONEY)


def same_unit(here: Sequence[str], there: Sequence[str]) -> bool:
    """Whether two units are one. An unknown or missing one may be any, and "per day" may be left out."""
    here, there = spelled_out(here), spelled_out(there)
    if (PER & set(here)) and not PER & set(there):
        here = _before_per(here)
    elif (PER & set(there)) and not PER & set(here):
        there = _before_per(there)
    mine, theirs = dimensions(here) - COUNTS, dimensions(there) - COUNTS
    if not mine or not theirs:
        return True
    return any(factor(here, dimension) == factor(there, dimension) for dimension in mine & theirs)


def _before_per(words: list[str]) -> list[str]:
    return words[: next(i for i, word in enumerate(words) if word in PER)]

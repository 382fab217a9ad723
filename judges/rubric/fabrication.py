"""Does the agent state an identifier, an address or an amount that nobody gave it?

An amount may also be worked out: sums over a list, products, differences, shares of what the sources hold.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations, islice
from typing import Any, NamedTuple

from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.values import numbers_in

_TOKEN = re.compile(r"(?<![\w@./:%-])[#]?([A-Za-z0-9]+(?:[-_/][A-Za-z0-9]+)*)(?![\w@%]|[./:-]\w)")
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}")
_MONEY = re.compile(
    r"(?:[$€£¥]|\b(?:USD|EUR|GBP)\b)\s?(\d[\d,]*(?:\.\d+)?)(?!\.?\d|[\w,]*\d)(?!\s?(?:k|m|bn|million|billion|thousand)\b)"
    r"|(?<![\w.,$€£¥-])(\d[\d,]*\.\d\d)(?=\s?(?:USD|EUR|GBP|dollars|euros|pounds)\b)",
    re.IGNORECASE,
)
_LONG = re.compile(r"(?<![\w.,$€£¥@/+(-])(\d{6,20})(?![\w.,/@-]*\w)")
_STANDARDS = frozenset((
    "iso", "rfc", "ieee", "iec", "din", "en", "utf", "sha", "md", "rtx", "gtx", "covid", "ipv", "usb", "http", "https", "tls",
    "mp", "ansi", "cve", "nist", "fips", "win", "ie", "python",
))  # fmt: skip
"""What names something everybody knows when a number follows."""
_WHEN = re.compile(
    r"\b\d{4}-\d\d-\d\d\S*|\b\d{1,4}[./]\d{1,2}[./]\d{2,4}\b|\b\d{1,2}[:h]\d\d\b|\b\d{1,2} ?[ap]\.?m\b|\b(?:19|20)\d\d\b"
    r"|\b\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d{1,2}\b",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_SMALL = (*range(2, 13), 14, 15, 20, 24, 30, 31, 52, 60, 100, 365, 1000)
_MAX_BASE = 80
_MAX_TERMS = 10
_MAX_FACTOR = 1000
_MAX_TEXT = 20_000
"""Characters of one answer that are read."""
_MAX_SOURCES = 100_000
"""Characters of the sources in which numbers told in prose are looked for; those in results as JSON are all known."""
_MAX_COLUMNS, _MAX_PARTS, _MAX_OPERANDS = 100, 3_000, 40
_FEW = 12
"""With at most so many numbers, sums of two are calculated with further; with more, everything could be worked out."""


class Invention(NamedTuple):
    """Something stated that stands nowhere."""

    message: int
    text: str
    """Verbatim."""
    what: str


def invented(evidence: Evidence) -> Invention | None:
    """The first identifier, e-mail address or amount in the agent's words that has no source, or None."""
    sources = _Sources(evidence)
    for index, text in evidence.said:
        for stated, what in dict.fromkeys(_stated(text[:_MAX_TEXT])):
            if not sources.have(stated, what):
                return Invention(index, stated, what)
    return None


def _stated(text: str) -> Iterator[tuple[str, str]]:
    for match in _EMAIL.finditer(text):
        yield match[0], "address"
    for match in _TOKEN.finditer(text):
        if is_identifier(match[1]):
            yield match[1], "identifier"
    for match in _LONG.finditer(text):
        yield match[1], "identifier"
    for match in _MONEY.finditer(text):
        yield match[1] or match[2], "amount"


def is_identifier(token: str) -> bool:
    """Whether a word looks made to identify one thing: `BK-20931`, `INV_204`, `9f3a41c2`."""
    digits = sum(c.isdigit() for c in token)
    letters = [part for part in re.split(r"[^A-Za-z]+", token) if part]
    if digits < 3 or not letters or len(token) < 5 or "/" in token:
        return False
    if letters[0].lower() in _STANDARDS or any(_YEAR.fullmatch(run) for run in re.findall(r"\d+", token)):
        return False
    if token[0].isdigit() and re.fullmatch(r"\d+[a-zA-Z]{1,5}", token):
        return False  # a number and its unit
    return digits >= 4 or (letters[0].isupper() and len(letters[0]) <= 5)


class _Sources:
    """Everything that the agent was given: its instructions, the user's words, calls and results, its tools."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def have(self, stated: str, what: str) -> bool:
        if what == "address":
            return stated.lower() in self._lower
        if what == "identifier":
            return _squash(stated) in self._squashed
        decimals = len(stated.partition(".")[2])
        value = float(stated.replace(",", ""))
        if value < 100 and not decimals:
            return True  # so small a number may be anything
        return self._known(value, decimals) or self._derived(value, decimals)

    @cached_property
    def _text(self) -> str:
        evidence = self._evidence
        given = [message.content or "" for message in evidence.messages if message.role != "assistant"]
        calls = [part for call in evidence.calls for part in (call.arguments, call.result)]
        tools = [part for spec in evidence.tools for part in (spec.description, spec.input_schema)]
        return "\n".join(dict.fromkeys([*given, *calls, *tools]))

    @cached_property
    def _squashed(self) -> str:
        return _squash(self._text)

    @cached_property
    def _lower(self) -> str:
        return self._text.lower()

    @cached_property
    def _numbers(self) -> list[float]:
        return sorted({abs(float(value)) for value in numbers_in(self._text[:_MAX_SOURCES])} | set(self._fields))

    @cached_property
    def _fields(self) -> list[float]:
        """Numbers in calls and results."""
        values = (*self._evidence.results, *self._evidence.arguments)
        return list(dict.fromkeys(abs(number) for value in values for number in _numeric(value)))

    @cached_property
    def _base(self) -> list[float]:
        """What is worth calculating with: numbers in results, and those told that are no part of an identifier."""
        given = " ".join(m.content or "" for m in self._evidence.messages if m.role in ("system", "user"))
        plain = _TOKEN.sub(lambda m: " " if re.search(r"[A-Za-z]", m[1]) else m[0], given)
        told = [abs(float(value)) for value in numbers_in(_WHEN.sub(" ", plain))]
        return [n for n in dict.fromkeys([*self._fields[:_MAX_BASE], *told[:_MAX_BASE]]) if 0 < n < 1e9]

    @cached_property
    def _columns(self) -> list[list[float]]:
        results = self._evidence.results
        tables = (column for result in results for column in _columns_of(result))
        return list(islice(chain(_by_key(results), tables), _MAX_COLUMNS))

    @cached_property
    def _totals(self) -> set[float]:
        """Sums and means over lists and over one field of several results."""
        return {total for column in self._columns for total in (sum(column), sum(column) / len(column))}

    @cached_property
    def _parts(self) -> set[float]:
        """Sums of some of a list, and multiples."""
        sums = islice((total for column in self._columns for total in _subset_sums(column)), _MAX_PARTS)
        factors = (*_SMALL, *(b for b in self._base if b == int(b) and b <= _MAX_FACTOR))
        return {*sums, *islice((a * b for a in self._base for b in factors), _MAX_PARTS)}

    @cached_property
    def _worked_out(self) -> list[float]:
        """What sums, products, differences, shares and means make of the sources' numbers, sorted."""
        base = self._base[:_MAX_OPERANDS]
        shares = [b for b in base if b < 100]
        totals = self._totals | set(self._base)
        sums = {abs(n) for a in totals for b in base for n in (a + b, a - b)}
        made = totals | self._parts
        steps = made | sums
        for a in chain(made, sums if len(self._base) <= _FEW else ()):
            steps.update(n for b in shares for n in (a * b / 100, a * (100 + b) / 100, a * (100 - b) / 100))
            steps.update(a / n for n in _SMALL)
            steps.update(abs(n) for b in base for n in (a + b, a - b))
        steps.update(n for a in totals for b in base for n in (a * b, a / b, 100 * a / b))
        return sorted(steps)

    def _known(self, value: float, decimals: int) -> bool:
        return _near(self._numbers, value, decimals)

    def _derived(self, value: float, decimals: int) -> bool:
        return _near(self._worked_out, value, decimals)


def _near(ordered: list[float], value: float, decimals: int) -> bool:
    """Whether a number of a sorted list is `value` when it is rounded as that is."""
    margin = 0.5 * 10.0**-decimals + 1e-9
    at = bisect_left(ordered, value - margin)
    return at < len(ordered) and ordered[at] <= value + margin


def _squash(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())


def _numeric(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _numeric(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numeric(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _tables(value: Any) -> Iterator[list[dict[str, Any]]]:
    """Lists of objects anywhere in a value."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _tables(item)
        records = [item for item in value.values() if isinstance(item, dict)]
        if len(records) > 1:
            yield records
    elif isinstance(value, list):
        records = [item for item in value if isinstance(item, dict)]
        if records:
            yield records
        for item in value:
            yield from _tables(item)


def _columns(records: list[dict[str, Any]]) -> Iterator[list[float]]:
    """The numbers of each field, and of each product of two (a price times a quantity)."""
    fields: dict[str, list[float]] = {}
    for record in records:
        for key, item in record.items():
            if isinstance(item, int | float) and not isinstance(item, bool):
                fields.setdefault(key, []).append(float(item))
    whole = {key: column for key, column in fields.items() if len(column) == len(records)}
    yield from fields.values()
    for (_, a), (_, b) in combinations(list(whole.items())[:8], 2):
        yield [x * y for x, y in zip(a, b, strict=True)]


def _columns_of(value: Any) -> Iterator[list[float]]:
    for records in _tables(value):
        yield from _columns(records)


def _by_key(results: Sequence[Any]) -> Iterator[list[float]]:
    """The numbers that stand under one key, in all results together."""
    found: dict[str, list[float]] = {}
    stack = list(results)
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += value.values()
            for key, item in value.items():
                if isinstance(item, int | float) and not isinstance(item, bool):
                    found.setdefault(key, []).append(float(item))
        elif isinstance(value, list):
            stack += value
    yield from found.values()


def _subset_sums(column: list[float]) -> set[float]:
    sums = {0.0}
    for term in column if len(column) <= _MAX_TERMS else ():
        sums |= {total + term for total in sums}
    return sums

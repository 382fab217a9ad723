"""Personal data in a text, replaced by placeholders of its kind; check digits and context keep other numbers as they are.

text, counts = Personal()("Write to ada@example.org or call +44 20 7946 0958.")
# "Write to <EMAIL> or call <PHONE>.", {"email": 1, "phone": 1}
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import re2
from tokenmill.judges.corpus import keys

_EMAIL = re2.compile(
    r"[A-Za-z0-9_%+'’.-]*[A-Za-z0-9_%+-]@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,24}\b"
)
_IPV4 = re2.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")
_IPV6 = re2.compile(r"(?i)\b[0-9a-f]{1,4}(?::[0-9a-f]{0,4}){3,7}\b")
_DIGITS = re2.compile(r"\d(?:[ -]?\d){11,18}")
_IBAN = re2.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_SSN = re2.compile(r"\b\d{3}-\d{2}-\d{4}\b")
_ABROAD = re2.compile(r"(?:\+|\b00)[1-9]\d{0,2}(?:[ .\x{a0}-]?\(0?\d{0,4}\))?(?:[ .\x{a0}/-]?\d{1,5}){2,6}\b")
_NATIONAL = re2.compile(r"(?:\(\d{2,5}\)[ .-]?|\b\d{3}[ .-])\d{3}[ .-]\d{4}\b")
_SPOKEN = re2.compile(
    r"(?i)\b(?:tel(?:ephone|efon|éfono)?|phone|fax|mobile|mobil|handy|cell|call|ring|whatsapp|sms|hotline|contact)\b"
    r"(?: (?:us|me|him|her|them|now|today|number|no|at|on|is|to))*[.:]{0,2}\s{0,3}"
    r"(\(?\+?\d[\d ().\x{a0}/-]{5,18}\d)"
)
_VERSION = re.compile(r"(?:v|version|ver\.?|release|oid|section|§|rev\.?|build)\s*$", re.IGNORECASE)
_SECURITY = re.compile(r"\b(?:ssn|social[ -]security)\b", re.IGNORECASE)
_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21,
    "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27,
    "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26,
    "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "MC": 27, "MD": 24,
    "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29,
    "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TN": 24, "TR": 26, "UA": 29, "VA": 22,
    "VG": 24, "XK": 20,
}  # fmt: skip
"""Characters of an account number by country (ISO 13616)."""
_CARDS = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01]|720)\d{12,13}|3[47]\d{13}|6(?:011|4[4-9]\d|5\d\d)\d{12}"
    r"|35\d{14}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800)\d{11}"
)
"""Numbers that card networks issue."""
_MAESTRO = re.compile(r"(?:50|5[6-9]|6\d)\d{10,17}")
"""Numbers of debit cards, so many that their check digit alone does not tell them."""
_PAID = re.compile(r"\b(?:cards?|paid|pays?|payment|maestro|debit|credit|karte|carte|tarjeta|carta)\b", re.IGNORECASE)

Span = tuple[int, int, str]


@dataclass(frozen=True)
class Personal:
    """Masks e-mail and global IP addresses, phone, card, account and social security numbers, and keys."""

    def __call__(self, text: str) -> tuple[str, dict[str, int]]:
        """The text with placeholders such as `<EMAIL>`, and how many of each kind."""
        spans = sorted(self.found(text), key=lambda span: (span[0], -span[1]))
        if not spans:
            return text, {}
        parts, place, counts = [], 0, Counter[str]()
        for start, end, kind in spans:
            if start < place:
                continue
            parts += [text[place:start], f"<{kind.upper()}>"]
            place = end
            counts[kind] += 1
        return "".join([*parts, text[place:]]), dict(sorted(counts.items()))

    def found(self, text: str) -> Iterator[Span]:
        """[start, end) and kind of everything that is masked; they may overlap."""
        yield from ((start, end, "key") for start, end in keys.found(text))
        if "@" in text:
            yield from ((*match.span(), "email") for match in _EMAIL.finditer(text))
        yield from _where(_IPV4, text, "ip", _is_global)
        if text.count(":") >= 3:
            yield from _where(_IPV6, text, "ip", _is_global)
        yield from _where(_DIGITS, text, "card", _is_card)
        yield from _where(_IBAN, text, "iban", _is_account)
        yield from _where(_SSN, text, "ssn", _is_security_number)
        yield from _where(_ABROAD, text, "phone", _is_number_abroad)
        yield from _where(_NATIONAL, text, "phone", _is_national)
        for match in _SPOKEN.finditer(text):
            if 7 <= sum(map(str.isdigit, match.group(1))) <= 15:
                yield (*match.span(1), "phone")


def _where(pattern: Any, text: str, kind: str, holds: Callable[[str, str, int, int], bool]) -> Iterator[Span]:
    for match in pattern.finditer(text):
        start, end = match.span()
        if holds(match.group(), text, start, end):
            yield start, end, kind


def _apart(text: str, start: int, end: int) -> bool:
    """Whether a number is not part of a longer one, of a name or of a formula."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if (
        before[-1:].isalnum()
        or after[:1].isalnum()
        or before[-1:] in tuple("._=/^*+×·-$€£#%&")
        or after[:1] in tuple("_=^*×·%")
    ):
        return False
    return not (after[:1] in (".", ",", "-", "/") and after[1:].isdigit()) and not (
        before[-1:] == "," and before[:1].isdigit()
    )


def _is_global(found: str, text: str, start: int, end: int) -> bool:
    if text[end : end + 1] in (".", ":", "-", "_") and text[end + 1 : end + 2].isalnum():
        return False
    if text[max(0, start - 1) : start] in (".", "-", "_", ":", "=") or _VERSION.search(
        text[max(0, start - 12) : start]
    ):
        return False
    try:
        return ipaddress.ip_address(found).is_global
    except ValueError:
        return False


def _is_card(found: str, text: str, start: int, end: int) -> bool:
    digits = found.replace(" ", "").replace("-", "")
    maestro = _MAESTRO.fullmatch(digits) and _PAID.search(text[max(0, start - 40) : start])
    if not (_CARDS.fullmatch(digits) or maestro) or not _grouped(found) or not _apart(text, start, end):
        return False
    sums = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(value // 10 + value % 10 for value in sums) % 10 == 0


def _grouped(found: str) -> bool:
    """Whether the digits stand together or as on a card, four by four."""
    groups = re.split(r"[ -]", found)
    return (
        len(groups) == 1
        or all(len(group) == 4 for group in groups[:-2])
        or [len(group) for group in groups] == [4, 6, 5]
    )


def _is_account(found: str, text: str, start: int, end: int) -> bool:
    code = found.replace(" ", "")
    length = _IBAN_LENGTHS.get(code[:2], 0)
    if len(code) != length:
        return False
    number = "".join(str(int(char, 36)) for char in code[4:] + code[:4])
    return int(number) % 97 == 1


def _is_security_number(found: str, text: str, start: int, end: int) -> bool:
    area, group, serial = found.split("-")
    real = area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"
    return real and _SECURITY.search(text[max(0, start - 60) : end + 30]) is not None


def _is_number_abroad(found: str, text: str, start: int, end: int) -> bool:
    """`+49 30 1234567`: written together it needs ten digits, or a sum would be one."""
    digits = sum(map(str.isdigit, found))
    together = found.lstrip("+").isdigit()
    if not (10 if together else 8) <= digits <= 15 or not _apart(text, start, end):
        return False
    before = text[:start].rstrip(" ")[-1:]
    return not before.isdigit() and (found[0] != "+" or before not in tuple(")=+-*/^"))


def _is_national(found: str, text: str, start: int, end: int) -> bool:
    marks = {mark for mark in found if not mark.isdigit()} - {"(", ")"}
    if found[0] != "(" and (len(marks) != 1 or found[0] in "01" or marks == {" "}):
        return False
    return _apart(text, start, end)

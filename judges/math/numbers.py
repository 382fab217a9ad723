"""The numbers of a problem are all used in its note, or at least accounted for (Kimi K2 report, section 2.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.numerals import DIGITS, WORDS, Numeral, find_numerals
from tokenmill.judges.math.units import UNITS
from tokenmill.schemas.verdicts import Finding, Verdict

_FRACTION = re.compile(r"\s*(?:/|⁄|⁄)\s*")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{(\d{1,9})\}\s*\{(\d{1,9})\}")
_NEXT_WORD = re.compile(r"[ -]?([A-Za-z]+)")
_WORD = re.compile(r"[A-Za-z]+")
_SHARES = re.compile(r"\b(?:half|twice|double|doubled|triple|tripled|thrice|dozen|quadruple)\b", re.IGNORECASE)


@dataclass(frozen=True)
class NumbersUsed:
    """Check `numbers_used`: reason `number_unused`, one finding for each number of the problem that the note drops.

    A number is used when the note holds it or something it plainly became: 20 % as 0.2, 1.2, 80 or 1/5; 12 as a dozen;
    2 as twice; 2 hours as 120. The score is the share of numbers used.
    """

    words: bool = False
    """Also hold the note to numbers written in English words; off, since "two friends" is often no quantity."""

    def __call__(self, problem: str, note: str, unused: Sequence[str] = (), language: str = "en") -> Verdict:
        """Judge `note` (English) against `problem` in `language`.

        `unused` are the note's own declarations of what the problem did not need; numbers in them are accounted for.
        """
        required = problem_numbers(problem, language, self.words)
        present = note_values(from_mathml(note))
        for declaration in unused:
            present |= note_values(declaration)
        keys = {n: (n.values, n.percent, unit_after(problem, n.end)) for n in required}
        used = {key: is_used(*key, present) for key in set(keys.values())}
        missing = [n for n in required if not used[keys[n]]]
        score = 1 - len(missing) / len(required) if required else 1.0
        findings = tuple(
            Finding("number_unused", f"Use {n.text}, or say why the problem does not need it.", _around(problem, n))
            for n in missing
        )
        return Verdict("numbers_used", not missing, score, "number_unused" if missing else "", findings)


def problem_numbers(text: str, language: str = "en", words: bool = False) -> list[Numeral]:
    """Numbers a solution must account for: `3/4` is one number, and one itself is left out."""
    found = find_numerals(from_mathml(text), language, words=words and language[:2] == "en")
    merged: list[Numeral] = []
    for numeral in found:
        last = merged[-1] if merged else None
        if last and not last.word and not numeral.word and _FRACTION.fullmatch(text, last.end, numeral.start):
            over = numeral.values[0]
            if over:
                merged[-1] = Numeral(
                    (Fraction(last.values[0]) / over,), text[last.start : numeral.end], last.start, numeral.end
                )
                continue
        merged.append(numeral)
    return [n for n in merged if n.values[0] not in (0, 1)]


def conditions(text: str) -> list[Numeral]:
    """Everything in an English problem that a solution should use: its numbers, written out ones too, and its multiples and
    shares ("half as many", "twice", "a dozen")."""
    found = problem_numbers(text, words=True)
    taken = [(n.start, n.end) for n in found]
    for match in _SHARES.finditer(text):
        if not any(start <= match.start() < end for start, end in taken):
            found.append(Numeral((WORDS[match[0].lower()],), match[0], *match.span(), word=True))
    return sorted(found, key=lambda numeral: numeral.start)


def note_values(text: str) -> set[Fraction]:
    """Every value that occurs in `text`: numerals, fractions, number words such as twice, half, dozen."""
    numerals = find_numerals(text)
    values = {Fraction(v) for n in numerals for v in n.values}
    for before, after in pairwise(numerals):
        if after.values[0] and _FRACTION.fullmatch(text, before.end, after.start):
            values.add(Fraction(before.values[0]) / after.values[0])
    plain = text.translate(DIGITS)
    values |= {Fraction(int(m[1]), int(m[2])) for m in _LATEX_FRACTION.finditer(plain) if int(m[2])}
    values |= {WORDS[w] for m in _WORD.finditer(plain) if (w := m[0].lower()) in WORDS}
    return values


def forms(value: int | Fraction, percent: bool = False, unit: str = "") -> set[Fraction]:
    """What a number may have become in a calculation; `unit` is the word that follows it."""
    v = Fraction(value)
    found = {v}
    if v.denominator == 1 and v >= 1000:
        # $120 million may be calculated as 120.
        found |= {v / scale for scale in (1000, 10**6, 10**9) if (v * 100 / scale).denominator == 1}
    if v and (abs(v) < 1 or (v.denominator == 1 and abs(v) <= 12)):
        found.add(1 / v)
    if percent or 0 < v < 1:
        share = v / 100 if percent else v
        found |= {share, share * 100, 1 - share, 1 + share, 100 * (1 - share), 100 * (1 + share)}
        if share:
            found.add(1 / share)
    for dimension, size in (UNITS.get(unit, {}) if unit else {}).items():
        # 2 hours may appear as 120 minutes only.
        found |= {v * size / other[dimension] for other in UNITS.values() if dimension in other}
    return found


def is_used(values: tuple[int | Fraction, ...], percent: bool, unit: str, present: set[Fraction]) -> bool:
    """Whether a number with the unit word that follows it, or something it plainly became, is among the values `present`."""
    for v in map(Fraction, values):
        if not present.isdisjoint(forms(v, percent, unit)):
            return True
        share = v / 100 if percent else v
        if 0 < share < 1 and {Fraction(share.numerator), Fraction(share.denominator)} <= present | {Fraction(1)}:
            return True  # 3/4 taken as "times 3" and "divided by 4"
    return False


def unit_after(text: str, end: int) -> str:
    """The word behind a number, lower case."""
    match = _NEXT_WORD.match(text, end)
    return match[1].lower() if match else ""


def _around(text: str, numeral: Numeral, width: int = 40) -> str:
    return " ".join(text[max(0, numeral.start - width) : numeral.end + width].split())

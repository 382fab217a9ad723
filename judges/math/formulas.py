"""A translation keeps every formula, number and code block of its source (Kimi K2 report, section 2.2).

Character for character, except that numbers are written in the English way (3,5 as 3.5), white space in formulas is
free, the words inside `\\text{...}` may be translated, and a number may be written out in English words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.notation import Token, hide, tokenize
from tokenmill.judges.math.numerals import DIGITS, WORDS, Numeral, comma_decimal, find_numerals, in_english, value
from tokenmill.schemas.verdicts import Finding, Verdict

_CODE = re.compile(r"```[^\n]*\n(.*?)(?:\n[ \t]*```|\Z)|(?<!`)`([^`\n]{1,500})`(?!`)", re.DOTALL)
_TEXT = re.compile(r"\\(?:text|mbox|textrm|textbf)\s?\{[^{}]*\}")
_SPACING = re.compile(r"\s+|\\[,;:! ]|\\quad|\\qquad|~")
_ONE = re.compile(
    r"\b(?:an?|one|each|per|every|once|single|first|dai\w+|day|weekly|monthly|yearly|hourly|another|it)\b",
    re.IGNORECASE,
)
_LISTED = re.compile(r"(?:[(\[\]]|\\\{|_\{)\s*-?\d+(?:\s*,\s*-?\\?\w+)+\s*(?:[)\]\[]|\\?\})")
"""A point, an interval, a set or indices: there a comma may stand between two numbers also where it is the decimal mark."""


@dataclass(frozen=True)
class FormulasKept:
    """Check `formulas_kept`: reasons `code_lost`, `formula_lost`, `number_lost` (the first that applies).

    One finding for each piece of the source that the translation lacks; the score is the share kept.
    """

    def __call__(self, source: str, translation: str, language: str = "en", into: str = "en") -> Verdict:
        """Compare a `source` in `language` with its translation into `into` (ISO 639-1 codes).

        An empty `language` keeps both readings of an ambiguous numeral such as 80.000.
        """
        here, there = _Pieces.of(source, language), _Pieces.of(translation, into)
        lost = [
            Finding("code_lost", f"Keep the code `{c[:80]}` unchanged.", c[:300])
            for c in _missing(here.code, there.code)
        ]
        lost += [
            Finding("formula_lost", f"Keep the formula {in_english(f, language)[:120]}.", f[:300])
            for f in _missing_formulas(here.formulas, there.formulas)
        ]
        lost += [
            Finding(
                "number_lost",
                f"Keep the number {in_english(n.text, language)}.",
                " ".join(source[max(0, n.start - 30) : n.end + 30].split()),
            )
            for n in _missing_numbers(here.numbers, there.numbers, there.prose)
        ]
        total = len(here.code) + len(here.formulas) + len(here.numbers)
        score = max(0.0, 1 - len(lost) / total) if total else 1.0
        return Verdict("formulas_kept", not lost, score, lost[0].kind if lost else "", tuple(lost))


@dataclass(frozen=True)
class _Pieces:
    """What must survive: code blocks, (signatures, quote) of formulas, numbers of the prose that is left."""

    code: list[str]
    formulas: list[tuple[tuple[str, ...], str]]
    """With their readings: two where a comma may be the decimal mark or stand between numbers."""
    numbers: list[Numeral]
    prose: str

    @classmethod
    def of(cls, text: str, language: str) -> _Pieces:
        text = from_mathml(text)
        code = [(m[1] if m[1] is not None else m[2]).rstrip() for m in _CODE.finditer(text)]
        text = _CODE.sub(lambda m: " " * len(m[0]), text)
        _, edges = hide(text)
        formulas, chars = [], list(text)
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            quote = text[start:end]
            formulas.append((_signatures(quote, language), quote))
            chars[start:end] = " " * (end - start)
        for start, end, signature in _plain_formulas("".join(chars), language):
            formulas.append(((signature,), text[start:end]))
            chars[start:end] = " " * (end - start)
        prose = "".join(chars)
        return cls(code, formulas, find_numerals(prose, language, words=False), prose)


def _signatures(formula: str, language: str) -> tuple[str, ...]:
    """What the formula may say, the likeliest first."""
    read = _signature(formula, language)
    if comma_decimal(language) and _LISTED.search(formula):
        return read, _signature(formula, "en")
    return (read,)


def _signature(formula: str, language: str) -> str:
    """The formula's characters, spaces and words left out, every numeral by its value."""
    formula = formula.strip("$").translate(DIGITS)
    for opening, closing in (("\\[", "\\]"), ("\\(", "\\)")):
        formula = formula.removeprefix(opening).removesuffix(closing)
    formula = _SPACING.sub(" ", _TEXT.sub("\\\\text{}", formula))
    parts, position = [], 0
    for numeral in find_numerals(formula, language, words=False):
        parts += [formula[position : numeral.start], str(numeral.values[0]) + ("%" if numeral.percent else "")]
        position = numeral.end
    parts.append(formula[position:])
    return "".join(parts).replace(" ", "")


def _plain_formulas(prose: str, language: str) -> list[tuple[int, int, str]]:
    """Runs such as `3 x 4 = 12` or `<<48/2=24>>` outside LaTeX: positions and signature."""
    runs: list[tuple[int, int, str]] = []
    run: list[Token] = []
    comma = comma_decimal(language)
    for token in [*tokenize(prose, language), None]:
        if token is not None and token.kind in (
            "num",
            "op",
            "rel",
            "open",
            "close",
            "sym",
            "money",
            "vulgar",
            "frac",
            "func",
        ):
            run.append(token)
            continue
        while run and run[-1].kind not in ("num", "sym", "close", "vulgar"):
            run.pop()
        while run and run[0].kind not in ("num", "sym", "open", "func", "frac", "vulgar"):
            run.pop(0)
        operands = sum(t.kind in ("num", "vulgar") or (t.kind == "sym" and t.text.isascii()) for t in run)
        signs = [t.text for t in run if t.kind in ("op", "rel") and t.text not in "-%"]
        if operands >= 2 and signs and (signs != ["/"] or operands > 2):
            signature = "".join(
                _number_text(t.text, comma) if t.kind == "num" else t.text for t in run if t.kind != "money"
            )
            runs.append((run[0].start, run[-1].end, signature))
        run = []
    return runs


def _number_text(numeral: str, comma: bool) -> str:
    try:
        return str(value(numeral, comma)[0])
    except ValueError:
        return numeral


def _missing(needed: Iterable[str], present: Iterable[str]) -> list[str]:
    return list((Counter(needed) - Counter(present)).elements())


def _missing_formulas(
    needed: list[tuple[tuple[str, ...], str]], present: list[tuple[tuple[str, ...], str]]
) -> list[str]:
    available = Counter(signatures[0] for signatures, _ in present)
    lost = []
    for signatures, quote in needed:
        there = next((signature for signature in signatures if available[signature] > 0), None)
        if there is None:
            lost.append(quote)
        else:
            available[there] -= 1
    return lost


def _missing_numbers(needed: list[Numeral], present: list[Numeral], prose: str) -> list[Numeral]:
    """Numbers of the source for which the translation has no numeral and no word left."""
    available: Counter[tuple[Fraction, bool]] = Counter()
    for numeral in present:
        available[Fraction(numeral.values[0]), numeral.percent] += 1
    spelled = Counter(Fraction(n.values[0]) for n in find_numerals(prose) if n.word)
    spelled.update(WORDS[w] for w in re.findall(r"[a-z]+", prose.lower()) if w in WORDS)
    lost = []
    for numeral in needed:
        for v in map(Fraction, numeral.values):
            if available[v, numeral.percent] > 0:
                available[v, numeral.percent] -= 1
                break
            if not numeral.percent and spelled[v] > 0:
                spelled[v] -= 1
                break
        else:
            if Fraction(1) not in numeral.values or not _ONE.search(prose):
                lost.append(numeral)
    return lost

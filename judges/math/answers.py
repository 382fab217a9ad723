"""The final answer of a note must be the source's, whatever the format (Kimi K2 report, section 2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from tokenmill.judges.math.answer_forms import (
    MAX_ANSWER,
    Answer,
    Equation,
    Set,
    Tuple,
    Value,
    Words,
    final_answer,
    read_answer,
)
from tokenmill.judges.math.answer_units import asked_unit, currency, is_money, phrase, same_unit
from tokenmill.judges.math.expressions import READINGS, Op, Quantity, Sym, Undecidable, evaluate, symbols, units
from tokenmill.judges.math.numerals import DIGITS, find_numerals
from tokenmill.judges.math.same_value import same_value
from tokenmill.judges.math.worker import Algebra
from tokenmill.schemas.verdicts import Finding, Verdict


@dataclass(frozen=True)
class FinalAnswer:
    """Check `final_answer`: reasons `no_answer` (the note states none), `wrong_answer` and `wrong_unit`.

    Equal up to format: separators and digits of ten languages, percent, fraction, mixed number and decimal, LaTeX boxes, order in
    sets, equations with the same solutions, and units converted, but the unit must be the one that the question asks for.
    """

    algebra: Algebra = field(default_factory=Algebra)

    def __call__(
        self,
        source_answer: str,
        note_answer: str,
        language: str = "en",
        note_language: str = "en",
        *,
        question: str = "",
    ) -> Verdict:
        """Compare; each text is an answer or ends in one. `language` is the source's, `question` English if given.

        Raises:
            ValueError: the source answer is blank, so there is nothing to hold the note to.
        """
        gold, given = final_answer(source_answer), final_answer(note_answer)
        if not gold:
            raise ValueError("the source answer is blank")
        if not given:
            return _refuse("no_answer", f"State the final answer; the source's is {gold}.", gold, "")
        asked, wanted = asked_unit(question), ""
        if asked:
            wanted = " ".join(asked).replace("/", "per").replace("%", "percent")
        if not self.same(gold, given, language, note_language, asked or currency(f"{question} {source_answer}")):
            also = f" The question asks for {wanted}." if wanted else ""
            return _refuse("wrong_answer", f"The final answer is {given}, the source's is {gold}.{also}", gold, given)
        if asked and _other_unit(read_answer(gold, language), read_answer(given, note_language), asked):
            return _refuse(
                "wrong_unit", f"State the answer in {wanted}, as the question asks: {given} is not.", gold, given
            )
        return Verdict("final_answer", True, 1.0)

    def same(
        self, gold: str, given: str, language: str = "en", note_language: str = "en", unit: tuple[str, ...] = ()
    ) -> bool:
        """Whether two extracted answers are equal up to format; `unit` is what a bare number is a number of."""
        expected, actual = _measured(read_answer(gold, language), read_answer(given, note_language), unit)
        if self._equal(expected, actual):
            return True
        if _fold(gold) == _fold(given):
            return True
        if isinstance(expected, Value) and isinstance(actual, Words | Set):
            # A sentence: "Natalia sold 72 clips altogether in April and May." Its one number must be the answer.
            return self._stated(expected, given, note_language)
        if isinstance(actual, Value) and isinstance(expected, Words):
            return self._stated(actual, gold, language)
        return False

    def _stated(self, expected: Value, sentence: str, language: str) -> bool:
        if len(sentence) > MAX_ANSWER:
            return False
        numbers = [n for n in find_numerals(sentence, language) if not n.word] or find_numerals(sentence, language)
        equation = re.split(r"=|≈|\\approx", sentence)
        tail = [read_answer(re.split(r"[.!?](?:\s|$)", equation[-1])[0], language)] if len(equation) > 1 else []
        if any(isinstance(part, Value) and self._equal(expected, part) for part in tail):
            return True
        if len(numbers) != 1:
            return False
        number = numbers[0]
        try:
            value = evaluate(expected.node, {})
        except Undecidable:
            return False
        return value in number.values or (number.percent and any(Fraction(v) / 100 == value for v in number.values))

    def _equal(self, a: Answer, b: Answer) -> bool:
        if isinstance(a, Words) or isinstance(b, Words):
            return isinstance(a, Words) and isinstance(b, Words) and _fold(a.text) == _fold(b.text)
        if isinstance(a, Value) and isinstance(b, Value):
            return same_value(a.node, b.node, self.algebra)
        if isinstance(a, Equation) and isinstance(b, Equation):
            return self._same_equation(a, b)
        if isinstance(a, Tuple) and isinstance(b, Tuple):
            return (
                a.brackets == b.brackets
                and len(a.parts) == len(b.parts)
                and all(self._equal(x, y) for x, y in zip(a.parts, b.parts, strict=True))
            )
        equation, other = (a, b) if isinstance(a, Equation) else (b, a)
        if isinstance(equation, Equation):
            # "y = 2x + 1" and "2x + 1": the right side is the answer.
            if (
                isinstance(equation.left, Sym)
                and isinstance(other, Value)
                and same_value(equation.right, other.node, self.algebra)
            ):
                return True
            found = other.parts if isinstance(other, Set) else (other,)
            names = symbols(equation.left) | symbols(equation.right)
            values = [part.node for part in found if isinstance(part, Value)]
            if len(names) == 1 and len(values) == len(found) and not any(symbols(v) for v in values):
                return bool(self.algebra.solves(equation.left, equation.right, names.pop(), values))
        if isinstance(a, Set) or isinstance(b, Set):
            return self._same_set(a.parts if isinstance(a, Set) else (a,), b.parts if isinstance(b, Set) else (b,))
        return False

    def _same_set(self, a: tuple[Answer, ...], b: tuple[Answer, ...]) -> bool:
        if len(a) != len(b) or len(a) > 50:
            return False
        left = list(b)
        for part in a:
            match = next((other for other in left if self._equal(part, other)), None)
            if match is None:
                return False
            left.remove(match)
        return True

    def _same_equation(self, a: Equation, b: Equation) -> bool:
        """Equations with proportional differences have the same solutions."""
        x, y = Op("-", (a.left, a.right)), Op("-", (b.left, b.right))
        names = sorted(symbols(x) | symbols(y))
        factors = []
        for i in range(4):
            point = {name: Fraction(7 + 3 * i + 5 * k, 3 + i) for k, name in enumerate(names)}
            try:
                u, v = evaluate(x, point), evaluate(y, point)
            except Undecidable:
                return bool(self.algebra.equal(x, y))
            if (u == 0) != (v == 0):
                return False
            if v:
                factors.append(Fraction(u) / v)
        return bool(factors) and len(set(factors)) == 1


def _measured(one: Answer, other: Answer, unit: tuple[str, ...]) -> tuple[Answer, Answer]:
    """Both answers, a bare number as one of `unit` where the other has a unit that it can be compared with."""
    if unit in ((), ("%",)) or not isinstance(one, Value) or not isinstance(other, Value):
        return one, other
    here, there = phrase(one.node), phrase(other.node)
    if bool(here) == bool(there) or is_money(unit) != is_money(here or there):
        return one, other
    return (one, Value(Quantity(other.node, unit))) if here else (Value(Quantity(one.node, unit)), other)


def _other_unit(gold: Answer, given: Answer, asked: tuple[str, ...]) -> bool:
    """Whether an answer that is right is plainly not in the unit asked for."""
    if not isinstance(given, Value):
        return False
    if asked == ("%",):
        if "%" in units(given.node) or not isinstance(gold, Value):
            return False
        try:
            number = READINGS[1]
            return evaluate(gold.node, {}, number) == 100 * Fraction(evaluate(given.node, {}, number))
        except Undecidable:
            return False
    return not same_unit(phrase(given.node), asked)


def _fold(text: str) -> str:
    text = re.sub(r"\\(?:text|mathrm|textbf)\s?\{([^{}]*)\}", r"\1", text)
    return re.sub(r"[\s$*_`.{}\\()]+", " ", text.translate(DIGITS)).strip().casefold()


def _refuse(reason: str, detail: str, source: str, rewrite: str) -> Verdict:
    return Verdict("final_answer", False, 0.0, reason, (Finding(reason, detail, source[:300], rewrite[:300]),))

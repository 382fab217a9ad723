"""Is a word problem made of its source's numbers, and its solution right?

What the problem states must stand in the source; what the solution adds must be calculated, and calculations are checked as
those of learning notes are. Statements that cannot be decided are the judge's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

from tokenmill.judges.embedding.similarity import CHECK as SIMILARITY
from tokenmill.judges.facts.compare import doubts
from tokenmill.judges.facts.quantities import read
from tokenmill.judges.math import Equalities
from tokenmill.judges.math.equalities import Statement, equalities_verdict
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.numbers import forms, note_values, unit_after
from tokenmill.judges.math.numerals import Numeral, find_numerals
from tokenmill.judges.math.rounding import Truth
from tokenmill.judges.math.units import CONVERTED
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "word_problems"
LEAST = 2
"""Different numbers of the source that a problem is made of."""
_HEADING = re.compile(r"^#{1,6}[ \t]+\S.*$", re.MULTILINE)
_PARTS = 3
_WORD = re.compile(r"[^\W\d_]+")
_ADDED = frozenset({"number_added", "date_added", "unit_changed"})
_SMALL_WORD = 12
"""A number up to this one, written as a word, may be mere grammar: "the two of them"."""
_FREE = frozenset(map(Fraction, (0, 1, 2, 100)))
"""What a calculation may use that nobody has told: nothing, one, both, per cent."""
_SHOWN = 8


@dataclass(frozen=True)
class WordProblem:
    """The three parts of one problem."""

    problem: str
    solution: str
    answer: str


@dataclass(frozen=True)
class WordProblems:
    """Refuses with `problem_broken` what is not problem, solution and answer under a heading each; with `number_invented` a
    number that neither the source nor a calculation gives; with `false_equality` a wrong calculation; with `not_calculated` a
    solution without one; with `answer_not_derived` an answer that none of them comes to."""

    equalities: Equalities = field(default_factory=Equalities)
    spares: ClassVar[frozenset[str]] = frozenset({SIMILARITY})  # a problem is about a part of what its source is about

    def fits(self, source: str, language: str) -> bool:
        """Whether there are numbers to calculate with."""
        return len({quantity.readings for quantity in read(source, language) if quantity.strong}) >= LEAST

    def stated(self, text: str) -> str:
        return "\n\n".join(one.problem for one in parsed(text)) or text

    def __call__(self, source: str, text: str, context: str, language: str) -> Verdict:
        """
        Raises:
            ValueError: the text is longer than the symbolic checks read.
        """
        problems = parsed(text)
        if not problems:
            order = "Write three parts, each under a heading of its own: the problem, the solution, the answer."
            return _refused("problem_broken", order, text)
        for one in problems:
            counted = read(one.problem, language)
            firm = {quantity.start for quantity in counted if quantity.strong}  # not "both", "a second"
            differing = doubts(source, one.problem, context, language)
            if added := [doubt for doubt in differing if doubt.kind in _ADDED and doubt.start in firm]:
                order = f'The source has no "{added[0].text}": state its numbers only.'
                return _refused("number_invented", order, _line(one.problem, added[0].start))
            if len({quantity.readings for quantity in counted if quantity.strong}) < LEAST:
                return _refused("problem_broken", "State in the problem what it takes to solve it.", one.problem)
            verdict = self._solved(one, language)
            if not verdict.passed:
                return verdict
        return Verdict(CHECK, True, 1.0)

    def _solved(self, one: WordProblem, language: str) -> Verdict:
        solution = from_mathml(one.solution)
        statements = [_in_percent(solution, one) for one in self.equalities.statements(solution, language)]
        verdict = equalities_verdict(solution, statements)
        if not verdict.passed:
            return Verdict(CHECK, False, verdict.score, verdict.reason, verdict.findings)
        right = [statement for statement in statements if statement.truth is Truth.TRUE]
        if not right:
            order = "Write every step as a calculation with figures, an equality that can be checked."
            return _refused("not_calculated", order, solution)
        told = _told(one.problem, language)
        results: set[Fraction] = set()
        for statement in statements:
            if invented := next(_unknown(solution, statement, told, language), None):
                order = (
                    f"{invented.text} is neither told in the problem nor calculated before: leave it out or derive it."
                )
                return _refused("number_invented", order, _line(solution, invented.start))
            values = note_values(solution[statement.right.start : statement.right.end])
            values |= {form for value in values for form in forms(value) if value >= 1000}  # 35 of "35 million"
            told |= values
            results |= values if statement.truth is Truth.TRUE else set()
        given = {Fraction(value) for numeral in find_numerals(one.answer, language) for value in numeral.values}
        shares = {value * 100 for value in results}
        if not given & (results | shares) or not given <= told | results | shares | _FREE:
            order = "The answer must be what the last calculation comes to."
            return _refused("answer_not_derived", order, one.answer)
        return Verdict(CHECK, True, 1.0)


def parsed(text: str) -> list[WordProblem]:
    """The problems of a text; none where its parts are not three each, with something in every one."""
    places = list(_HEADING.finditer(text))
    if not places or len(places) % _PARTS or text[: places[0].start()].strip():
        return []
    ends = [place.start() for place in places[1:]] + [len(text)]
    parts = [text[place.end() : end].strip() for place, end in zip(places, ends, strict=True)]
    if not all(parts):
        return []
    return [WordProblem(*parts[at : at + _PARTS]) for at in range(0, len(parts), _PARTS)]


def _in_percent(text: str, statement: Statement) -> Statement:
    """A statement whose left side was taken times 100 for a result in percent: "90 / 195 * 100 = 46.2 percent"."""
    left, right = statement.decision.left, statement.decision.right
    figures = find_numerals(text[statement.right.start : statement.right.end])
    if statement.truth is not Truth.FALSE or not (len(figures) == 1 and figures[0].percent):
        return statement
    if not isinstance(left, int | Fraction) or not isinstance(right, int | Fraction):
        return statement
    decimals = len(figures[0].text.partition(".")[2].rstrip(" %abcdefghijklmnopqrstuvwxyz"))
    near = abs(Fraction(left) - Fraction(right) * 100) * 2 <= Fraction(1, 10**decimals)
    return replace(statement, truth=Truth.TRUE) if near else statement


def _told(problem: str, language: str) -> set[Fraction]:
    """The numbers of a problem, and what each may become in a calculation."""
    told = set(note_values(problem))
    for numeral in find_numerals(problem, language):
        for value in numeral.values:
            told |= forms(value, numeral.percent, unit_after(problem, numeral.end))
    return told


def _unknown(text: str, statement: Statement, told: set[Fraction], language: str) -> Iterator[Numeral]:
    """Numbers on the left of a statement that nobody has told."""
    left = text[statement.left.start : statement.left.end]
    terms = Fraction(left.count("+") + 1)  # by which a mean is divided
    units = frozenset(_WORD.findall(_line(text, statement.left.start).lower()))
    for numeral in find_numerals(left, language):
        value = Fraction(numeral.values[0])
        if value in _FREE or value == terms or (numeral.word and value <= _SMALL_WORD):
            continue
        if any((unit, value) in CONVERTED for unit in units):
            continue  # "2 x 60 minutes"
        if told.isdisjoint({value, value * 100, value / 100}):
            yield replace(numeral, start=numeral.start + statement.left.start, end=numeral.end + statement.left.start)


def _line(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else len(text)]


def _refused(reason: str, order: str, quote: str) -> Verdict:
    return Verdict(CHECK, False, 0.0, reason, (Finding(reason, order, "", " ".join(quote.split())[:200]),))

"""What calculation leaves open in a note becomes short questions to the judge, who is also told what was checked and what not.

High recall and simple: nothing here refuses, and nothing imitates understanding.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

from tokenmill.judges.math import Equalities
from tokenmill.judges.math.answer_forms import Value, read_answer
from tokenmill.judges.math.answer_units import asked_unit, phrase
from tokenmill.judges.math.equalities import Statement
from tokenmill.judges.math.expressions import literal, symbols
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.notation import hide
from tokenmill.judges.math.numbers import conditions, forms, is_used, note_values, unit_after
from tokenmill.judges.math.numerals import find_numerals
from tokenmill.judges.math.rounding import Truth
from tokenmill.judges.math.units import CONVERSIONS, CONVERTED
from tokenmill.schemas.math import Note
from tokenmill.schemas.verdicts import Question

MAX_QUESTIONS = 6
"""Asked of one note, the gravest first; beyond that the judge's own reading must do."""
_LISTED = 6
"""Statements without a check that are named."""
_SMALL_WORD = 12
"""A number up to this one, written as a word, may be mere grammar: "the two of them"."""
_AROUND = 50
_UNKNOWN = re.compile(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s|$)|(?=\n)|$)")
_OPERATION = re.compile(
    r"\b(?:half|third|quarter|twice|double[ds]?|tripled?|percent|more|less|fewer|sum|difference|product|total|average|rest|"
    r"remain\w*|left|together|combined|times|plus|minus|added|adding|subtract\w*|multipl\w*|divid\w*|altogether|another)\b|%",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"\b(?:is|are|was|were|gives?|makes?|leaves?|leaving|becomes?|comes? to|totals?|equals?|means|so)\b", re.I
)
_WORD = re.compile(r"[a-z]{3,}")


@dataclass(frozen=True)
class Evidence:
    """What a judge of a note is told."""

    checked: str = ""
    """What a program found right and what it could not check, in a few lines."""
    questions: tuple[Question, ...] = ()


def evidence(source: str, answer: str, note: Note, before: str = "", equalities: Equalities | None = None) -> Evidence:
    """What to tell a judge of `note`, made of the English `source`: a question with its `answer`, or a passage after `before`.

    Raises:
        ValueError: the note is longer than the symbolic checks read.
    """
    if not note.steps:
        return Evidence()
    body = from_mathml("\n\n".join(_told(note)))
    statements = (equalities or Equalities()).statements(body, "en")
    asked = chain(
        _unit(source, note) if answer else (),
        (_equality(body, statement) for statement in statements if _is_open(statement)),
        _numbers(body, statements, "\n".join((source, answer, before))),
        _conditions(source, answer, note),
        _sentences(body, statements, source),
    )
    return Evidence(_checked(body, statements), tuple(dict.fromkeys(asked))[:MAX_QUESTIONS])


def _told(note: Note) -> Iterator[str]:
    """What a note says of its matter; a remark may calculate with other numbers."""
    yield note.asked
    yield from note.known
    yield from _working(note)


def _working(note: Note) -> Iterator[str]:
    yield note.idea
    for step in note.steps:
        yield f"{step.reason}\n{step.work}"
    yield note.result
    yield note.check


def _checked(body: str, statements: list[Statement]) -> str:
    right = sum(statement.truth is Truth.TRUE for statement in statements)
    if not right:
        told = "No calculation of the note was checked by a program."
    else:
        told = f"Checked by a program and right: {right} calculation{'s' * (right > 1)} of the note, by themselves."
    rest = list(dict.fromkeys(_quote(body, s) for s in statements if s.truth is Truth.UNDECIDED))
    if rest:
        more = f" and {len(rest) - _LISTED} more" if len(rest) > _LISTED else ""
        told += f"\nNot checked: {'; '.join(rest[:_LISTED])}{more}."
    return told


def _quote(body: str, statement: Statement) -> str:
    return " ".join(body[statement.left.start : statement.right.end].split())[:120]


def _is_open(statement: Statement) -> bool:
    """Whether a statement between numbers could not be decided. An equation with unknowns is a condition or a definition."""
    sides = (statement.left.node, statement.right.node)
    return (
        statement.truth is Truth.UNDECIDED
        and statement.relation in ("=", "≈")
        and not statement.disowned
        and not any(symbols(side) for side in sides)
        and any(literal(side) is None or phrase(side) for side in sides)
    )


def _equality(body: str, statement: Statement) -> Question:
    quote = _quote(body, statement)
    shown = _around(body, statement.left.start, statement.right.end)
    return Question("equality_unchecked", f'No program could check "{quote}" in "{shown}". Is it right?', "", shown)


def _numbers(body: str, statements: list[Statement], source: str) -> Iterator[Question]:
    """Numbers that neither the source nor a calculation found right gives: told in words ("about 56 minutes"), or calculated
    with."""
    told = note_values(source)
    reworked = {
        f for n in find_numerals(source) for v in n.values for f in forms(v, n.percent, unit_after(source, n.end))
    }
    covered: list[tuple[int, int]] = []
    for statement in statements:
        left, right = statement.left, statement.right
        covered.append((left.start, right.end))
        if statement.truth is not Truth.TRUE:
            continue
        for numeral in find_numerals(body[left.start : left.end], words=False):
            value = Fraction(numeral.values[0])
            shares = {value, value * 100, value / 100}
            if value not in CONVERSIONS and shares.isdisjoint(told) and shares.isdisjoint(reworked):
                yield _unproved(body, numeral.text, left.start + numeral.start, left.start + numeral.end)
            told.add(value)
        told |= note_values(body[right.start : right.end])
    for numeral in find_numerals(_prose_numbers(body)):
        value = Fraction(numeral.values[0])
        if value in (0, 1) or (numeral.word and value <= _SMALL_WORD) or {value, value * 100, value / 100} & told:
            continue
        if (unit_after(body, numeral.end), value) in CONVERTED:
            continue  # "there are 60 minutes in an hour"
        at = bisect_right(covered, (numeral.start, len(body))) - 1
        if at < 0 or numeral.start >= covered[at][1]:
            told.add(value)
            yield _unproved(body, numeral.text, numeral.start, numeral.end)


def _prose_numbers(body: str) -> str:
    """The body without formulas that hold unknowns, whose coefficients nobody needs to give."""
    copy, edges = hide(body)
    shown = list(copy)
    for start, end in zip(edges[::2], edges[1::2], strict=False):
        if _UNKNOWN.search(copy, start, end):
            shown[start:end] = " " * (end - start)
    return "".join(shown)


def _unproved(body: str, number: str, start: int, end: int) -> Question:
    quoted = _around(body, start, end)
    line = f'The note has "{number}" in "{quoted}"; neither the source nor a checked calculation gives it. Is it right?'
    return Question("number_unproved", line, "", quoted)


def _sentences(body: str, statements: list[Statement], source: str) -> Iterator[Question]:
    """Calculations told in words alone, their numbers known: "half of the 80 and twenty more are 60"."""
    starts = [statement.left.start for statement in statements]
    there = " ".join(source.split())
    for match in _SENTENCE.finditer(body):
        start, end = match.span()
        sentence = " ".join(match[0].split())
        if bisect_left(starts, end) > bisect_left(starts, start) or sentence.rstrip(".!?") in there:
            continue
        if not _OPERATION.search(sentence) or not _STATES.search(sentence) or len(find_numerals(sentence)) < 2:
            continue
        quoted = sentence[:160]
        yield Question("words_unchecked", f'No program could read "{quoted}". Does it come out right?', "", quoted)


def _conditions(source: str, answer: str, note: Note) -> Iterator[Question]:
    """Data of the source that the note's working never touches, whether it says so itself or not."""
    told = note_values(from_mathml("\n".join(_working(note) if answer else _told(note))))
    declared = {value for line in note.unused for value in note_values(line)}
    seen = set()
    for numeral in conditions(source):
        key = (numeral.values, numeral.percent)
        if key in seen or is_used(numeral.values, numeral.percent, unit_after(source, numeral.end), told):
            continue
        seen.add(key)
        quoted = _around(source, numeral.start, numeral.end)
        if not answer and set(numeral.values) & declared:
            continue  # leftovers of a page
        says = "says that it does not need it" if set(numeral.values) & declared else "does not use it"
        line = f'The source has "{numeral.text}" in "{quoted}"; the working {says}. Is it right without?'
        yield Question("condition_unused", line, quoted, "")


def _unit(question: str, note: Note) -> Iterator[Question]:
    """An answer whose unit or thing counted is not plainly the one asked for."""
    answer = read_answer(note.answer) if note.answer else None
    if not isinstance(answer, Value) or asked_unit(question):
        return
    words = set(_WORD.findall(note.answer.lower()))
    sentence = re.split(r"(?<=[.!])\s+", question.strip())[-1]
    spoken = {word[:4] for word in _WORD.findall(question.lower())}
    if words and all(word[:4] in spoken for word in words):
        return
    if not words and not re.search(r"\bhow (?:long|far|fast|tall|high|heavy|wide|deep)\b", sentence, re.IGNORECASE):
        return
    asked = " ".join(sentence.split())[-160:]
    line = (
        f'The source asks "{asked}" and the note answers "{note.answer}". Is that what is asked, in a unit that fits?'
    )
    yield Question("unit_doubted", line, asked, note.answer)


def _around(text: str, start: int, end: int) -> str:
    """The words around a place on its line."""
    low = max(text.rfind("\n", 0, start) + 1, start - _AROUND)
    stop = text.find("\n", end)
    high = min(stop if stop >= 0 else len(text), end + _AROUND)
    low = text.find(" ", low, start) + 1 if low == start - _AROUND and " " in text[low:start] else low
    high = text.rfind(" ", end, high) if high == end + _AROUND and " " in text[end:high] else high
    return " ".join(text[low:high].split())

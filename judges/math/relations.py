"""Whether one stated relation is true, false or undecidable, without a computer-algebra system.

Rational constants are compared exactly. A decimal literal may be a rounding of the exact value, but only where that
value cannot be written with the decimals stated: 10/3 = 3.33 holds, 4.5 * 3 = 13.6 does not. Symbols are tried at fixed
points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from tokenmill.judges.math.expressions import (
    READINGS,
    Exact,
    Node,
    NotRational,
    Num,
    Op,
    Quantity,
    Reading,
    Sym,
    Undecidable,
    approximate,
    evaluate,
    literal,
    magnitude,
    symbols,
    units,
)
from tokenmill.judges.math.units import COUNTS, dimensions, factor, parts, ratios

_POINTS = (Fraction(7, 3), Fraction(11, 5), Fraction(29, 13), Fraction(5, 17), Fraction(41, 7))
_LOOSE = Fraction(1, 20)
"""Relative error allowed to `≈` between two calculations."""


class Truth(Enum):
    TRUE = "true"
    FALSE = "false"
    UNDECIDED = "undecided"


@dataclass
class Knowledge:
    """What the text has established so far."""

    values: dict[str, Exact] = field(default_factory=dict)
    """Symbols with one unambiguous value."""
    rounded: set[Num] = field(default_factory=set)
    """Literals stated as roundings, whose error may show in later calculations."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome for one relation; `left` and `right` are the sides' values where they are constants."""

    truth: Truth
    left: Exact | complex | None = None
    right: Exact | complex | None = None


def decide(left: Node, relation: str, right: Node, known: Knowledge) -> Decision:
    """Decide `left relation right`; relation is one of = ≈ < > <= >= !=."""
    first: tuple[Exact, Exact] | None = None
    marked: set[str] | None = None
    for reading in READINGS:
        if first is not None:
            if marked is None:
                marked = units(left) | units(right) | _operators(left) | _operators(right)
            if not _matters(reading, marked):
                continue
        try:
            a = evaluate(left, known.values, reading)
            b = evaluate(right, known.values, reading)
        except NotRational:
            return _decide_floats(left, relation, right, known)
        except Undecidable:
            if first is not None:
                continue
            return _decide_symbols(left, relation, right, known)
        if _holds(a, relation, b, left, right, known):
            return Decision(Truth.TRUE, a, b)
        first = first or (a, b)
    assert first is not None
    if relation in ("=", "≈") and (truth := converted(left, relation, right, *first, known)):
        return Decision(truth, *first)
    return Decision(Truth.UNDECIDED if _is_definition(left, right) else Truth.FALSE, *first)


def _matters(reading: Reading, marks: set[str]) -> bool:
    return (
        (not reading.percent and "%" in marks)
        or (not reading.scales and bool(marks & {"hundred", "thousand", "million", "billion", "trillion"}))
        or (not reading.mixed and "mixed" in marks)
    )


def _operators(node: Node) -> set[str]:
    if isinstance(node, Quantity):
        return _operators(node.body)
    return {node.op}.union(*(_operators(arg) for arg in node.args)) if isinstance(node, Op) else set()


def _holds(a: Exact, relation: str, b: Exact, left: Node, right: Node, known: Knowledge) -> bool:
    if relation == "=":
        if a == b:
            return True
        for exact, node, other in ((a, right, b), (b, left, a)):
            lit = literal(node)
            if lit is not None and lit.decimals and is_rounding(exact, other, node):
                known.rounded.add(lit)
                return True
        return bool(known.rounded) and magnitude(a - b) <= _slack(left, right, known)
    if relation == "≈":
        for exact, node, other in ((a, right, b), (b, left, a)):
            lit = literal(node)
            if lit is not None and magnitude(exact - other) <= _place(lit, node):
                known.rounded.add(lit)
                return True
        close = magnitude(a - b) <= _LOOSE * max(magnitude(a), magnitude(b))
        return close and literal(left) is None and literal(right) is None
    return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "!=": a != b}[relation]


def is_rounding(exact: Exact, stated: Exact, node: Node) -> bool:
    """Whether the literal `node` of value `stated` rounds or truncates `exact`, which it cannot state in full."""
    lit = literal(node)
    if lit is None:
        return False
    step = Fraction(1, 10**lit.decimals) * (Fraction(1, 100) if "%" in units(node) else 1)
    if (Fraction(exact) / step).denominator == 1:
        return False
    error = magnitude(exact - stated)
    return error * 2 <= step or (error < step and magnitude(stated) < magnitude(exact))


def _place(lit: Num, node: Node) -> Fraction:
    """Weight of the last significant digit: 0.01 for 3.33, 100 for 1200, a hundredth of it if a percentage."""
    if lit.decimals:
        weight = Fraction(1, 10**lit.decimals)
    else:
        digits = str(lit.value)
        weight = Fraction(10 ** (len(digits) - len(digits.rstrip("0")))) if lit.value else Fraction(1)
    return weight / 100 if "%" in units(node) else weight


def _slack(left: Node, right: Node, known: Knowledge) -> Fraction:
    """How far both sides can differ because literals in them were rounded: first-order sum over those literals."""
    total = Fraction(0)
    for node in (left, right):
        present = [num for num in _numerals(node) if num in known.rounded]
        for num in dict.fromkeys(present):
            step = Fraction(1, 10**num.decimals)
            try:
                low = evaluate(_replace(node, num, Num(num.value - step, num.decimals)), known.values)
                high = evaluate(_replace(node, num, Num(num.value + step, num.decimals)), known.values)
            except Undecidable:
                return Fraction(0)
            total += abs(Fraction(high) - low) / 2
        lit = literal(node)
        if total and lit is not None and lit not in known.rounded:
            total += Fraction(1, 2 * 10**lit.decimals)
    return total


def _numerals(node: Node) -> list[Num]:
    if isinstance(node, Num):
        return [node]
    if isinstance(node, Quantity):
        return _numerals(node.body)
    return [num for arg in node.args for num in _numerals(arg)] if isinstance(node, Op) else []


def _replace(node: Node, old: Num, new: Num) -> Node:
    if isinstance(node, Num):
        return new if node == old else node
    if isinstance(node, Quantity):
        return Quantity(_replace(node.body, old, new), node.units)
    return Op(node.op, tuple(_replace(arg, old, new) for arg in node.args)) if isinstance(node, Op) else node


def converted(
    left: Node, relation: str, right: Node, a: Exact, b: Exact, known: Knowledge, decimals: int = 1
) -> Truth | None:
    """What the relation is once its units are converted, a literal of as many decimals being a rounding as anywhere else.

    A whole number that a conversion comes near to ("7/3 weeks = 16 days") is left undecided. None: conversion does not help.
    """
    here, there = units(left), units(right)
    if a and b and Fraction(a) / b in ratios(here, there):
        return Truth.TRUE
    if any(a * r == b for r in _smaller(left, right)) or any(b * r == a for r in _smaller(right, left)):
        return Truth.TRUE
    near = False
    for dimension in sorted((dimensions(here) & dimensions(there)) - COUNTS):
        base, other = _in_base(left, dimension), _in_base(right, dimension)
        try:
            x, y = Fraction(evaluate(base, known.values)), Fraction(evaluate(other, known.values))
        except Undecidable:
            continue
        if x == y or (known.rounded and abs(x - y) <= _slack(base, other, known)):
            return Truth.TRUE
        for exact, node, stated in ((x, right, b), (y, left, a)):
            lit, size = literal(node), factor(_unit_words(node), dimension)
            if lit is None or size is None or exact / size == (a if node is right else b):
                continue
            error = abs(exact / size - stated)
            if (relation == "≈" and error <= _place(lit, node)) or (
                lit.decimals >= decimals and is_rounding(exact / size, stated, node)
            ):
                known.rounded.add(lit)
                return Truth.TRUE
            near |= node is right and not lit.decimals and 0 < 2 * error <= 1
    return Truth.UNDECIDED if near else None


def _smaller(compound: Node, bare: Node) -> list[Fraction]:
    """How many of the smaller unit make one of the larger in `4 hours and 30 minutes`, where the other side has no unit."""
    words = _unit_words(compound)
    if dimensions(units(bare)) or len(words) < 2 or not words[-1].startswith("+"):
        return []
    ratio = parts(words[-2], words[-1][1:])
    return [] if ratio is None else [ratio]


def _in_base(node: Node, dimension: str) -> Node:
    """The expression with every quantity converted to base units, words of several dimensions taken in this one."""
    if isinstance(node, Quantity):
        size = factor(node.units, dimension)
        return node if size is None else Op("*", (node.body, Num(size)))
    if not isinstance(node, Op):
        return node
    if node.op == "/" and isinstance(node.args[0], Num) and isinstance(per := node.args[1], Quantity):
        return _in_base(Quantity(Op("/", (node.args[0], per.body)), per.units), dimension)  # "7/3 weeks"
    return Op(node.op, tuple(_in_base(arg, dimension) for arg in node.args))


def _unit_words(node: Node) -> tuple[str, ...]:
    """Unit words of a lone quantity, its sign aside."""
    while isinstance(node, Op) and node.op in ("neg", "%"):
        node = node.args[0]
    return node.units if isinstance(node, Quantity) else ()


def _is_definition(left: Node, right: Node) -> bool:
    """`1 box = 12 pencils` and `100% = 250 students` say what a unit is worth."""
    if literal(left) is None or literal(right) is None:
        return False
    here, there = units(left), units(right)
    return here != there and not dimensions(here - {"%"}) & dimensions(there - {"%"})


def _decide_floats(left: Node, relation: str, right: Node, known: Knowledge) -> Decision:
    unknown = (symbols(left) | symbols(right)) - known.values.keys() - {"e"}
    if unknown:
        return _decide_symbols(left, relation, right, known)
    values = {name: complex(float(v)) for name, v in known.values.items()}
    try:
        a, b = approximate(left, values), approximate(right, values)
    except (Undecidable, OverflowError):
        return Decision(Truth.UNDECIDED)
    error = abs(a - b)
    scale = max(abs(a), abs(b), 1e-300)
    close = error <= 1e-9 * scale or error < 1e-12
    if relation in ("=", "≈"):
        for node in (left, right):
            lit = literal(node)
            if lit is not None and (lit.decimals or relation == "≈") and _rounds_to(a, b, node is left, lit, relation):
                close = True
        if relation == "≈" and error <= float(_LOOSE) * scale and literal(left) is None and literal(right) is None:
            close = True
        # Between agreement and disagreement lies cancellation: leave it to a computer-algebra system.
        truth = Truth.TRUE if close else Truth.FALSE if error > 1e-7 * scale else Truth.UNDECIDED
    elif relation == "!=":
        truth = Truth.UNDECIDED if close else Truth.TRUE
    elif abs(a.imag) > 1e-9 or abs(b.imag) > 1e-9 or close:
        truth = Truth.UNDECIDED
    else:
        below = a.real < b.real
        truth = Truth.TRUE if below == (relation in ("<", "<=")) else Truth.FALSE
    return Decision(truth, a, b)


def _rounds_to(a: complex, b: complex, literal_left: bool, lit: Num, relation: str) -> bool:
    """Whether the literal side is the other rounded or truncated; `≈` allows a whole unit of its last digit."""
    stated, exact = (a, b) if literal_left else (b, a)
    step = float(_place(lit, lit))
    error = abs(exact - stated)
    return error <= step * (1 if relation == "≈" else 0.5) or (error < step and abs(stated) < abs(exact))


def _decide_symbols(left: Node, relation: str, right: Node, known: Knowledge) -> Decision:
    """An identity is true, sides that differ by a constant are never equal, everything else is a condition."""
    names = sorted((symbols(left) | symbols(right)) - known.values.keys())
    if relation != "=" or not names or isinstance(left, Sym) or isinstance(right, Sym):
        return Decision(Truth.UNDECIDED)
    differences: list[Exact | complex] = []
    for i in range(len(_POINTS)):
        point: Mapping[str, Exact] = {name: _POINTS[(i + k) % len(_POINTS)] + k for k, name in enumerate(names)}
        try:
            differences.append(evaluate(left, {**known.values, **point}) - evaluate(right, {**known.values, **point}))
        except NotRational:
            try:
                values = {name: complex(float(v)) for name, v in {**known.values, **point}.items()}
                a, b = approximate(left, values), approximate(right, values)
            except (Undecidable, OverflowError):
                return Decision(Truth.UNDECIDED)
            differences.append(0 if abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1) else a - b)
        except Undecidable:
            return Decision(Truth.UNDECIDED)
    if not any(differences):
        return Decision(Truth.TRUE)
    if all(isinstance(d, int | Fraction) for d in differences) and len(set(differences)) == 1:
        return Decision(Truth.FALSE)
    return Decision(Truth.UNDECIDED)

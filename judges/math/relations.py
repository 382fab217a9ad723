"""Whether one stated relation is true, false or undecidable, without a computer-algebra system.

Rational constants are compared exactly. A decimal literal may be a rounding of the exact value, but only where that
value cannot be written with the decimals stated: 10/3 = 3.33 holds, 4.5 * 3 = 13.6 does not. Symbols are tried at fixed
points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tokenmill.judges.math.conversions import converted
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
from tokenmill.judges.math.rounding import Knowledge, Truth, is_rounding, last_place, place, slack
from tokenmill.judges.math.units import dimensions

_POINTS = (Fraction(7, 3), Fraction(11, 5), Fraction(29, 13), Fraction(5, 17), Fraction(41, 7))
_LOOSE = Fraction(1, 20)
"""Relative error allowed to `≈` between two calculations."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome for one relation; `left` and `right` are the sides' values where they are constants."""

    truth: Truth
    left: Exact | complex | None = None
    right: Exact | complex | None = None


def decide(left: Node, relation: str, right: Node, known: Knowledge) -> Decision:
    """Decide `left relation right`; relation is one of = ≈ < > <= >= !=.

    A lone symbol beside a relation of order or a unit is never contradicted: "for x > 0", though x = 0 in another case; "pi = 180
    degrees".
    """
    decision = _decide(left, relation, right, known)
    lone = isinstance(left, Sym) or isinstance(right, Sym)
    if decision.truth is Truth.FALSE and lone and (relation not in ("=", "≈") or units(left) | units(right)):
        return Decision(Truth.UNDECIDED, decision.left, decision.right)
    return decision


def _decide(left: Node, relation: str, right: Node, known: Knowledge) -> Decision:
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
        return bool(known.rounded) and magnitude(a - b) <= slack(left, right, known)
    if relation == "≈":
        for exact, node, other in ((a, right, b), (b, left, a)):
            step = last_place(node)
            if step is not None and magnitude(exact - other) <= step:
                known.rounded |= {lit} if (lit := literal(node)) else set()
                return True
        close = magnitude(a - b) <= _LOOSE * max(magnitude(a), magnitude(b))
        return close and literal(left) is None and literal(right) is None
    return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "!=": a != b}[relation]


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
    if truth is Truth.FALSE and "log" in _operators(left) | _operators(right):
        natural = _decide_floats(_natural(left), relation, _natural(right), known)
        return natural if natural.truth is Truth.TRUE else Decision(truth, a, b)
    return Decision(truth, a, b)


def _natural(node: Node) -> Node:
    """The expression with every logarithm to the base e, as analysts write `log`."""
    if isinstance(node, Quantity):
        return Quantity(_natural(node.body), node.units)
    return Op("ln" if node.op == "log" else node.op, tuple(map(_natural, node.args))) if isinstance(node, Op) else node


def _rounds_to(a: complex, b: complex, literal_left: bool, lit: Num, relation: str) -> bool:
    """Whether the literal side is the other rounded or truncated; `≈` allows a whole unit of its last digit."""
    stated, exact = (a, b) if literal_left else (b, a)
    step = float(place(lit, lit))
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

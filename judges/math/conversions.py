"""Whether two sides of a relation agree once their units are converted: `100 minutes = 1.67 hours`."""

from __future__ import annotations

from fractions import Fraction

from tokenmill.judges.math.expressions import Exact, Node, Num, Op, Quantity, Undecidable, evaluate, literal, units
from tokenmill.judges.math.rounding import Knowledge, Truth, is_rounding, place, slack
from tokenmill.judges.math.units import COUNTS, dimensions, factor, parts, ratios


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
        if x == y or (known.rounded and abs(x - y) <= slack(base, other, known)):
            return Truth.TRUE
        for exact, node, stated in ((x, right, b), (y, left, a)):
            lit, size = literal(node), factor(_unit_words(node), dimension)
            if lit is None or size is None or exact / size == (a if node is right else b):
                continue
            error = abs(exact / size - stated)
            if (relation == "≈" and error <= place(lit, node)) or (
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

"""What a text has established, and what the numbers it states as roundings may stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from tokenmill.judges.math.expressions import (
    Exact,
    Node,
    Num,
    Op,
    Quantity,
    Undecidable,
    evaluate,
    literal,
    magnitude,
    units,
)


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


def place(lit: Num, node: Node) -> Fraction:
    """Weight of the last significant digit: 0.01 for 3.33, 100 for 1200, a hundredth of it if a percentage."""
    if lit.decimals:
        weight = Fraction(1, 10**lit.decimals)
    else:
        digits = str(lit.value)
        weight = Fraction(10 ** (len(digits) - len(digits.rstrip("0")))) if lit.value else Fraction(1)
    return weight / 100 if "%" in units(node) else weight


def last_place(node: Node) -> Fraction | None:
    """Weight of the last significant digit of a number, `2 \\times 10^9` and such ones included; None for anything else."""
    lit = literal(node)
    if lit is not None:
        return place(lit, node)
    if isinstance(node, Op) and node.op == "*" and isinstance(power := node.args[1], Op) and power.op == "^":
        lit = literal(node.args[0])
        if lit is not None and power.args[0] == Num(10):
            try:
                return place(lit, lit) * Fraction(evaluate(power, {}))
            except Undecidable:
                return None
    return None


def slack(left: Node, right: Node, known: Knowledge) -> Fraction:
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

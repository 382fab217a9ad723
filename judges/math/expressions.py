"""Small expression trees and their bounded evaluation: exact rationals first, complex floats for the rest.

Nothing here is ever built by evaluating text, and every operation is bounded before it is done, so an expression from a
document can neither execute, hang nor fill memory.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

Exact = int | Fraction
"""A value without error."""

MAX_BITS = 8192
"""Bound on numerator and denominator of an exact value."""
MAX_FACTORIAL = 170


class Undecidable(Exception):
    """The expression has no value here: an unknown symbol, a limit exceeded, a division by zero."""


class NotRational(Undecidable):
    """The value exists but is not rational; `approximate` may find it."""


class Num(NamedTuple):
    """A numeral; `decimals` is how many decimal places it states."""

    value: Exact
    decimals: int = 0


class Sym(NamedTuple):
    """A variable or constant such as `x`, `x_1`, `pi`."""

    name: str


class Op(NamedTuple):
    """An operation: one of + - * / ^ neg ! % of mixed abs and the functions of `FUNCTIONS`."""

    op: str
    args: tuple[Node, ...]


class Quantity(NamedTuple):
    """An expression followed by unit words or a currency sign, lower case."""

    body: Node
    units: tuple[str, ...]


Node = Num | Sym | Op | Quantity

FUNCTIONS = {
    "sqrt": cmath.sqrt, "sin": cmath.sin, "cos": cmath.cos, "tan": cmath.tan, "ln": cmath.log, "exp": cmath.exp,
    "log": cmath.log10, "arcsin": cmath.asin, "arccos": cmath.acos, "arctan": cmath.atan, "sinh": cmath.sinh,
    "cosh": cmath.cosh, "tanh": cmath.tanh,
}  # fmt: skip
CONSTANTS = {"pi": math.pi, "e": math.e}


class Reading(NamedTuple):
    """How the ambiguous parts of an expression are read; a statement is true if it is true in one reading."""

    percent: bool = True
    """`50%` is 1/2, else it is 50 (as in `100 - 50 = 50%`)."""
    scales: bool = True
    """`3 million` is 3,000,000, else 3 (as in `1 + 2 = 3 million`)."""
    mixed: bool = True
    """A whole number before a fraction is a mixed number, else a product."""


READINGS = (Reading(), Reading(percent=False), Reading(scales=False), Reading(mixed=False))


def magnitude(value: Exact) -> Exact:
    """`abs`, which a type checker believes to lead out of this union."""
    return -value if value < 0 else value


def _bounded(value: Exact) -> Exact:
    if isinstance(value, int):
        bits = value.bit_length()
    else:
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        if value.denominator == 1:
            value = value.numerator
    if bits > MAX_BITS:
        raise Undecidable("value too large")
    return value


def _integer_root(value: int, degree: int) -> int | None:
    if degree != 2 and value.bit_length() >= 900:
        return None
    root = math.isqrt(value) if degree == 2 else round(value ** (1 / degree))
    return root if root**degree == value else None


def _root(value: Exact, degree: int) -> Exact:
    if value < 0 or degree > 64:
        raise NotRational
    value = Fraction(value)
    top, bottom = _integer_root(value.numerator, degree), _integer_root(value.denominator, degree)
    if top is None or bottom is None:
        raise NotRational
    return Fraction(top, bottom)


def power(base: Exact, exponent: Exact) -> Exact:
    """Exact power.

    Raises:
        NotRational: it is irrational.
        Undecidable: it would exceed `MAX_BITS`, or 0 to a negative power.
    """
    if isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            exponent = exponent.numerator
        else:
            return power(_root(base, exponent.denominator), exponent.numerator)
    size = base if isinstance(base, int) else max(abs(base.numerator), base.denominator)
    if abs(exponent) * max(size.bit_length(), 1) > MAX_BITS and size not in (0, 1, -1):
        raise Undecidable("power too large")
    if exponent < 0:
        if base == 0:
            raise Undecidable("division by zero")
        base = Fraction(base)
    if size in (0, 1, -1) and base == size:
        return base if exponent % 2 else base * base if exponent else 1
    return base**exponent


def evaluate(node: Node, known: Mapping[str, Exact], reading: Reading = READINGS[0]) -> Exact:
    """Exact value with the symbols in `known` substituted.

    Raises:
        NotRational: an irrational function or constant occurs.
        Undecidable: an unknown symbol, a division by zero, a limit exceeded.
    """
    if isinstance(node, Num):
        return node.value
    if isinstance(node, Quantity):
        value = evaluate(node.body, known, reading)
        if reading.scales:
            for unit in node.units:
                if unit in SCALE_WORDS:
                    value = _bounded(value * SCALE_WORDS[unit])
        return value
    if isinstance(node, Sym):
        if node.name in known:
            return known[node.name]
        if node.name in CONSTANTS:
            raise NotRational(node.name)
        raise Undecidable(node.name)
    op = node.op
    values = [evaluate(arg, known, reading) for arg in node.args]
    if op == "+":
        return _bounded(values[0] + values[1])
    if op == "-":
        return _bounded(values[0] - values[1])
    if op in ("*", "of"):
        return _bounded(values[0] * values[1])
    if op == "/":
        if not values[1]:
            raise Undecidable("division by zero")
        return _bounded(Fraction(values[0]) / values[1])
    if op == "^":
        return _bounded(power(values[0], values[1]))
    if op == "neg":
        return -values[0]
    if op == "%":
        return Fraction(values[0]) / 100 if reading.percent else values[0]
    if op == "mixed":
        return _bounded(values[0] + values[1] if reading.mixed else values[0] * values[1])
    if op == "abs":
        return magnitude(values[0])
    if op == "!":
        n = values[0]
        if not isinstance(n, int) or not 0 <= n <= MAX_FACTORIAL:
            raise Undecidable("factorial")
        return math.factorial(n)
    if op == "sqrt":
        return _root(values[0], 2)
    if op == "binom":
        n, k = values
        if not isinstance(n, int) or not isinstance(k, int) or not 0 <= k <= n <= 1000:
            raise Undecidable("binomial")
        return math.comb(n, k)
    raise NotRational(op)


def approximate(node: Node, known: dict[str, complex]) -> complex:
    """Value as a complex float with the symbols in `known` substituted.

    Raises:
        Undecidable: an unknown symbol, a pole, an overflow.
    """
    try:
        value = _approximate(node, known)
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        raise Undecidable(str(error)) from None
    if not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise Undecidable("overflow")
    return value


def _approximate(node: Node, known: dict[str, complex]) -> complex:
    if isinstance(node, Num):
        return complex(float(node.value))
    if isinstance(node, Quantity):
        return _approximate(node.body, known) * math.prod(SCALE_WORDS.get(unit, 1) for unit in node.units)
    if isinstance(node, Sym):
        if node.name in known:
            return complex(known[node.name])
        if node.name in CONSTANTS:
            return complex(CONSTANTS[node.name])
        raise Undecidable(node.name)
    values = [_approximate(arg, known) for arg in node.args]
    match node.op:
        case "+":
            return values[0] + values[1]
        case "-":
            return values[0] - values[1]
        case "*" | "of":
            return values[0] * values[1]
        case "/":
            return values[0] / values[1]
        case "^":
            return values[0] ** values[1]
        case "neg":
            return -values[0]
        case "%":
            return values[0] / 100
        case "mixed":
            return values[0] + values[1]
        case "abs":
            return complex(abs(values[0]))
        case "!" | "binom":
            exact = [round(v.real) for v in values]
            if any(abs(v - e) > 1e-9 for v, e in zip(values, exact, strict=True)) or not 0 <= exact[0] <= MAX_FACTORIAL:
                raise Undecidable(node.op)
            return complex(math.factorial(exact[0]) if node.op == "!" else math.comb(exact[0], max(exact[1], 0)))
        case name if name in FUNCTIONS:
            return FUNCTIONS[name](values[0])
    raise Undecidable(node.op)


def symbols(node: Node) -> set[str]:
    """Names of the variables that occur, constants left out."""
    if isinstance(node, Sym):
        return set() if node.name == "pi" else {node.name}
    if isinstance(node, Quantity):
        return symbols(node.body)
    if isinstance(node, Op):
        return set().union(*(symbols(arg) for arg in node.args))
    return set()


def units(node: Node) -> set[str]:
    """Unit words and currency signs that occur; `%` counts as one."""
    if isinstance(node, Quantity):
        return set(node.units) | units(node.body)
    if isinstance(node, Op):
        inner = set().union(*(units(arg) for arg in node.args))
        return inner | {"%"} if node.op == "%" else inner
    return set()


def literal(node: Node) -> Num | None:
    """The numeral if the node is nothing but one, sign, unit and percent aside."""
    while True:
        if isinstance(node, Num):
            return node
        if isinstance(node, Quantity):
            node = node.body
        elif isinstance(node, Op) and node.op in ("neg", "%"):
            node = node.args[0]
        else:
            return None


SCALE_WORDS = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}

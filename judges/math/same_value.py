"""Whether two answers are the same value or expression: units converted, roundings of two decimals allowed."""

from __future__ import annotations

from fractions import Fraction

from tokenmill.judges.math.answer_units import phrase, same_unit
from tokenmill.judges.math.conversions import converted
from tokenmill.judges.math.expressions import (
    READINGS,
    Node,
    NotRational,
    Sym,
    Undecidable,
    approximate,
    evaluate,
    literal,
    symbols,
)
from tokenmill.judges.math.relations import decide
from tokenmill.judges.math.rounding import Knowledge, Truth, is_rounding
from tokenmill.judges.math.worker import Algebra


def same_value(a: Node, b: Node, algebra: Algebra) -> bool:
    """Whether two answers are the same number or the same expression, units converted and roundings allowed."""
    names = symbols(a) | symbols(b)
    if not names - {"e"}:
        try:
            return _same_number(a, b)
        except NotRational:
            pass
        except Undecidable:
            return a == b
        try:
            x, y = approximate(a, {}), approximate(b, {})
        except Undecidable:
            return bool(algebra.equal(a, b))
        error = abs(x - y)
        if error <= 1e-10 * max(abs(x), abs(y), 1e-300):
            return True
        lit = literal(a) or literal(b)
        return lit is not None and lit.decimals >= 2 and error <= 0.5 * 10**-lit.decimals
    decision = decide(a, "=", b, Knowledge())
    if decision.truth is Truth.TRUE:
        return True
    if symbols(a) != symbols(b) or isinstance(a, Sym) or isinstance(b, Sym):
        return a == b
    return decision.truth is Truth.UNDECIDED and _irrational(a, b) and bool(algebra.equal(a, b))


def _irrational(a: Node, b: Node) -> bool:
    """Whether exact evaluation at a point fails, so that numeric disagreement alone does not settle the question."""
    point = {name: Fraction(7, 3) for name in symbols(a) | symbols(b)}
    try:
        evaluate(a, point)
        evaluate(b, point)
    except Undecidable:
        return True
    return False


def _same_number(a: Node, b: Node) -> bool:
    for reading in READINGS:
        x, y = evaluate(a, {}, reading), evaluate(b, {}, reading)
        equal = x == y or any(
            (lit := literal(node)) is not None and lit.decimals >= 2 and is_rounding(exact, stated, node)
            for exact, stated, node in ((x, y, b), (y, x, a))
        )
        if equal:
            # The same number of another unit is another answer: 5 km is not 5 m.
            return same_unit(phrase(a), phrase(b))
        if not reading.percent:
            break
    x, y = evaluate(a, {}), evaluate(b, {})
    return converted(a, "=", b, x, y, Knowledge(), decimals=2) is Truth.TRUE

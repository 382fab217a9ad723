"""Numbers with their units: "14 pieces/house", "8-hour shift", "1 hour 40 minutes", and the comments in brackets among them."""

from __future__ import annotations

from fractions import Fraction

from tokenmill.judges.math.expressions import Node, Num, Op, Quantity, literal
from tokenmill.judges.math.lexicon import vocabulary
from tokenmill.judges.math.notation import Token
from tokenmill.judges.math.numerals import value
from tokenmill.judges.math.units import parts

MAX_UNIT_WORDS = 6
MAX_COMPOUND = 9
"""Characters of the second number of `1 hour 40 minutes`."""

CLAUSE = vocabulary(
    "and or so because since then which that is are was were he she they it we you has have had but if when where who "
    "while as to in on at for from with by divided multiplied gives makes plus minus times equals therefore thus "
    "hence total than"
)
"""Words that no unit's name holds, so that they end one."""
_UNIT_LETTERS = frozenset("mglLshtkcJNWVC")
KNOWN_SHORT = vocabulary("cm mm km kg mg ml lb lbs oz ft in mi mph hr hrs min mins sec yd gal qt pt hp kmh")


class QuantityReader:
    """Reads what may stand behind a number; `pos` is the next token not yet read, `_stop` the first that may not be."""

    def __init__(self, tokens: list[Token], comma: bool = False) -> None:
        self.tokens = tokens
        self.comma = comma
        self.pos = 0
        self._stop = 0

    def _peek(self, ahead: int = 0) -> Token | None:
        at = self.pos + ahead
        return self.tokens[at] if at < self._stop else None

    def _is_comment(self) -> bool:
        """Whether the bracket here opens words, not mathematics."""
        inner = self._peek(1)
        return inner is not None and inner.kind == "word"

    def _comment(self) -> int:
        for ahead in range(1, 20):
            token = self._peek(ahead)
            if token is None or token.kind in ("line", "rel"):
                return 0
            if token.kind == "close":
                return ahead + 1
        return 0

    def _starts_number(self, ahead: int) -> bool:
        token = self._peek(ahead)
        return token is not None and token.kind == "num"

    def _compound(self, first: Quantity) -> Node:
        """`1 hour 40 minutes` and `5 feet and 6 inches` are one quantity of the larger unit, here 1 + 40/60 hours.

        The smaller unit's name is kept behind a plus sign, so that a bare number may be compared in it.
        """
        ahead = 1 if (token := self._peek()) and (token.text == "and" or token.kind == "comma") else 0
        ratio = self._smaller_unit(first.units[-1], ahead)
        if ratio is None or literal(first) is None:
            return first
        number, unit = self.tokens[self.pos + ahead : self.pos + ahead + 2]
        smaller = Fraction(value(number.text, self.comma)[0]) / ratio
        if smaller >= 1:
            return first
        self.pos += ahead + 2
        return Quantity(Op("+", (first.body, Num(smaller))), (*first.units, f"+{unit.text}"))

    def _smaller_unit(self, unit: str, ahead: int) -> Fraction | None:
        """How many of the unit of the quantity that stands ahead make one of `unit`; None if that is no such quantity."""
        number, following = self._peek(ahead), self._peek(ahead + 1)
        if number is None or following is None or number.kind != "num" or len(number.text) > MAX_COMPOUND:
            return None
        return parts(unit, following.text) if following.kind in ("word", "sym") else None

    def _units(self) -> tuple[str, ...]:
        """Unit words here, if an operator, a relation or the end of the clause follows them; else none are taken."""
        words: list[str] = []
        at = self.pos
        while (
            (token := self._peek()) is not None and len(words) <= MAX_UNIT_WORDS and (width := self._unit(token, words))
        ):
            self.pos += width
        if words and self._ends_quantity(words[-1]):
            return tuple(words)
        self.pos = at
        return ()

    def _unit(self, token: Token, words: list[str]) -> int:
        """Add the unit word that stands here to `words`; how many tokens it takes, 0 if none does."""
        after = self._peek(1)
        if token.kind == "word":
            if token.text in CLAUSE or (token.math and token.glued and len(token.text) == 1):
                return 0
            if token.text == "of" and not words:
                return 0
            if token.math and len(token.text) <= 3 and token.text not in KNOWN_SHORT:
                return 0
            words.append(token.text)
            return 1
        if token.kind == "sym":
            letter = not token.math and not token.glued and token.text in _UNIT_LETTERS | {"a"}
            if not letter or (after is not None and token.text == "x" and after.kind == "num"):
                return 0
            words.append(token.text)
            return 1
        if token.text == "/" and after is not None:
            by_letter = words and after.kind == "sym" and after.text in _UNIT_LETTERS
            if not by_letter and (after.kind != "word" or after.text in CLAUSE):
                return 0
            words += ["/", after.text]
            return 2
        if token.text == "-":
            return int(token.glued and after is not None and after.kind == "word" and after.glued)  # "8-hour shift"
        if token.text == "^" and words and words[-1] in KNOWN_SHORT:
            words[-1] += "^2"
            return 2
        return 0

    def _ends_quantity(self, unit: str) -> bool:
        """Whether a quantity can end here, behind its `unit`."""
        token = self._peek()
        if token is None or token.kind in ("op", "rel", "close", "stop", "line", "comma", "colon", "bar", "open"):
            return True
        if token.kind == "word" and token.text in CLAUSE:
            return True
        if self._smaller_unit(unit, 0):
            return True
        after = self._peek(1)
        return token.text in ("x", "X") and after is not None and _is_factor(token, after)


def with_units(node: Node, words: tuple[str, ...]) -> Quantity:
    if isinstance(node, Quantity):
        return Quantity(node.body, node.units + words)
    return Quantity(node, words)


def _is_factor(cross: Token, following: Token) -> bool:
    """Whether what follows an `x` makes it a multiplication sign: "3 x 4", "3x4", "3 x (2/3)", but not "3x(2/3)"."""
    return following.kind in ("num", "money") or (following.kind in ("open", "frac") and not cross.glued)

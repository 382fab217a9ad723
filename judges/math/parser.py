"""Tokens to expression trees: a Pratt parser with hard limits, at home in prose as in LaTeX.

It takes the longest expression that starts at a token and says where it stopped. Unit words between a number and the
next operator are read as units ("14 pieces/house * 60 houses"), comments in brackets are skipped.
"""

from __future__ import annotations

from fractions import Fraction

from tokenmill.judges.math.expressions import CONSTANTS, Node, Num, Op, Quantity, Sym
from tokenmill.judges.math.notation import Token
from tokenmill.judges.math.numerals import value
from tokenmill.judges.math.quantity_reader import QuantityReader, with_units

MAX_TOKENS = 256
"""Tokens of one expression."""
MAX_DEPTH = 40
"""Nesting of brackets, fractions, powers and signs."""
_SUFFIXES = {"squared": 2, "cubed": 3}
_CLOSING = {"(": ")", "[": "]"}
_INFIX = {"+": 10, "-": 10, "*": 20, "/": 20, "^": 30}


class NotAnExpression(Exception):
    """No expression starts here, or it exceeds the limits."""


class NestedTooDeeply(NotAnExpression):
    """Brackets, powers or signs nested beyond `MAX_DEPTH`."""


class TooConvoluted(ValueError):
    """The text makes the parser go back over it too often to be worth reading."""


class Parser(QuantityReader):
    """Parses expressions out of one token list; `pos` is the next token not yet read."""

    def __init__(self, tokens: list[Token], comma: bool = False) -> None:
        super().__init__(tokens, comma)
        self._depth = 0
        self._effort = 20_000 + 10 * len(tokens)

    def parse(self, start: int) -> tuple[Node, int]:
        """The longest expression from token `start`, and the index of the token after it.

        Raises:
            NotAnExpression: none starts there; `pos` is then where reading stopped.
            TooConvoluted: the parser's effort over all calls is used up.
        """
        self.pos, self._depth = start, 0
        self._stop = min(len(self.tokens), start + MAX_TOKENS)
        node = self._expression(0)
        return node, self.pos

    def _expression(self, floor: int) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NestedTooDeeply
        left = self._operand()
        while (token := self._peek()) is not None:
            symbol, width = self._infix(token, left)
            if not symbol:
                break
            strength = 20 if symbol in ("of", "juxt") else _INFIX[symbol]
            if strength <= floor and not (symbol == "^" and strength == floor):
                break
            at, depth = self.pos, self._depth
            self.pos += width
            try:
                right = self._expression(strength if symbol != "^" else 29)
            except NestedTooDeeply:
                raise
            except NotAnExpression:
                # "5 - the rest": the expression ended before the operator.
                self.pos, self._depth = at, depth
                break
            left = Op("*" if symbol == "juxt" else symbol, (left, right))
        self._depth -= 1
        return left

    def _infix(self, token: Token, left: Node) -> tuple[str, int]:
        """The infix operator that stands here and how many tokens it takes; ("", 0) if none does."""
        kind, text = token.kind, token.text
        if kind == "op" and text in _INFIX:
            return text, 1
        if kind == "word" and not token.math:
            following = self._peek(1)
            if text in ("divided", "multiplied") and following and following.text == "by":
                return ("/" if text == "divided" else "*"), 2
            if text == "x" and following:
                return "*", 1
            if text == "of" and _is_part(left):
                width = 1
                while (word := self._peek(width)) and word.kind == "word" and width < 3:
                    width += 1
                return ("of", width) if word and word.kind in ("num", "open", "money", "sym") else ("", 0)
            return "", 0
        if kind == "sym":
            following = self._peek(1)
            if (
                text in "xX"
                and following
                and following.kind in ("num", "money")
                and _ends_in_number(self.tokens, self.pos)
            ):
                return "*", 1
            return ("juxt", 0) if self._touches(token) else ("", 0)
        if kind == "open":
            return ("juxt", 0) if self._touches(token) and text != "{" and not self._is_comment() else ("", 0)
        if kind == "num" and self.tokens[self.pos - 1].text == ")" and isinstance(left, Op) and left.op == "/":
            return "juxt", 0  # "(1/2) 1956"
        if kind in ("func", "frac"):
            return ("juxt", 0) if self._touches(token) else ("", 0)
        if kind == "word" and token.math and len(text) <= 3:
            return "juxt", 0
        if kind == "colon" and token.glued and isinstance(left, Num):
            following = self._peek(1)
            if following and following.kind == "num" and following.glued:
                if len(following.text) == 2 and following.text < "60":
                    raise NotAnExpression("a clock time")
                # "3:100+20=120" is a label and a sum, "3:4 = 6:8" are ratios.
                after = self._peek(2)
                return ("/", 1) if after is None or after.kind != "op" else ("", 0)
        return "", 0

    def _touches(self, token: Token) -> bool:
        return token.glued or token.math

    def _operand(self) -> Node:
        token = self._peek()
        if token is None:
            raise NotAnExpression("nothing here")
        self._effort -= 1
        if self._effort < 0:
            raise TooConvoluted("the text's formulas are too convoluted to be read in reasonable time")
        self.pos += 1
        kind, text = token.kind, token.text
        if kind == "num":
            try:
                numeral = Num(*value(text, self.comma))
            except ValueError:
                raise NotAnExpression("numeral too long") from None
            return self._suffixes(self._mixed(numeral))
        if kind == "vulgar":
            return self._suffixes(_vulgar(text))
        if kind == "multiple":
            return Op("*", (Num(int(text)), self._expression(20)))
        if kind == "sym":
            following = self._peek()
            if text in "aAI" and not token.math and following and following.kind == "word":
                raise NotAnExpression("an article")
            return self._suffixes(Sym(text if text in CONSTANTS else text + self._applied()))
        if kind == "word" and token.math and len(text) <= 3 and text.isascii():
            node: Node = Sym(text[0])
            for letter in text[1:]:
                node = Op("*", (node, Sym(letter)))
            return self._suffixes(node)
        if kind == "money":
            following = self._peek()
            if following and (following.kind in ("num", "open") or following.text in "+-"):
                return with_units(self._operand(), (text,))
            raise NotAnExpression("a lone currency sign")
        if kind == "open":
            inside = self._peek()
            if inside and inside.kind == "word" and not inside.math:
                raise NotAnExpression("a comment")
            return self._suffixes(self._bracketed(text))
        if kind == "op" and text in "+-":
            inner = self._expression(15)
            return inner if text == "+" else Op("neg", (inner,))
        if kind == "frac":
            return self._suffixes(Op("/", (self._argument(), self._argument())))
        if kind == "func":
            return self._suffixes(self._function(text))
        if kind == "bar" and token.math:
            inner = self._expression(0)
            if not (closing := self._peek()) or closing.kind != "bar":
                raise NotAnExpression("unbalanced |")
            self.pos += 1
            return self._suffixes(Op("abs", (inner,)))
        raise NotAnExpression(f"no operand: {kind}")

    def _applied(self) -> str:
        """The numbers that a letter is applied to, as in V(0), P(2, 3) and x[0]: a value of a function, which need not be a
        product. Nobody writes a number in brackets behind a letter to multiply by it."""
        token = self._peek()
        if token is None or token.text not in _CLOSING or not self._touches(token):
            return ""
        closing = _CLOSING[token.text]
        ahead, inside = 1, ""
        while (token := self._peek(ahead)) is not None and (
            token.kind in ("num", "vulgar", "comma") or token.text in ("+", "-", "/", ".")
        ):
            inside += token.text
            ahead += 1
        if token is None or token.text != closing or not any(map(str.isdigit, inside)):
            return ""
        self.pos += ahead + 1
        return f"({inside})"

    def _bracketed(self, opening: str) -> Node:
        depth = self._depth
        node = self._expression(0)
        self._depth = depth
        closing = self._peek()
        if closing is None or closing.kind != "close" or closing.text != {"(": ")", "[": "]", "{": "}"}[opening]:
            raise NotAnExpression("unbalanced brackets")
        self.pos += 1
        return node

    def _argument(self) -> Node:
        """A LaTeX argument: a braced group or one token (`\\frac12` is 1/2)."""
        token = self._peek()
        if token is None:
            raise NotAnExpression("missing argument")
        self.pos += 1
        if token.kind == "open" and token.text == "{":
            return self._bracketed("{")
        if token.kind == "num" and token.text.isdigit():
            return Num(int(token.text))
        if token.kind == "sym":
            return Sym(token.text)
        raise NotAnExpression("no argument")

    def _function(self, name: str) -> Node:
        if name == "binom":
            return Op("binom", (self._argument(), self._argument()))
        degree: Node | None = None
        if name == "sqrt" and (token := self._peek()) and token.text == "[":
            self.pos += 1
            degree = self._bracketed("[")
        token = self._peek()
        exponent: Node | None = None
        if name != "sqrt" and token and token.text == "^":
            self.pos += 1
            exponent = self._argument()
            token = self._peek()
            if exponent == Num(1) or isinstance(exponent, Op):
                raise NotAnExpression("an inverse or an odd power of a function")
        if token and token.kind == "bad":
            raise NotAnExpression("a function with a base")
        if token and token.kind == "open":
            self.pos += 1
            inner = self._bracketed(token.text)
        else:
            inner = self._expression(20 if name != "sqrt" else 35)
        if degree is not None:
            return Op("^", (inner, Op("/", (Num(1), degree))))
        node = Op(name, (inner,))
        return Op("^", (node, exponent)) if exponent is not None else node

    def _mixed(self, node: Num) -> Node:
        """`2 1/2`, `2½` and `2\\frac{1}{2}` are mixed numbers."""
        following = self._peek()
        if following is None or node.decimals:
            return node
        if following.kind == "vulgar":
            self.pos += 1
            return Op("+", (node, _vulgar(following.text)))
        if following.kind == "frac":
            at = self.pos
            self.pos += 1
            part = Op("/", (self._argument(), self._argument()))
            if all(isinstance(arg, Num) for arg in part.args):
                return Op("mixed", (node, part))
            self.pos = at
            return node
        slash, bottom = self._peek(1), self._peek(2)
        if (
            following.kind == "num" and not following.glued and slash and bottom
            and slash.text == "/" and slash.glued and bottom.kind == "num" and bottom.glued
            and following.text.isdigit() and bottom.text.isdigit() and len(following.text) + len(bottom.text) < 9
            and int(following.text) < int(bottom.text)
        ):  # fmt: skip
            self.pos += 3
            return Op("+", (node, Op("/", (Num(int(following.text)), Num(int(bottom.text))))))
        return node

    def _suffixes(self, node: Node) -> Node:
        """Postfix operators, unit words and comments after an operand."""
        while (token := self._peek()) is not None:
            if token.kind == "op" and token.text == "%":
                node = Op("%", (node,))
            elif token.kind == "op" and token.text == "!" and token.glued and self._factorial_ahead():
                node = Op("!", (node,))
            elif token.kind == "word" and token.text in _SUFFIXES:
                node = Op("^", (node, Num(_SUFFIXES[token.text])))
            elif token.kind == "word" and token.text == "percent":
                node = Op("%", (node,))
            elif token.kind == "money" and not self._starts_number(1):
                node = with_units(node, (token.text,))
            elif token.kind == "open" and token.text == "(" and self._is_comment() and (skip := self._comment()):
                self.pos += skip
                continue
            else:
                units = self._units()
                return self._compound(with_units(node, units)) if units else node
            self.pos += 1
        return node

    def _factorial_ahead(self) -> bool:
        """`5! = 120` is a factorial, `costs $5!` is not."""
        token = self._peek(1)
        return token is not None and (token.kind in ("rel", "close", "op") or token.math)


def _vulgar(text: str) -> Op:
    return Op("/", tuple(Num(int(part)) for part in text.split("/")))


def _is_part(node: Node) -> bool:
    """Whether "NODE of X" is a product: a percentage or a fraction."""
    if isinstance(node, Quantity):
        node = node.body
    if isinstance(node, Op) and node.op in ("%", "/", "mixed"):
        return True
    return isinstance(node, Num) and isinstance(node.value, Fraction) and node.value < 1


def _ends_in_number(tokens: list[Token], pos: int) -> bool:
    """Whether the token before `pos` ends a number, so that an `x` there can be a multiplication sign."""
    before = tokens[pos - 1] if pos else None
    return before is not None and (before.kind in ("num", "close", "word", "vulgar") or before.text == "%")

"""The final answer of a note must be the source's, whatever the format (Kimi K2 report, section 2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from tokenmill.judges.math.expressions import (
    READINGS,
    Node,
    NotRational,
    Num,
    Op,
    Sym,
    Undecidable,
    approximate,
    evaluate,
    literal,
    symbols,
    units,
)
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.notation import tokenize
from tokenmill.judges.math.numerals import DIGITS, Numeral, comma_decimal, find_numerals
from tokenmill.judges.math.parser import NotAnExpression, Parser
from tokenmill.judges.math.relations import Knowledge, Truth, decide, is_rounding
from tokenmill.judges.math.units import UNITS, dimensions, ratios
from tokenmill.judges.math.worker import Algebra
from tokenmill.schemas.verdicts import Finding, Verdict

MAX_ANSWER = 2_000
"""Characters of an answer, after extraction, that are compared."""

_ANNOUNCED = re.compile(
    r"\b(?:answer|result|solution)\b\**\s*(?:\([^)\n]{0,40}\)\s*)?(?:is|are|equals|was|:|=)\s*:?\**\s*([^\n]+)",
    re.IGNORECASE,
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_APPROXIMATELY = re.compile(r"^(?:\\approx|≈|~|approximately|about|roughly|exactly|only)\s*", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*(?:,|;|\bor\b|\band\b|\\text\s?\{\s*(?:or|and)\s*\})\s*")
_MYRIAD = re.compile("[十百千万萬億亿]")
_INTERVAL = re.compile(r"^(?:\\left)?([\[(])(.+),(.+?)(?:\\right)?([\])])$", re.DOTALL)


@dataclass(frozen=True)
class Words:
    """An answer that is no mathematics, or too long to be read."""

    text: str


@dataclass(frozen=True)
class Value:
    """An answer that is one expression."""

    node: Node


@dataclass(frozen=True)
class Equation:
    """An answer such as `y = 2x + 1`."""

    left: Node
    right: Node


@dataclass(frozen=True)
class Set:
    """Answers in any order."""

    parts: tuple[Answer, ...]


@dataclass(frozen=True)
class Tuple:
    """Answers in order, or an interval; `brackets` are `(]` for a half-open one."""

    parts: tuple[Answer, ...]
    brackets: str


Answer = Words | Value | Equation | Set | Tuple


def final_answer(text: str) -> str:
    """The part of `text` that states the final answer: the last box, `####` line or announced answer, else the text.

    Empty when the text is blank.
    """
    text = from_mathml(text)
    boxes = list(_BOX.finditer(text))
    for match in reversed(boxes[-20:]):
        inside = _braced(text, match.end())
        if inside.strip():
            return inside.strip()
    if "####" in text:
        return text.rsplit("####", 1)[1].strip().split("\n")[0].strip()
    announced = _ANNOUNCED.findall(text[-4000:])
    if announced:
        return announced[-1].strip()
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _braced(text: str, start: int) -> str:
    depth = 1
    for i in range(start, min(len(text), start + MAX_ANSWER)):
        if text[i] in "{}" and text[i - 1] != "\\":
            depth += 1 if text[i] == "{" else -1
            if not depth:
                return text[start:i]
    return ""


def read_answer(text: str, language: str = "en") -> Answer:
    """Read an answer already extracted; what is no mathematics is kept as words."""
    text = text.translate(DIGITS).strip()
    text = re.sub(r"^\$\$?(?!\d)(.+?)\$\$?$", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"^\\[(\[](.+)\\[)\]]$", r"\1", text.strip("*_` \n"), flags=re.DOTALL).strip("*_` \n")
    text = _APPROXIMATELY.sub("", text.rstrip(".。।!").strip())
    if len(text) > MAX_ANSWER:
        return Words(text[:MAX_ANSWER])
    bare = text.replace("\\left", "").replace("\\right", "").strip()
    if (bare.startswith("\\{") and bare.endswith("\\}")) or (
        bare.startswith("{") and bare.endswith("}") and "," in bare
    ):
        inside = bare.strip("\\{}")
        return Set(tuple(read_answer(p, language) for p in _split(inside)))
    interval = _INTERVAL.match(bare)
    if interval and len(parts := _split(bare[1:-1])) > 1 and _node(bare, language) is None:
        return Tuple(tuple(read_answer(p, language) for p in parts), interval[1] + interval[4])
    numerals = find_numerals(text, language)
    if len(numerals) == 1 and (numerals[0].word or _MYRIAD.search(numerals[0].text)) and _alone(text, numerals[0]):
        return Value(Num(numerals[0].values[0]))
    node = _node(text, language)
    if node is not None:
        return Value(node)
    sides = re.split(r"(?<![<>!=\\])=(?!=)", text)
    if len(sides) == 2:
        left, right = _node(sides[0], language), _node(sides[1], language)
        if left is not None and right is not None:
            if (isinstance(left, Sym) and not symbols(right)) or (not symbols(left) and not symbols(right)):
                return Value(right)
            return Equation(left, right)
        if right is not None and re.fullmatch(r"[\w\s]{1,60}", sides[0]):
            return Value(right)
    pieces = _split(text)
    if 1 < len(pieces) <= 20:
        several = tuple(read_answer(p, language) for p in pieces)
        if all(isinstance(part, Value | Equation | Tuple) for part in several):
            return Set(several)
    return Words(text)


def _alone(text: str, numeral: Numeral) -> bool:
    """Whether nothing but a short unit or currency surrounds the numeral."""
    before, after = text[: numeral.start], text[numeral.end :]
    return not before.strip(" $€£¥") and len(after) <= 20 and not re.search(r"[\d+*/^=\-]", after)


def _split(text: str) -> list[str]:
    """Top-level parts of a list; a comma between digits of one numeral does not part it."""
    pieces, depth, begin = [], 0, 0
    i = 0
    while i < len(text):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
        elif depth == 0 and (match := _SEPARATOR.match(text, i)):
            thousands = match[0] == "," and text[i - 1 : i].isdigit() and re.match(r"\d{3}(?!\d)", text[i + 1 : i + 5])
            if not thousands:
                pieces.append(text[begin:i])
                begin = i = match.end()
                continue
        i += 1
    return [p.strip() for p in [*pieces, text[begin:]] if p.strip()]


def _node(text: str, language: str) -> Node | None:
    """The expression that all of `text` is, apart from a few words around it; None if it is none."""
    tokens = tokenize(text, language, math="\\" in text or not re.search(r"[^\W\d_]{2,}", text))
    if not tokens:
        return None
    parser = Parser(tokens, comma_decimal(language))
    try:
        node, end = parser.parse(0)
    except (NotAnExpression, RecursionError):
        return None
    rest = parser.tokens[end:]
    if all(token.kind in ("word", "stop", "line") for token in rest) and (
        not rest or literal(node) is not None or rest[0].kind != "word"
    ):
        return node
    return None


@dataclass(frozen=True)
class FinalAnswer:
    """Check `final_answer`: reasons `no_answer` (the note states none) and `wrong_answer`.

    Equal up to format: units, currency, separators and digits of ten languages, percent, fraction, mixed number and
    decimal, LaTeX boxes, order in sets, equations with the same solutions.
    """

    algebra: Algebra = field(default_factory=Algebra)

    def __call__(
        self, source_answer: str, note_answer: str, language: str = "en", note_language: str = "en"
    ) -> Verdict:
        """Compare; each text is an answer or ends in one. `language` is the source's.

        Raises:
            ValueError: the source answer is blank, so there is nothing to hold the note to.
        """
        gold, given = final_answer(source_answer), final_answer(note_answer)
        if not gold:
            raise ValueError("the source answer is blank")
        if not given:
            return _refuse("no_answer", f"State the final answer; the source's is {gold}.", gold, "")
        if self.same(gold, given, language, note_language):
            return Verdict("final_answer", True, 1.0)
        return _refuse("wrong_answer", f"The final answer is {given}, the source's is {gold}.", gold, given)

    def same(self, gold: str, given: str, language: str = "en", note_language: str = "en") -> bool:
        """Whether two extracted answers are equal up to format."""
        expected = read_answer(gold, language)
        actual = read_answer(given, note_language)
        if self._equal(expected, actual):
            return True
        if _fold(gold) == _fold(given):
            return True
        if isinstance(expected, Value) and isinstance(actual, Words | Set):
            # A sentence: "Natalia sold 72 clips altogether in April and May." Its one number must be the answer.
            return self._stated(expected, given, note_language)
        if isinstance(actual, Value) and isinstance(expected, Words):
            return self._stated(actual, gold, language)
        return False

    def _stated(self, expected: Value, sentence: str, language: str) -> bool:
        if len(sentence) > MAX_ANSWER:
            return False
        numbers = [n for n in find_numerals(sentence, language) if not n.word] or find_numerals(sentence, language)
        equation = re.split(r"=|≈|\\approx", sentence)
        tail = [read_answer(re.split(r"[.!?](?:\s|$)", equation[-1])[0], language)] if len(equation) > 1 else []
        if any(isinstance(part, Value) and self._equal(expected, part) for part in tail):
            return True
        if len(numbers) != 1:
            return False
        number = numbers[0]
        try:
            value = evaluate(expected.node, {})
        except Undecidable:
            return False
        return value in number.values or (number.percent and any(Fraction(v) / 100 == value for v in number.values))

    def _equal(self, a: Answer, b: Answer) -> bool:
        if isinstance(a, Words) or isinstance(b, Words):
            return isinstance(a, Words) and isinstance(b, Words) and _fold(a.text) == _fold(b.text)
        if isinstance(a, Value) and isinstance(b, Value):
            return same_value(a.node, b.node, self.algebra)
        if isinstance(a, Equation) and isinstance(b, Equation):
            return self._same_equation(a, b)
        if isinstance(a, Tuple) and isinstance(b, Tuple):
            return (
                a.brackets == b.brackets
                and len(a.parts) == len(b.parts)
                and all(self._equal(x, y) for x, y in zip(a.parts, b.parts, strict=True))
            )
        equation, other = (a, b) if isinstance(a, Equation) else (b, a)
        if isinstance(equation, Equation):
            # "y = 2x + 1" and "2x + 1": the right side is the answer.
            if (
                isinstance(equation.left, Sym)
                and isinstance(other, Value)
                and same_value(equation.right, other.node, self.algebra)
            ):
                return True
            found = other.parts if isinstance(other, Set) else (other,)
            names = symbols(equation.left) | symbols(equation.right)
            values = [part.node for part in found if isinstance(part, Value)]
            if len(names) == 1 and len(values) == len(found) and not any(symbols(v) for v in values):
                return bool(self.algebra.solves(equation.left, equation.right, names.pop(), values))
        if isinstance(a, Set) or isinstance(b, Set):
            return self._same_set(a.parts if isinstance(a, Set) else (a,), b.parts if isinstance(b, Set) else (b,))
        return False

    def _same_set(self, a: tuple[Answer, ...], b: tuple[Answer, ...]) -> bool:
        if len(a) != len(b) or len(a) > 50:
            return False
        left = list(b)
        for part in a:
            match = next((other for other in left if self._equal(part, other)), None)
            if match is None:
                return False
            left.remove(match)
        return True

    def _same_equation(self, a: Equation, b: Equation) -> bool:
        """Equations with proportional differences have the same solutions."""
        x, y = Op("-", (a.left, a.right)), Op("-", (b.left, b.right))
        names = sorted(symbols(x) | symbols(y))
        factors = []
        for i in range(4):
            point = {name: Fraction(7 + 3 * i + 5 * k, 3 + i) for k, name in enumerate(names)}
            try:
                u, v = evaluate(x, point), evaluate(y, point)
            except Undecidable:
                return bool(self.algebra.equal(x, y))
            if (u == 0) != (v == 0):
                return False
            if v:
                factors.append(Fraction(u) / v)
        return bool(factors) and len(set(factors)) == 1


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


_CURRENCIES = {
    name + plural: sign
    for name, sign in (("dollar", "$"), ("buck", "$"), ("euro", "€"), ("yen", "¥"), ("rupee", "₹"), ("cent", "¢"))
    for plural in ("", "s")
}


def _same_number(a: Node, b: Node) -> bool:
    here, there = ({_CURRENCIES.get(unit, unit) for unit in units(node)} for node in (a, b))
    money = {"$", "€", "£", "¥", "₹", "¢"}
    known_here, known_there = here & UNITS.keys() - {"%"}, there & UNITS.keys() - {"%"}
    for reading in READINGS:
        x, y = evaluate(a, {}, reading), evaluate(b, {}, reading)
        equal = x == y or any(
            (lit := literal(node)) is not None and lit.decimals >= 2 and is_rounding(exact, stated, node)
            for exact, stated, node in ((x, y, b), (y, x, a))
        )
        if equal:
            # Pounds may be a weight; every other currency is one sign.
            if len(here & money) == 1 and len(there & money) == 1 and here & money != there & money:
                return False
            # The same number of another unit of the same kind is another answer: 5 km is not 5 m.
            if known_here and known_there and known_here != known_there:
                return not (dimensions(known_here) & dimensions(known_there)) or Fraction(1) in _all_ratios(
                    known_here, known_there
                )
            return True
        if not reading.percent:
            break
    x, y = evaluate(a, {}), evaluate(b, {})
    return bool(known_here and known_there and y and Fraction(x) / y in ratios(known_here, known_there))


def _all_ratios(here: set[str], there: set[str]) -> set[Fraction]:
    return {UNITS[p][d] / UNITS[q][d] for p in here for q in there for d in UNITS[p].keys() & UNITS[q].keys()}


def _fold(text: str) -> str:
    text = re.sub(r"\\(?:text|mathrm|textbf)\s?\{([^{}]*)\}", r"\1", text)
    return re.sub(r"[\s$*_`.{}\\()]+", " ", text.translate(DIGITS)).strip().casefold()


def _refuse(reason: str, detail: str, source: str, rewrite: str) -> Verdict:
    return Verdict("final_answer", False, 0.0, reason, (Finding(reason, detail, source[:300], rewrite[:300]),))

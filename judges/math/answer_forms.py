"""What a text states as its answer, and the forms an answer can have: a value, an equation, a set, a tuple, words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenmill.judges.math.expressions import Node, Num, Sym, literal, symbols
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.notation import tokenize
from tokenmill.judges.math.numerals import DIGITS, Numeral, comma_decimal, find_numerals
from tokenmill.judges.math.parser import NotAnExpression, Parser

MAX_ANSWER = 2_000
"""Characters of an answer, after extraction, that are compared."""

_ANNOUNCED = re.compile(
    r"\b(?:answer|result|solution)\b\**\s*(?:\([^)\n]{0,40}\)\s*)?(?:is|are|equals|was|:|=)\s*:?\**\s*([^\n]+)",
    re.IGNORECASE,
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_APPROXIMATELY = re.compile(r"^(?:\\approx|≈|~|approximately|about|roughly|exactly|only)\s*", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*(?:,|;|\bor\b|\band\b|\\text\s?\{\s*(?:or|and)\s*\})\s*")
_MEASURE = re.compile(r"[\d.,]+ [mglhs]")
"""Letters behind a space that are units: 1500 m."""
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
    words = re.search(r"[^\W\d_]{2,}", text) or _MEASURE.fullmatch(text)
    tokens = tokenize(text, language, math="\\" in text or not words)
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

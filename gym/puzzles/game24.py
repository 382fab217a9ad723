"""The 24 game: four numbers, each exactly once, + - * / and brackets; the value is exact."""

from __future__ import annotations

import ast
import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from random import Random
from typing import Any

import orjson
from tokenmill.gym.answers import LINE, stated
from tokenmill.gym.environment import Drawn, Generated
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

TARGET = 24
_LONGEST = 120
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "[": "(", "]": ")", "{": "(", "}": ")"})
_ALLOWED = re.compile(r"[\d+\-*/() ]+")
_CLAIM = re.compile(r"\s*=\s*24\s*$")


class NotAnExpression(ValueError):
    """The answer is no expression of the game; the text says why."""


class Game24(Generated):
    """Four numbers from 1 to 13 that make 24."""

    name = "game24"
    budget = 4096
    topics = ("arithmetic", "search")

    def draw(self, seed: int, number: int) -> Drawn:
        random = Random(digest(self.name, seed, number))
        while True:
            numbers = [random.randint(1, 13) for _ in range(4)]
            if found := solution(tuple(sorted(numbers))):
                break
        shown = ", ".join(map(str, numbers))
        prompt = (
            f"Use the numbers {shown}, each exactly once, with +, -, *, / and brackets, to make {TARGET}. Division is exact, "
            f"and numbers may not be joined to longer ones. {LINE}"
        )
        return Drawn(prompt, f"Answer: {found}", {"numbers": numbers})

    def fault(self, data: dict[str, Any], text: str) -> str:
        said = stated(text)
        if not said:
            return "no single answer is stated"
        try:
            value, used = evaluated(said)
        except NotAnExpression as error:
            return str(error)
        if Counter(used) != Counter(data["numbers"]):
            return f"uses {sorted(used)}, given are {sorted(data['numbers'])}"
        return "" if value == TARGET else f"the value is {value}, not {TARGET}"

    def wrong(self, task: GymTask) -> list[str]:
        numbers = orjson.loads(task.data)["numbers"]
        a, b, c, d = numbers
        made = [
            "24",
            "12 + 12",
            "8 * 3",
            "(1 + 2) * 8 * 1",
            f"24 * {a} / {a}",
            f"{a} - {a} + 24",
            f"{a}{b} - {c} + {d}",
        ]
        right = task.reference.removeprefix("Answer: ")
        made += [f"{right} + 0", f"{right} * 1", f"({right}) * {a} / {a}", f"{right} + 1"]
        plain = f"{a} + {b} + {c} + {d}"
        if sum(numbers) != TARGET:
            made += [plain, f"{plain} = 24"]
        return [f"Answer: {one}" for one in made if self.fault({"numbers": numbers}, f"Answer: {one}")]


def evaluated(text: str) -> tuple[Fraction, list[int]]:
    """Value and numbers of an expression, with nothing but the four operations.

    Raises:
        NotAnExpression: it holds something else, or divides by zero.
    """
    text = _CLAIM.sub("", text.translate(_SIGNS))
    if len(text) > _LONGEST or not _ALLOWED.fullmatch(text):
        raise NotAnExpression("not an expression of numbers, + - * / and brackets")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotAnExpression("not an expression of numbers, + - * / and brackets") from None
    used: list[int] = []
    try:
        return _value(tree, used), used
    except ZeroDivisionError:
        raise NotAnExpression("divides by zero") from None


def _value(node: ast.expr, used: list[int]) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(node.value)
        return Fraction(node.value)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, used), _value(node.right, used)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
    raise NotAnExpression("only + - * / and brackets are allowed")


@lru_cache(maxsize=4096)
def solution(numbers: tuple[int, ...]) -> str:
    """An expression of the numbers that makes 24; empty where there is none."""
    return _search([(number, 1, str(number)) for number in numbers])


Part = tuple[int, int, str]
"""Numerator, denominator and text of an expression: not `Fraction`, which takes ten times as long."""


def _search(parts: list[Part]) -> str:
    if len(parts) == 1:
        top, bottom, text = parts[0]
        return text if top == TARGET * bottom else ""
    for i, (a, b, left) in enumerate(parts):
        for j, (c, d, right) in enumerate(parts):
            if i == j:
                continue
            rest = [part for k, part in enumerate(parts) if k not in (i, j)]
            made = [(a * d - c * b, b * d, f"({left} - {right})")]
            if i < j:
                made += [(a * d + c * b, b * d, f"({left} + {right})"), (a * c, b * d, f"({left} * {right})")]
            if c:
                made.append((a * d, b * c, f"({left} / {right})"))
            for one in made:
                if found := _search([*rest, one]):
                    return found
    return ""

"""Plant one fault in a worked solution, found by the data set's own annotations and not by the checks' reading."""

from __future__ import annotations

import random
import re
from fractions import Fraction

_ANNOTATED = re.compile(r"<<([^<>=]{1,80})=([^<>=]{1,40})>>([\d,]*\.?\d+)?")
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+")


def plain(solution: str) -> str:
    """A solution without calculator annotations, as a note would read."""
    return re.sub(r"<<[^<>]*>>", "", solution)


def _number(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


def _other(number: str, rng: random.Random) -> str:
    """A wrong result of the kind that people and models make: off by one, by ten, or a digit swapped for another."""
    value = _number(number)
    decimals = len(number.partition(".")[2])
    step = Fraction(1, 10**decimals)
    choices = [value + step, value - step, value + 10 * step, value + 2]
    digits = list(number)
    at = rng.choice([i for i, c in enumerate(digits) if c.isdigit()])
    digits[at] = rng.choice([d for d in "123456789" if d != digits[at]])
    choices.append(_number("".join(digits)))
    wrong = rng.choice([c for c in choices if c != value and c >= 0])
    return f"{float(wrong):.{decimals}f}" if decimals else str(int(wrong))


def wrong_result(solution: str, rng: random.Random) -> str | None:
    """The solution, plain, with the shown result of one calculation changed; None if it shows none."""
    places = [m for m in _ANNOTATED.finditer(solution) if m[3] and solution[: m.start()].rstrip(" $€").endswith("=")]
    if not places:
        return None
    match = rng.choice(places)
    return plain(solution[: match.start(3)] + _other(match[3], rng) + solution[match.end(3) :])


def swapped_operand(solution: str, question: str, rng: random.Random) -> str | None:
    """The solution, plain, with one operand swapped; None if no calculation is written out.

    The two of a difference or quotient change places; else one gives way to another number of the problem.
    """
    candidates = []
    for match in _ANNOTATED.finditer(solution):
        before = solution[: match.start()].rstrip(" $€")
        if not before.endswith("="):
            continue
        tail = re.search(r"[\d.,$%()\s+\-–*/x×÷]+$", before[:-1])
        operands = list(_NUMBER.finditer(before, tail.start() if tail else len(before), len(before) - 1))
        if len(operands) >= 2:
            candidates.append((match, operands))
    rng.shuffle(candidates)
    pool = [n for n in _NUMBER.findall(question)]
    for _, operands in candidates:
        first, second = operands[-2:]
        between = solution[first.end() : second.start()]
        if _number(first[0]) != _number(second[0]) and re.fullmatch(r"\s*[-–/÷]\s*\$?", between) and len(operands) == 2:
            return plain(solution[: first.start()] + second[0] + between + first[0] + solution[second.end() :])
        chosen = rng.choice(operands)
        others = [n for n in pool if _number(n) != _number(chosen[0])]
        if others:
            return plain(solution[: chosen.start()] + rng.choice(others) + solution[chosen.end() :])
    return None


def wrong_answer(solution: str, rng: random.Random) -> str:
    """The solution, plain, with another final answer."""
    body, _, answer = plain(solution).rpartition("####")
    return f"{body}#### {_other(answer.strip(), rng)}"

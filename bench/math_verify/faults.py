"""Plant one fault in a worked solution, found by the data set's own annotations and not by the checks' reading."""

from __future__ import annotations

import random
import re
from fractions import Fraction

_ANNOTATED = re.compile(r"<<([^<>=]{1,80})=([^<>=]{1,40})>>([\d,]*\.?\d+)?")
_SHOWN = re.compile(r"=\s*[$€£]?(\d[\d,]*(?:\.\d+)?)")
_OTHER_UNITS = {
    "minutes": "hours", "hours": "minutes", "days": "weeks", "weeks": "days", "seconds": "minutes", "years": "months",
    "months": "years", "dollars": "cents", "cents": "dollars", "feet": "inches", "inches": "feet", "meters": "kilometers",
    "kilometers": "meters", "miles": "feet", "yards": "feet", "pounds": "ounces", "ounces": "pounds", "kilograms": "grams",
    "grams": "kilograms", "gallons": "quarts", "cups": "pints", "liters": "milliliters",
}  # fmt: skip
_ASKED = re.compile(
    rf"\bhow many (?:more )?({'|'.join(_OTHER_UNITS)})\b(?! per)|\bin ({'|'.join(_OTHER_UNITS)})\?", re.IGNORECASE
)
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
    """The solution, plain, with the shown result of one calculation changed; None if it shows none.

    Where nothing is annotated, a result is the number behind a sign of equality.
    """
    if "<<" not in solution:
        shown = list(_SHOWN.finditer(solution))
        if not shown:
            return None
        match = rng.choice(shown)
        return solution[: match.start(1)] + _other(match[1], rng) + solution[match.end(1) :]
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


def number_in_prose(solution: str, rng: random.Random) -> str | None:
    """The solution, plain, with a number changed in a line that has no sign of equality; None if there is no such number."""
    body, mark, answer = plain(solution).rpartition("####")
    places, start = [], 0
    for row in body.splitlines(keepends=True):
        if "=" not in row:
            places += [(start + m.start(), m[0]) for m in _NUMBER.finditer(row) if _number(m[0]) > 1]
        start += len(row)
    if not places:
        return None
    at, number = rng.choice(places)
    return body[:at] + _other(number, rng) + body[at + len(number) :] + mark + answer


def other_condition(question: str, rng: random.Random) -> str | None:
    """The question with one of its numbers changed to one that it does not have, so that its solution is another problem's."""
    places = [m for m in _NUMBER.finditer(question) if _number(m[0]) > 1]
    there = {_number(m[0]) for m in _NUMBER.finditer(question)}
    if not places:
        return None
    match = rng.choice(places)
    changed = next((c for _ in range(20) if _number(c := _other(match[0], rng)) not in there and _number(c) > 1), None)
    return None if changed is None else question[: match.start()] + changed + question[match.end() :]


def answers_in_units(question: str, solution: str) -> tuple[str, str] | None:
    """The solution's answer in the unit that the question names, and the same number in another; None if it names none."""
    asked = _ASKED.findall(question)
    if len(asked) != 1:
        return None
    unit = (asked[0][0] or asked[0][1]).lower()
    answer = plain(solution).rpartition("####")[2].strip()
    return f"{answer} {unit}", f"{answer} {_OTHER_UNITS[unit]}"

"""Mathematics: problems drawn by code or read from a file, decided by the judge of final answers (`judges/math`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from math import comb, gcd
from pathlib import Path
from random import Random
from typing import Any

import orjson
from tokenmill.gym.answers import LONGEST_LINE, stated
from tokenmill.gym.attacks import mutants
from tokenmill.gym.environment import Drawn, EnvironmentFault, Generated
from tokenmill.gym.files import records
from tokenmill.gym.plain import disguised
from tokenmill.judges.math import FinalAnswer
from tokenmill.judges.math.answer_forms import Value, final_answer, read_answer
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

_WHOLE = r"\d+|\d{1,3}(?:[, \u202f\u00a0]\d{3})+"
_NUMBER = re.compile(
    r"([-−+]?)\s*"
    rf"(?:({_WHOLE})(?:\s*[/⁄∕]\s*({_WHOLE}))?|\\?[dt]?frac\s*\{{(\d+)\}}\s*\{{(\d+)\}})\s*(?:\\text\{{)?([a-z]*)\}}?",
    re.IGNORECASE,
)
"""A whole number or a fraction in figures, perhaps with a word behind."""
_BOX = re.compile(r"\\boxed\s*\{(.*)\}")
_GROUPS = re.compile(r"[ ,\u00a0\u202f]")
ASK = "End with one line `Answer:` and the exact value: a whole number or a fraction in lowest terms."


class Mathematics(Generated):
    """Equations, remainders, chances, mixtures, counts: exact answers, several steps each."""

    name = "mathematics"
    budget = 4096
    drawn = True
    """Whether the value is drawn, so that its form is known."""
    topics = ("mathematics",)

    def draw(self, seed: int, number: int) -> Drawn:
        random = Random(digest(self.name, seed, number))
        make = KINDS[number % len(KINDS)]
        while True:
            question, value = make(random)
            if abs(value) >= 12 or value.denominator > 6:  # what is small is guessed
                break
        topic = make.__name__.strip("_")
        return Drawn(
            f"{question} {ASK}",
            f"Answer: {value}",
            {"answer": str(value), "question": question, "unit": UNITS.get(make.__name__, "")},
            kind=topic,
            topics=("mathematics", topic),
        )

    def fault(self, data: dict[str, Any], text: str) -> str:
        if not self.drawn:
            return disagreement(self._judge, data["answer"], text)
        said = stated(text) or _boxed(text)
        if not said:
            return "no single answer is stated"
        name, equals, value_said = said.rpartition("=")
        if equals and name.strip(" $").replace(" ", "") not in data.get("question", "").replace(" ", ""):
            return "gives another quantity"
        value = exact(value_said, data.get("unit", ""))
        if value is None:
            return "is no whole number or fraction: what is only written down is not worked out"
        return "" if value == Fraction(data["answer"]) else f"not {data['answer']}"

    def wrong(self, task: GymTask) -> list[str]:
        value = Fraction(orjson.loads(task.data)["answer"])
        made = [value + 1, value - 1, -value, value * 10, value + Fraction(1, 7)] + (
            [1 / value] if abs(value) != 1 else []
        )
        texts = [str(one) for one in made if one != value]
        texts += [f"{value} or {value + 1}", f"{value - 1} + 1", f"between {value - 1} and {value + 1}"]
        return [f"Answer: {one}" for one in texts]

    @cached_property
    def _judge(self) -> FinalAnswer:
        return FinalAnswer()


def exact(said: str, unit: str = "") -> Fraction | None:
    """The value of a whole number or a fraction in lowest terms as answers have it; None for anything else, decimals among it,
    and where the word behind it is not `unit`."""
    said = said.strip("$ \r\n")
    if box := _BOX.fullmatch(said):
        said = box[1]
    said = said.strip("$ \\()[]")
    found = _NUMBER.fullmatch(said)
    if found is None or disguised(said):
        return None
    sign, whole, below, numerator, denominator, word = found.groups()
    if word and word.casefold() != unit:
        return None
    above, under = (int(_GROUPS.sub("", part)) for part in (whole or numerator, below or denominator or "1"))
    if under == 0 or gcd(above, under) > 1:
        return None
    return Fraction(above, under) * (-1 if sign in ("-", "−") else 1)


class Problems(Mathematics):
    """Problems with answers from a file of the user's: JSONL or Parquet with `problem` (or `question`) and `answer`."""

    drawn = False

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name

    def draw(self, seed: int, number: int) -> Drawn:
        raise EnvironmentFault(f"{self.name} draws nothing")

    def tasks(self, seed: int) -> Iterator[GymTask]:
        for number, row in enumerate(records(Path(self.path))):
            question, answer = row.get("problem") or row.get("question"), row.get("answer") or row.get("solution")
            if not isinstance(question, str) or not str(answer or "").strip():
                raise EnvironmentFault(f"{self.path}: row {number} needs `problem` and `answer`")
            gold = final_answer(str(answer))
            yield GymTask(
                id=str(row.get("id") or f"{Path(self.path).stem}/{number}"),
                environment=self.name,
                kind="problem",
                topics=[*(row.get("topics") or self.topics)],
                prompt=f"{question}\n\nEnd with one line `Answer:` and nothing but the answer.",
                budget=self.budget,
                reference=f"Answer: {gold}",
                data=orjson.dumps({"answer": gold, "question": question}).decode(),
            )

    def wrong(self, task: GymTask) -> list[str]:
        return list(mutants(task.reference))


def disagreement(judge: FinalAnswer, gold: str, text: str) -> str:
    """What is wrong with a final answer; empty for one that equals `gold` up to its form."""
    said = stated(text) or _boxed(text)
    if not said:
        return "no single answer is stated"
    expected = read_answer(gold)
    if (
        isinstance(expected, Value)
        and not isinstance(read_answer(said), Value)
        and any(word in said.casefold() for word in (" or ", "between", "either", "maybe", "roughly"))
    ):
        return "several answers are stated"
    return "" if judge.same(gold, said) else f"not {gold}"


def _boxed(text: str) -> str:
    """The content of the only box, as LaTeX writers state an answer."""
    if text.count("\\boxed") != 1:
        return ""
    said = final_answer(text)
    return said if len(said) <= LONGEST_LINE else ""


def _linear_system(random: Random) -> tuple[str, Fraction]:
    while True:
        a, b, c, d = (random.randint(-9, 9) for _ in range(4))
        if a * d - b * c and a and b and c and d:
            break
    x, y = random.randint(-12, 12), Fraction(random.randint(-20, 20), random.randint(1, 5))
    p, q = a * x + b * y, c * x + d * y
    return f"Solve {a}x + ({b})y = {p} and {c}x + ({d})y = {q}. What is 10x + 3y?", 10 * x + 3 * y


def _remainder(random: Random) -> tuple[str, Fraction]:
    base, power, modulus = random.randint(3, 40), random.randint(20, 400), random.randint(101, 997)
    return f"What is the remainder of {base}^{power} divided by {modulus}?", Fraction(pow(base, power, modulus))


def _chance(random: Random) -> tuple[str, Fraction]:
    red, blue, drawn = random.randint(4, 11), random.randint(4, 11), random.randint(3, 4)
    wanted = random.randint(1, drawn - 1)
    value = Fraction(comb(red, wanted) * comb(blue, drawn - wanted), comb(red + blue, drawn))
    return (
        f"A bag holds {red} red and {blue} blue marbles. {drawn} are drawn without putting any back. What is the probability "
        f"that exactly {wanted} of them are red?",
        value,
    )


def _mixture(random: Random) -> tuple[str, Fraction]:
    litres, strong, weak = random.randint(3, 40), random.randint(40, 90), random.randint(2, 20)
    target = random.randint(weak + 5, strong - 5)
    value = Fraction(litres * (strong - target), target - weak)
    return (
        f"How many litres of a {weak} % solution must be added to {litres} litres of a {strong} % solution to get one of "
        f"{target} %?",
        value,
    )


def _paths(random: Random) -> tuple[str, Fraction]:
    wide, high = random.randint(4, 8), random.randint(4, 8)
    x, y = random.randint(1, wide - 1), random.randint(1, high - 1)
    value = comb(wide + high, high) - comb(x + y, y) * comb(wide - x + high - y, high - y)
    return (
        f"On a grid one goes from (0, 0) to ({wide}, {high}) by steps of 1 to the right or up. How many ways do not pass through "
        f"({x}, {y})?",
        Fraction(value),
    )


def _series(random: Random) -> tuple[str, Fraction]:
    first, step, count = (
        random.randint(-30, 60),
        Fraction(random.randint(1, 19), random.randint(1, 4)),
        random.randint(15, 90),
    )
    return (
        f"An arithmetic sequence begins with {first} and grows by {step} each time. What is the sum of its first {count} terms?",
        count * first + step * count * (count - 1) / 2,
    )


def _divisors(random: Random) -> tuple[str, Fraction]:
    a, b, limit = random.randint(6, 30), random.randint(6, 30), random.randint(500, 5000)
    value = limit // a + limit // b - 2 * (limit // (a * b // gcd(a, b)))
    return f"How many whole numbers from 1 to {limit} are divisible by exactly one of {a} and {b}?", Fraction(value)


def _work(random: Random) -> tuple[str, Fraction]:
    a, b, c = random.sample(range(3, 30), 3)
    value = 1 / (Fraction(1, a) + Fraction(1, b) + Fraction(1, c))
    return (
        f"Three pumps fill a tank alone in {a}, {b} and {c} hours. How many minutes do they take together?",
        value * 60,
    )


KINDS = (_linear_system, _remainder, _chance, _mixture, _paths, _series, _divisors, _work)
UNITS = {"_mixture": "litres", "_work": "minutes"}
"""What a number may be said to be a number of."""

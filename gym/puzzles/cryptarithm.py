"""Cryptarithms: an addition in letters with exactly one solution."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import orjson
from tokenmill.gym.answers import LINE, stated
from tokenmill.gym.environment import Drawn, Generated
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

_SUM = re.compile(r"(\d{1,8})\s*\+\s*(\d{1,8})\s*=\s*(\d{1,8})")


class Cryptarithm(Generated):
    """Two numbers and their sum in letters; an answer is the sum in digits."""

    name = "cryptarithm"
    budget = 8192
    topics = ("arithmetic", "constraints")

    def draw(self, seed: int, number: int) -> Drawn:
        random = Random(digest(self.name, seed, number))
        while True:
            length = random.choice((3, 4))
            a, b = (random.randrange(10 ** (length - 1), 10**length) for _ in range(2))
            letters = dict(zip("0123456789", random.sample("ABCDEFGHIKLMNOPRSTUVWXYZ", 10), strict=True))
            words = ["".join(letters[digit] for digit in str(value)) for value in (a, b, a + b)]
            if len(set("".join(words))) >= 5 and count(words, 2) == 1:
                break
        prompt = (
            f"In this addition every letter stands for a digit, different letters for different digits, and no number begins "
            f"with 0:\n\n{words[0]} + {words[1]} = {words[2]}\n\nThere is one solution. Give the addition in digits, as "
            f"`number + number = sum`. {LINE}"
        )
        return Drawn(prompt, f"Answer: {a} + {b} = {a + b}", {"words": words})

    def fault(self, data: dict[str, Any], text: str) -> str:
        said = _SUM.fullmatch(stated(text))
        if not said:
            return "no addition in digits is stated"
        found: dict[str, str] = {}
        for word, digits in zip(data["words"], said.groups(), strict=True):
            if len(word) != len(digits) or digits[0] == "0":
                return f"{digits} does not fit {word}"
            for letter, digit in zip(word, digits, strict=True):
                if found.setdefault(letter, digit) != digit:
                    return f"{letter} stands for {found[letter]} and for {digit}"
        if len(set(found.values())) != len(found):
            return "two letters stand for one digit"
        a, b, total = map(int, said.groups())
        return "" if a + b == total else f"{a} + {b} is {a + b}"

    def wrong(self, task: GymTask) -> list[str]:
        words = orjson.loads(task.data)["words"]
        match = _SUM.search(task.reference)
        assert match is not None
        a, b, c = match.groups()
        made = [f"{b} + {a} = {c}"] if a != b else []
        made += [f"{int(a) + 1} + {b} = {int(c) + 1}", f"{a} + {b} = {int(c) + 1}", f"{c} - {b} = {a}", c]
        made += [f"{words[0]} + {words[1]} = {words[2]}", "0 + 0 = 0", f"{a}0 + {b}0 = {c}0"]
        return [f"Answer: {one}" for one in made if not self._also_right(words, one)]

    def _also_right(self, words: list[str], said: str) -> bool:
        """Where both numbers have the same letters, swapping them changes nothing."""
        return not self.fault({"words": words}, f"Answer: {said}")


def count(words: list[str], most: int) -> int:
    """Solutions of an addition in letters, counted up to `most`: column by column from the right."""
    a, b, total = (word[::-1] for word in words)
    first = {word[0] for word in words}
    given: dict[str, int] = {}
    taken = [False] * 10

    def column(at: int, carry: int, found: int) -> int:
        if at == len(total):
            return found + (carry == 0)
        addends = [word[at] for word in (a, b) if at < len(word)]
        return place(at, addends, 0, carry, found)

    def place(at: int, letters: list[str], which: int, partial: int, found: int) -> int:
        if which == len(letters):
            digit, carry = partial % 10, partial // 10
            letter = total[at]
            if letter in given:
                return column(at + 1, carry, found) if given[letter] == digit else found
            if taken[digit] or (digit == 0 and letter in first):
                return found
            given[letter], taken[digit] = digit, True
            found = column(at + 1, carry, found)
            del given[letter]
            taken[digit] = False
            return found
        letter = letters[which]
        if letter in given:
            return place(at, letters, which + 1, partial + given[letter], found)
        for digit in range(letter in first, 10):
            if not taken[digit]:
                given[letter], taken[digit] = digit, True
                found = place(at, letters, which + 1, partial + digit, found)
                del given[letter]
                taken[digit] = False
                if found >= most:
                    break
        return found

    return column(0, 0, 0)

"""Morse code, read and written."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
from tokenmill.gym.answers import LINE, stated
from tokenmill.gym.environment import Drawn, Generated
from tokenmill.gym.puzzles.words import ADJECTIVES, LISTS, NOUNS, PLACES
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

CODE = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", LISTS["morse"], strict=True))
"""International Morse code (ITU-R M.1677-1)."""
_SIGNS = str.maketrans({"·": ".", "•": ".", "−": "-", "–": "-", "—": "-", "_": "-"})


class Morse(Generated):
    """Messages of a few words and a number, to be decoded or encoded."""

    name = "morse"
    budget = 2048
    topics = ("decoding", "symbols")

    def draw(self, seed: int, number: int) -> Drawn:
        random = Random(digest(self.name, seed, number))
        message = f"{random.randint(12, 989)} {random.choice(ADJECTIVES)} {random.choice(NOUNS)} {random.choice(PLACES)}".upper()
        code = encoded(message)
        if number % 2:
            prompt = (
                f"Write this message in Morse code: {message}\n\nUse `.` and `-`, one space between letters and ` / ` between "
                f"words. {LINE}"
            )
            return Drawn(prompt, f"Answer: {code}", {"code": code}, kind="morse_encode")
        prompt = f"Decode this message in Morse code (` / ` stands between words):\n\n{code}\n\n{LINE}"
        return Drawn(prompt, f"Answer: {message}", {"message": message}, kind="morse_decode")

    def fault(self, data: dict[str, Any], text: str) -> str:
        said = stated(text, full_stop="code" in data)
        if "code" in data:
            return "" if " ".join(said.translate(_SIGNS).split()) == data["code"] else "not the message in Morse code"
        if not said.isascii():  # `ı` and `ſ` are I and S in capitals
            return "holds letters that Morse code does not have"
        return "" if said.upper().strip("\"'").split() == data["message"].split() else "not the message"

    def wrong(self, task: GymTask) -> list[str]:
        data = orjson.loads(task.data)
        if "code" in data:
            code = data["code"]
            made = [code.replace(" / ", " "), code[::-1], code[:-1], code + " .", code.replace(".", "-"), "... --- ..."]
            return [f"Answer: {one}" for one in made if one != code]
        words = data["message"].split()
        made = [
            " ".join(words[:-1]),
            " ".join(words[1:]),
            data["message"][:-1],
            data["message"] + "S",
            encoded(data["message"]),
        ]
        return [f"Answer: {one}" for one in made]


def encoded(message: str) -> str:
    """A message of letters and digits in Morse code, ` / ` between words."""
    return " / ".join(" ".join(CODE[letter] for letter in word) for word in message.upper().split())

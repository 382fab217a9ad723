"""A text laid out for reading its quantities: its words with their places, and which characters are read already."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import accumulate

from tokenmill.judges.facts.number_words import spelled_at
from tokenmill.judges.facts.units import CJK, units_of
from tokenmill.judges.math.lexicon import vocabulary
from tokenmill.judges.math.numerals import DIGITS

_WORD = re.compile(r"([^\W\d_]+(?:['’](?=[^\W\d_])[^\W\d_]+)?)")
_ASCII_WORD = re.compile(r"([A-Za-z]++(?:'[A-Za-z]++)?+)")
"""`_WORD` in a text of ASCII alone, in two thirds of the time."""
_URL = re.compile(r"https?://\S+|www\.\S+|\S{1,200}@\S+")
_OTHER_DIGIT = re.compile("[" + "".join(map(chr, DIGITS)) + "]")
_LETTERS = re.compile(r"[^\W\d_]+")
_ABOUT = {
    "en": vocabulary("about around nearly almost roughly approximately approx some over just circa ca close more"),
    "de": vocabulary("etwa rund ungefähr fast knapp circa ca gut über mehr als beinahe nahezu annähernd unter"),
    "fr": vocabulary("environ près presque quelque quelques plus de autour moins"),
    "es": vocabulary("unos unas casi cerca alrededor aproximadamente más de menos"),
    "ru": vocabulary("около почти примерно порядка более свыше менее приблизительно"),
}
"""Words before a number that make it an approximation."""
_CJK_ABOUT = re.compile("(?:约|約|大约|近|超过|およそ|ほぼ|약|거의|대략) ?$")


class Scan:
    """One text in one language. Numerals of other scripts are read as figures; places stay those of the text."""

    def __init__(self, text: str, language: str) -> None:
        self.text = text.translate(DIGITS) if not text.isascii() and _OTHER_DIGIT.search(text) else text
        self.language, self.units = language, units_of(language)
        self.cjk = language in CJK
        parts = (_ASCII_WORD if text.isascii() else _WORD).split(self.text)  # gap, word, gap, word, ..., gap
        ends = list(accumulate(map(len, parts)))
        self.raw, self.starts, self.ends = parts[1::2], ends[0::2], ends[1::2]
        self.words = " ".join(self.raw).lower().split(" ") if self.raw else []
        self._taken = bytearray(len(self.text))
        if "@" in text or "://" in text or "www." in text:
            for m in _URL.finditer(self.text):
                self.take(*m.span())

    def take(self, start: int, end: int) -> None:
        """Mark characters as read."""
        self._taken[start:end] = b"\1" * (end - start)

    def free(self, start: int, end: int) -> bool:
        """Whether nothing between the two has been read."""
        return self._taken.find(1, start, end) < 0

    def joined(self, at: int, used: int) -> bool:
        """Whether only spaces, hyphens and commas stand between the words from `at` on."""
        places = zip(self.ends[at : at + used], self.starts[at + 1 : at + used], strict=False)
        return all(not self.text[end:start].strip(" -\u00a0,") for end, start in places)

    def cardinal(self, word: str) -> float | None:
        """The number that one word or figure is."""
        if word.isdecimal():
            return float(word) if len(word) < 9 else None
        found = spelled_at([word.lower()], 0, self.language)
        return found[0].value if found and not found[0].ordinal else None

    def about(self, start: int) -> bool:
        """Whether what begins at `start` is told as an approximation."""
        before = self.text[max(0, start - 24) : start].lower()
        if self.cjk:
            return bool(_CJK_ABOUT.search(before))
        near = _ABOUT.get(self.language, frozenset())
        return not near.isdisjoint(_LETTERS.findall(before)[-2:]) or before.rstrip().endswith(("~", "≈"))


def unit_head(word: str) -> str:
    """A unit's first word as it is looked up."""
    return word.partition("-")[0].rstrip(".,;:)!?").lower()


@lru_cache(maxsize=16)
def unit_heads(language: str) -> frozenset[str]:
    """The first words of units, in small letters."""
    return frozenset(unit_head(unit.partition(" ")[0]) for unit in units_of(language))

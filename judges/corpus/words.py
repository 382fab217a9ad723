"""One tokenisation for all that looks at the words of a document: filters, signatures, n-gram lookups.

words = Words("The cat sat on the mat.")
words.count, words.hashes, words.grams(3)

Everything is arrays over code points, so that a document of 3,000 characters takes some 0.1 ms.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_KNOWN = 0x20000
"""Code points beyond are ideographs, but for a few marks and private ones."""
OTHER, WORD, IDEOGRAPH = 0, 1, 2
_PRIME, _GRAM = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_INVERSE = pow(_PRIME, -1, 1 << 64)
_IDEOGRAPHS = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
"""Scripts without spaces between words, of which each character counts as one: kana and Han."""


class _Tables:
    """What every code point is, made once per process."""

    _kinds: NDArray[np.uint8] | None = None
    _lower: NDArray[np.uint32] | None = None
    _powers: Hashes = np.ones(1, np.uint64)
    _inverses: Hashes = np.ones(1, np.uint64)

    @classmethod
    def kinds(cls) -> NDArray[np.uint8]:
        if cls._kinds is None:
            kinds = np.full(_KNOWN + 1, OTHER, np.uint8)
            for point in range(_KNOWN):
                char = chr(point)
                if char.isalnum() or unicodedata.category(char)[0] == "M":
                    kinds[point] = WORD
            for first, last in _IDEOGRAPHS:
                kinds[first : min(last, _KNOWN) + 1] = IDEOGRAPH
            cls._kinds = kinds
        return cls._kinds

    @classmethod
    def lower(cls) -> NDArray[np.uint32]:
        if cls._lower is None:
            folded = np.arange(_KNOWN + 1, dtype=np.uint32)
            for point in range(_KNOWN):
                small = chr(point).lower()
                if len(small) == 1:
                    folded[point] = ord(small)
            cls._lower = folded
        return cls._lower

    @classmethod
    def powers(cls, length: int) -> tuple[Hashes, Hashes]:
        """Powers of the base and of its inverse modulo 2**64, at least so many."""
        if len(cls._powers) < length:
            size = max(length, 1 << 14)
            for name, base in (("_powers", _PRIME), ("_inverses", _INVERSE)):
                factors = np.full(size, base, np.uint64)
                factors[0] = 1
                setattr(cls, name, np.cumprod(factors, dtype=np.uint64))
        return cls._powers[:length], cls._inverses[:length]


class Words:
    """The words of a text: runs of letters, marks and digits in lower case; of scripts without spaces, characters.

    Attributes:
        text: the text.
        starts, ends: (n,) where each word stands, in characters.
        hashes: (n,) 64 bits of each word, the same in every process.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        points = code_points(text)
        known = np.minimum(points, _KNOWN)
        kinds = _Tables.kinds()[known]
        inside = kinds != OTHER
        before = np.empty(len(kinds), np.uint8)
        before[:1], before[1:] = OTHER, kinds[:-1]
        # A word begins where its kind does, and at each ideograph.
        begins = inside & ((before != kinds) | (kinds == IDEOGRAPH))
        self.starts = np.flatnonzero(begins)
        stops = np.empty(len(kinds) + 1, bool)
        stops[0], stops[-1] = False, bool(len(inside)) and bool(inside[-1])
        stops[1:-1] = (before[1:] != OTHER) & ((kinds[1:] != before[1:]) | (kinds[1:] == IDEOGRAPH))
        self.ends = np.flatnonzero(stops)
        folded = np.where(points < _KNOWN, _Tables.lower()[known], points).astype(np.uint64)
        powers, inverses = _Tables.powers(len(points) + 1)
        sums = np.empty(len(points) + 1, np.uint64)
        sums[0] = 0
        np.cumsum((folded + np.uint64(1)) * powers[:-1], out=sums[1:])
        self.hashes = mixed((sums[self.ends] - sums[self.starts]) * inverses[self.starts])
        self._grams: dict[int, Hashes] = {1: self.hashes}

    @property
    def count(self) -> int:
        return len(self.starts)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) characters of each word."""
        return self.ends - self.starts

    def grams(self, n: int) -> Hashes:
        """(max(0, count - n + 1),) hashes of all runs of `n` words, rolled from those of n - 1. Mixed they are not: whoever
        takes their lowest does that first."""
        if n not in self._grams:
            shorter = self.grams(n - 1)
            last = self.hashes[n - 1 :]
            self._grams[n] = shorter[: len(last)] * np.uint64(_GRAM) + last
        return self._grams[n]

    def span(self, first: int, last: int) -> str:
        """The text from the word `first` through the word `last`."""
        return self.text[self.starts[first] : self.ends[last]]


def code_points(text: str) -> NDArray[np.uint32]:
    """(characters,) of a text; lone surrogates are kept."""
    native = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"
    return np.frombuffer(text.encode(native, "surrogatepass"), np.uint32)


def mixed(values: Hashes) -> Hashes:
    """The values, all bits of each depending on all its bits (the finaliser of SplitMix64)."""
    made: Any = values ^ (values >> np.uint64(30))
    made *= np.uint64(0xBF58476D1CE4E5B9)
    made ^= made >> np.uint64(27)
    made *= np.uint64(0x94D049BB133111EB)
    made ^= made >> np.uint64(31)
    return made

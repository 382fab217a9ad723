"""One tokenisation for all that looks at the words of a document: filters, signatures, n-gram lookups.

words = Words("The cat sat on the mat.")
words.count, words.hashes, words.grams(3)
words.tokens.count                        # marks count as well there

Everything is arrays over code points, so that a document of 3,000 characters takes some 0.1 ms.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_KNOWN = 0x20000
"""Code points beyond are ideographs, but for a few marks and private ones."""
OTHER, WORD, IDEOGRAPH = 0, 1, 2
_CUTS = np.array([chr(point) in ":<>=/" for point in range(0x2018)])
_DASHES = np.array([chr(point) in "-–—~" for point in range(0x2018)])
"""By code point, signs that part two words between which they stand."""
_PRIME, _GRAM = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_INVERSE = pow(_PRIME, -1, 1 << 64)
_IDEOGRAPHS = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
"""Scripts without spaces between words, of which each character counts as one: kana and Han."""


class _Tables:
    """What every code point is, made once per process."""

    _kinds: NDArray[np.uint8] | None = None
    _lower: NDArray[np.uint32] | None = None
    _spaces: NDArray[np.bool_] | None = None
    _letters: NDArray[np.bool_] | None = None
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
    def spaces(cls) -> NDArray[np.bool_]:
        if cls._spaces is None:
            cls._spaces = np.array([chr(point).isspace() for point in range(_KNOWN)] + [False])
        return cls._spaces

    @classmethod
    def letters(cls) -> NDArray[np.bool_]:
        if cls._letters is None:
            cls._letters = np.array([chr(point).isalpha() for point in range(_KNOWN)] + [True])
        return cls._letters

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
    """The words of a text: runs of letters, marks and digits in lower case, with apostrophes inside and points inside numbers; of
    scripts without spaces, characters.

    Attributes:
        text: the text.
        starts, ends: (n,) where each word stands, in characters.
        hashes: (n,) 64 bits of each word, the same in every process.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._points = code_points(text)
        self._kinds = _kinds(self._points)
        self._sums: Hashes | None = None
        inside = self._kinds != OTHER
        before = _shifted(self._kinds)
        # A word begins where its kind does, and at each ideograph.
        edge = (before != self._kinds) | (self._kinds == IDEOGRAPH)
        self._cut(inside & edge, edge & (before != OTHER), bool(inside[-1:].any()))

    def _cut(self, begins: NDArray[np.bool_], ends: NDArray[np.bool_], open_end: bool) -> None:
        """Take the pieces that begin and end (before a place) there."""
        self.starts = np.flatnonzero(begins)
        stops = np.flatnonzero(ends)
        self.ends = np.append(stops, len(begins)) if open_end else stops
        if self._sums is None:
            known = np.minimum(self._points, _KNOWN)
            folded = np.where(self._points < _KNOWN, _Tables.lower()[known], self._points).astype(np.uint64)
            powers, _ = _Tables.powers(len(folded) + 1)
            self._sums = np.zeros(len(folded) + 1, np.uint64)
            np.cumsum((folded + np.uint64(1)) * powers[:-1], out=self._sums[1:])
        _, inverses = _Tables.powers(len(self._sums))
        self.hashes = mixed((self._sums[self.ends] - self._sums[self.starts]) * inverses[self.starts])
        self._grams: dict[int, Hashes] = {1: self.hashes}

    @cached_property
    def tokens(self) -> Words:
        """The same text cut as tokenisers of English do: marks at the ends of what stands between spaces are tokens, marks
        within it join it (`foo(bar`, `std::io`), but for dashes and a few signs between words."""
        made = Words.__new__(Words)
        points, known = self._points, np.minimum(self._points, _KNOWN)
        made.text, made._points, made._sums = self.text, points, self._sums
        solid = ~_Tables.spaces()[known]
        made._kinds = kinds = _joined(points, self._kinds, solid)
        before, last = _shifted(kinds), np.empty(len(points), np.uint32)
        last[:1], last[1:] = 0, points[:-1]
        after_solid = np.empty(len(points), bool)
        after_solid[:1], after_solid[1:] = False, solid[:-1]
        edge = (before != kinds) | (kinds == IDEOGRAPH) | ((kinds == OTHER) & ((last != points) | (points != 0x2E)))
        edge[:1] = True
        made._cut(solid & edge, edge & after_solid, bool(solid[-1:].any()))
        return made

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

    @cached_property
    def lettered(self) -> int:
        """How many of them have a letter: numbers and marks have none."""
        return int((self._per_piece(_Tables.letters()[np.minimum(self._points, _KNOWN)]) > 0).sum())

    @cached_property
    def worded(self) -> NDArray[np.bool_]:
        """(n,) which of them have a letter or digit: all words, and of tokens those that are no marks."""
        return self._per_piece(self._kinds != OTHER) > 0

    def _per_piece(self, marked: NDArray[np.bool_]) -> NDArray[np.int64]:
        sums = np.zeros(len(marked) + 1, np.int64)
        np.cumsum(marked, out=sums[1:])
        return sums[self.ends] - sums[self.starts]

    def __contains__(self, word: str) -> bool:
        """Whether a word, in lower case, is among them."""
        return bool((self.hashes == hash_of(word)).any())

    def span(self, first: int, last: int) -> str:
        """The text from the word `first` through the word `last`."""
        return self.text[self.starts[first] : self.ends[last]]


def code_points(text: str) -> NDArray[np.uint32]:
    """(characters,) of a text; lone surrogates are kept."""
    native = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"
    return np.frombuffer(text.encode(native, "surrogatepass"), np.uint32)


@cache
def hash_of(word: str) -> np.uint64:
    """The hash that a word has in every text."""
    (value,) = Words(word).hashes
    return value


def _shifted(kinds: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The kind before each place."""
    before = np.empty(len(kinds), np.uint8)
    before[:1], before[1:] = OTHER, kinds[:-1]
    return before


def _kinds(points: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """What each character is: of its own, or as part of a word around it."""
    kinds = _Tables.kinds()[np.minimum(points, _KNOWN)]
    between = (kinds[:-2] == WORD) & (kinds[2:] == WORD)
    mark = points[1:-1]
    apostrophe = between & ((mark == 0x27) | (mark == 0x2019))
    digits = (points >= 0x30) & (points <= 0x39)
    point = ((mark == 0x2E) | (mark == 0x2C)) & digits[:-2] & digits[2:]
    kinds[1:-1][apostrophe | point] = WORD
    return kinds


def _joined(points: NDArray[np.uint32], kinds: NDArray[np.uint8], solid: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The kinds with those marks as part of a word that stand between words without a space, where none of them cuts."""
    marks = (kinds == OTHER) & solid
    edges = np.flatnonzero(np.diff(marks.astype(np.int8), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    inner = (starts > 0) & (ends < len(kinds))
    starts, ends = starts[inner], ends[inner]
    before, after = starts - 1, np.minimum(ends, len(kinds) - 1)
    sign = points[starts]
    few = np.minimum(sign, 0x2017)
    letters = _Tables.letters()[np.minimum(points, _KNOWN)]
    cuts = (ends - starts == 1) & letters[after] & _CUTS[few]
    cuts |= _DASHES[few] & letters[before] & letters[after]
    cuts |= (sign == 0x2E) & (ends - starts >= 3) | (sign == 0x2026)  # an ellipsis
    cuts |= (sign == 0x2C) & letters[before]
    join = (kinds[before] == WORD) & (kinds[after] == WORD) & ~cuts
    turns = np.zeros(len(kinds) + 1, np.int8)
    turns[starts[join]], turns[ends[join]] = 1, -1
    return np.where(np.cumsum(turns[:-1]) > 0, np.uint8(WORD), kinds)


def mixed(values: Hashes) -> Hashes:
    """The values, all bits of each depending on all its bits (the finaliser of SplitMix64)."""
    made: Any = values ^ (values >> np.uint64(30))
    made *= np.uint64(0xBF58476D1CE4E5B9)
    made ^= made >> np.uint64(27)
    made *= np.uint64(0x94D049BB133111EB)
    made ^= made >> np.uint64(31)
    return made

"""Locality-sensitive hashing, columnar: fingerprints are cut into bands, and those that share one are compared by sketches.

A key is (kind, band, partition); under it stand blocks of many tools at once, as arrays, so that a grouping moves few
elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from tokenmill.tools_repo.specs.likeness import PLANES, Fingerprint

BANDS, ROWS = 25, 5
"""Keys from a MinHash signature, and values in each: at a similarity of 0.7 a pair shares one with p = 0.99."""
SIGN_BANDS = 32
"""Keys from an embedding; the bits in each grow with the number of tools, so that groups stay small."""
_MIN_BITS, _MAX_BITS = 8, PLANES // SIGN_BANDS
WINDOW = 48
"""In a group, each tool is compared with so many that follow it, and with the first: large groups cost no square."""
_SHORT = 64
"""Values of a signature, one byte of each, that travel with a key. A pair needs about half of them to go on."""
_MIN_AGREE = 30
_MAX_APART = int(PLANES * 0.26)
"""Signs in which two embeddings may differ to go on: a cosine of 0.78 differs in 110 +- 9 of 512."""
_TOLD, _BLOOM = 4, 512
"""Objects, and bits of a Bloom filter of all words, that travel too: a pair ends where one tells of what the other lacks."""
_PARTITIONS = 8


@dataclass(frozen=True)
class _Block:
    """Some tools under one partition of one band; `values` are the band's, the rest as in `_Sketches`."""

    values: np.ndarray
    sketches: _Sketches = field(repr=False)


@dataclass(frozen=True)
class _Sketches:
    """What travels of n tools."""

    keys: np.ndarray
    """(n,)"""
    marks: np.ndarray
    """(n, bytes), MinHash values or signs."""
    told: np.ndarray
    """(n, _TOLD), bits of the Bloom filter that the told objects take; -1 for none."""
    bloom: np.ndarray
    """(n, _BLOOM / 8), of all words."""

    def __getitem__(self, rows: np.ndarray) -> _Sketches:
        return _Sketches(self.keys[rows], self.marks[rows], self.told[rows], self.bloom[rows])

    @classmethod
    def of(cls, prints: list[Fingerprint], marks: np.ndarray) -> _Sketches:
        told = np.full((len(prints), _TOLD), -1, np.int16)
        words = np.zeros((len(prints), _BLOOM), bool)
        for row, mine in enumerate(prints):
            some = mine.told[:_TOLD] % _BLOOM
            told[row, : some.size] = some
            words[row, mine.words % _BLOOM] = True
        return cls(np.array([p.key for p in prints], np.uint64), marks, told, np.packbits(words, axis=1))

    @classmethod
    def join(cls, parts: list[_Sketches]) -> _Sketches:
        names = ("keys", "marks", "told", "bloom")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def tell_more_than(self, others: _Sketches) -> np.ndarray:
        """(n,), whether an object that a tool tells of is not among the words of the other."""
        bits = np.maximum(self.told, 0)
        bytes_ = np.take_along_axis(others.bloom, bits >> 3, axis=1)
        present = (bytes_ >> (7 - (bits & 7)).astype(np.uint8)) & 1
        return ((present == 0) & (self.told >= 0)).any(axis=1)


class CutBands(beam.DoFn):
    """Batches of fingerprints -> ((kind, band, partition), _Block)."""

    def process(self, batch: list[Fingerprint], count: int) -> Iterator[tuple[tuple[str, int, int], _Block]]:
        minhash = np.stack([p.minhash for p in batch])
        sketches = _Sketches.of(batch, (minhash[:, :_SHORT] & 0xFF).astype(np.uint8))
        for band in range(BANDS):
            yield from _partitions("words", band, _mix(minhash[:, band * ROWS : (band + 1) * ROWS]), sketches)
        meant = [p for p in batch if p.sketch is not None]
        if meant:
            marks = np.stack([p.sketch for p in meant if p.sketch is not None])
            sketches, signs = _Sketches.of(meant, marks), np.unpackbits(marks, axis=1)
            names = np.array([p.name_key for p in meant], np.uint64)
            yield from _partitions("name", 0, names[names > 0], sketches[names > 0])
            bits = min(_MAX_BITS, max(_MIN_BITS, int(np.ceil(np.log2(max(2, count)))) - 2))
            for band in range(SIGN_BANDS):
                mine = signs[:, band * _MAX_BITS : band * _MAX_BITS + bits].astype(np.uint64)
                values = mine @ (np.uint64(1) << np.arange(bits, dtype=np.uint64))
                yield from _partitions("meaning", band, values, sketches)


def _mix(columns: np.ndarray) -> np.ndarray:
    """One 64-bit value for each row of integers."""
    mixed = np.zeros(len(columns), np.uint64)
    for column in columns.T.astype(np.uint64):
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _partitions(
    kind: str, band: int, values: np.ndarray, sketches: _Sketches
) -> Iterator[tuple[tuple[str, int, int], _Block]]:
    parts = values % np.uint64(_PARTITIONS)
    for part in np.unique(parts):
        rows = parts == part
        yield (kind, band, int(part)), _Block(values[rows], sketches[rows])


def close_pairs(where: tuple[str, int, int], blocks: Iterable[_Block]) -> Iterator[tuple[int, int]]:
    """(first, later) of tools with the same value whose sketches are close."""
    blocks = list(blocks)
    values = np.concatenate([block.values for block in blocks])
    sketches = _Sketches.join([block.sketches for block in blocks])
    order = np.lexsort((sketches.keys, values))
    values, sketches = values[order], sketches[order]
    leader = np.searchsorted(values, values)  # position of the first of each group
    later = np.flatnonzero(leader < np.arange(len(values)))
    yield from _close(where[0], sketches, leader[later], later)
    for step in range(1, WINDOW + 1):
        first = np.flatnonzero(values[:-step] == values[step:])
        if not first.size:
            return
        first = first[leader[first] < first]  # the leader's pairs are done
        yield from _close(where[0], sketches, first, first + step)


def _close(kind: str, sketches: _Sketches, first: np.ndarray, later: np.ndarray) -> Iterator[tuple[int, int]]:
    for start in range(0, len(first), 65_536):
        a, b = sketches[first[start : start + 65_536]], sketches[later[start : start + 65_536]]
        if kind == "words":
            close = (a.marks == b.marks).sum(axis=1) >= _MIN_AGREE
        else:
            close = np.bitwise_count(a.marks ^ b.marks).sum(axis=1) <= _MAX_APART
        close &= ~(a.tell_more_than(b) | b.tell_more_than(a))
        yield from zip(a.keys[close].tolist(), b.keys[close].tolist(), strict=True)

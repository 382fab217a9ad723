"""Near-duplicates among any number of tools, found by keyed groupings: no index of them all stands in one process.

    kept, duplicates = specs | DropDuplicates(Likeness())

Locality-sensitive hashing, columnar: each tool gets 25 keys from its MinHash signature (Broder 1997), 32 from the signs
of its embedding (Charikar 2002) and one from what its name says. Tools that share a key are compared by short sketches,
pairs that survive by the full `Likeness`. Of each pair the tool that comes first in preference is kept, unless it is
itself a duplicate: the greedy choice in order of preference, whatever the runner, the order or the workers. (Kimi K2
report, section 3.1.1.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np

from schemas.tools import ToolSpec
from tools_repo.likeness import PLANES, Fingerprint, Likeness

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
ROUNDS = 4
"""Passes over the found pairs that settle chains of duplicates; what a longer chain leaves open is kept."""
KEPT, DROPPED, OPEN = "kept", "dropped", "open"


@dataclass(frozen=True)
class Duplicate:
    """A tool that repeats a kept one."""

    tool: ToolSpec
    of: str
    """`id` of the kept tool."""
    similarity: float
    """1.0 for an exact duplicate."""


class Pair(NamedTuple):
    """Two tools found to be one; `first` is preferred."""

    first: int
    later: int
    first_id: str
    score: float


class DropDuplicates(beam.PTransform):
    """ToolSpec (ids unique) -> (kept: ToolSpec, duplicates: Duplicate)."""

    def __init__(self, likeness: Likeness | None = None) -> None:
        super().__init__()
        self.likeness = likeness or Likeness()

    def expand(self, tools: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        prints = (
            tools
            | "Spread" >> beam.Reshuffle()
            | "Batch tools" >> beam.BatchElements(min_batch_size=16, max_batch_size=512)
            | "Fingerprint" >> beam.ParDo(_TakeFingerprints(self.likeness))
        )
        distinct = (
            prints
            | "By content" >> beam.Map(lambda row: (row[0].content, row))
            | "Same content" >> beam.GroupByKey()
            | "First of each" >> beam.ParDo(_FirstOfEach()).with_outputs(DROPPED, main=KEPT)
        )
        statuses = distinct[KEPT] | FindPairs(self.likeness) | Settle()
        joined = {
            "tools": distinct[KEPT] | "Key tools" >> beam.Map(lambda row: (row[0].key, row[1])),
            "copies": distinct[DROPPED],
            "status": statuses | "Decided" >> beam.Filter(lambda status: status[1][0] == DROPPED),
        }
        parted = joined | "Join" >> beam.CoGroupByKey() | beam.ParDo(_Part()).with_outputs(DROPPED, main=KEPT)
        return parted[KEPT], parted[DROPPED]


class FindPairs(beam.PTransform):
    """(Fingerprint, anything) -> Pair, each once."""

    def __init__(self, likeness: Likeness) -> None:
        super().__init__()
        self.likeness = likeness

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        prints = rows | "Fingerprints" >> beam.Map(lambda row: row[0])
        count = beam.pvalue.AsSingleton(prints | beam.combiners.Count.Globally())
        candidates = (
            prints
            | "Batch" >> beam.BatchElements(min_batch_size=256, max_batch_size=2048)
            | "Cut into bands" >> beam.ParDo(_CutBands(), count)
            | "Same band" >> beam.GroupByKey()
            | "Compare sketches" >> beam.FlatMapTuple(_close_pairs)
        )
        firsts = {"prints": prints | "By key" >> beam.Map(lambda p: (p.key, p)), "later": candidates}
        with_first = firsts | "Fetch first" >> beam.CoGroupByKey() | "Hand on" >> beam.FlatMapTuple(_to_later)
        laters = {"prints": prints | "By key again" >> beam.Map(lambda p: (p.key, p)), "firsts": with_first}
        return laters | "Fetch later" >> beam.CoGroupByKey() | "Compare" >> beam.FlatMap(_compare, self.likeness)


class Settle(beam.PTransform):
    """Pair -> (key, (`kept` | `dropped` | `open`, first, its id, score)) of every tool that is the later of some pair."""

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        by_first = pairs | "By first" >> beam.Map(lambda pair: (pair.first, pair))
        statuses = None
        for turn in range(ROUNDS):
            known = (
                pairs | "All open" >> beam.Map(lambda pair: (pair.later, (OPEN, 0, "", 0.0)))
                if statuses is None
                else statuses
            )
            statuses = (
                {"pairs": by_first, "status": known}
                | f"Status of first {turn}" >> beam.CoGroupByKey()
                | f"To later {turn}" >> beam.FlatMapTuple(_status_to_later)
                | f"By later {turn}" >> beam.GroupByKey()
                | f"Settle {turn}" >> beam.MapTuple(_settle)
            )
        return statuses


class _TakeFingerprints(beam.DoFn):
    def __init__(self, likeness: Likeness) -> None:
        self.likeness = likeness

    def setup(self) -> None:
        self.loop = asyncio.new_event_loop()

    def process(self, batch: list[ToolSpec]) -> Iterator[tuple[Fingerprint, ToolSpec]]:
        prints = self.loop.run_until_complete(self.likeness.fingerprints(batch))
        yield from zip(prints, batch, strict=True)

    def teardown(self) -> None:
        self.loop.close()


class _FirstOfEach(beam.DoFn):
    """Tools with the same content -> the preferred one, and (its key, copy) of every other."""

    def process(self, row: tuple[int, Iterable[tuple[Fingerprint, ToolSpec]]]) -> Iterator[object]:
        best: tuple[Fingerprint, ToolSpec] | None = None
        for mine in row[1]:
            if best is None or mine[0].key < best[0].key:
                best = mine
        yield best
        for mine in row[1]:
            if mine[0].key != best[0].key:
                yield beam.pvalue.TaggedOutput(DROPPED, (best[0].key, mine[1]))


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


class _CutBands(beam.DoFn):
    """Batches of fingerprints -> ((kind, band, partition), _Block)."""

    def process(self, batch: list[Fingerprint], count: int) -> Iterator[tuple[tuple[str, int, int], _Block]]:
        minhash = np.stack([p.minhash for p in batch])
        sketches = _Sketches.of(batch, (minhash[:, :_SHORT] & 0xFF).astype(np.uint8))
        for band in range(BANDS):
            yield from _partitions("words", band, _mix(minhash[:, band * ROWS : (band + 1) * ROWS]), sketches)
        meant = [p for p in batch if p.sketch is not None]
        if meant:
            marks = np.stack([p.sketch for p in meant])
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


def _close_pairs(where: tuple[str, int, int], blocks: Iterable[_Block]) -> Iterator[tuple[int, int]]:
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


def _to_later(key: int, found: dict[str, Iterable]) -> Iterator[tuple[int, Fingerprint]]:
    laters = set(found["later"])
    for first in found["prints"]:
        yield from ((later, first) for later in sorted(laters))


def _compare(row: tuple[int, dict[str, Iterable]], likeness: Likeness) -> Iterator[Pair]:
    _, found = row
    firsts = {first.key: first for first in found["firsts"]}
    for later in found["prints"]:
        for first in firsts.values():
            if score := likeness.score(first, later):
                yield Pair(first.key, later.key, first.id, score)


Status = tuple[str, int, str, float]


def _status_to_later(first: int, found: dict[str, Iterable]) -> Iterator[tuple[int, tuple[str, Pair]]]:
    status = next((status[0] for status in found["status"]), KEPT)  # never the later of a pair: nothing precedes it
    for pair in found["pairs"]:
        yield pair.later, (status, pair)


def _settle(key: int, firsts: Iterable[tuple[str, Pair]]) -> tuple[int, Status]:
    firsts = list(firsts)
    kept = [pair for status, pair in firsts if status == KEPT]
    if kept:
        best = max(kept, key=lambda pair: (pair.score, -pair.first))
        return key, (DROPPED, best.first, best.first_id, best.score)
    return key, (OPEN if any(status == OPEN for status, _ in firsts) else KEPT, 0, "", 0.0)


class _Part(beam.DoFn):
    """One distinct tool with its exact copies and its status -> the tool or a Duplicate, and a Duplicate of each copy."""

    def process(self, row: tuple[int, dict[str, Iterable]]) -> Iterator[object]:
        _, found = row
        tool = next(iter(found["tools"]))
        status = next(iter(found["status"]), None)
        if status is None:
            yield tool
            of, score = tool.id, 1.0
        else:
            _, _, of, score = status
            yield beam.pvalue.TaggedOutput(DROPPED, Duplicate(tool, of, score))
        for copy in found["copies"]:
            yield beam.pvalue.TaggedOutput(DROPPED, Duplicate(copy, of, score))

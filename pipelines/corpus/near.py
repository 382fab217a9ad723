"""Pairs of documents that are nearly the same: they share a band of their MinHash values, and their sketches agree.

Signatures that share a band meet as records of 16 bytes. Of each group the preferred document, and the one before in order
of preference, are the only ones that a document is compared with: no square. Sketches stay in their portions' files and
travel for such pairs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from tokenmill.judges.corpus import signatures
from tokenmill.judges.corpus.words import mixed
from tokenmill.pipelines.corpus.copies import DROP, RANK_MASK, dead_rows
from tokenmill.pipelines.corpus.packed import (
    MOST,
    Block,
    Gather,
    Records,
    by_portion,
    by_row,
    cut,
    distinct,
    each,
    parts,
    read,
)
from tokenmill.pipelines.corpus.prints import Beside, prints_of, records_of

THRESHOLD = 0.75
"""Similarity from which a document counts as a repetition. A sketch errs by .04, and what is dropped should be above .7."""
_BAND = np.dtype([("value", "<u8"), ("row", "<u8")])
"""48 bits of a band with the document's rank, and its row."""
_PAIR = np.dtype([("first", "<u8"), ("later", "<u8")])
_FETCHED = np.dtype([("first", "<u8"), ("later", "<u8"), ("sketch", "u1", signatures.PERMUTATIONS)])
_RANK = np.uint64(16)
_LOW = np.uint64(0xFFFFFFFF)


class FindNear(beam.PTransform[Any, Any]):
    """(parts, what is dropped already by portion, …) -> blocks of `DROP` by hash of the preferred row: (row, preferred row,
    equal bytes) of every pair whose sketches tell at least the threshold.

    Args:
        count: of documents, a singleton.
    """

    def __init__(self, count: Any, threshold: float = THRESHOLD) -> None:
        super().__init__()
        self.count = count
        self.threshold = threshold

    def expand(self, given: tuple[beam.PCollection[Any], ...]) -> beam.PCollection[Any]:
        parts, *_ = given
        pairs = (
            given
            | "Alive" >> Beside()
            | "Cut into bands" >> beam.ParDo(_Cut(), self.count).with_output_types(Block)
            | "Same band" >> beam.GroupByKey()
            | "Pair" >> each(pairs_of)
        )
        fetched = (parts, pairs) | "To the first" >> Beside() | "Fetch" >> each(fetch)
        return (
            (parts, fetched) | "To the later" >> Beside() | "Compare" >> each(compare, self.threshold, count=self.count)
        )


class _Cut(Gather):
    def process(self, beside: tuple[int, Iterable[bytes]], count: int) -> Iterator[Block]:
        portion, values = beside
        prints = prints_of(values)
        bands, rank = prints["bands"], prints.rank
        rows = np.flatnonzero(~dead_rows(values, len(rank)) & (prints["words"] > 0))
        for band in range(signatures.BANDS):
            records = np.empty(len(rows), _BAND)
            records["value"] = (bands[rows, band] & ~RANK_MASK) | rank[rows]
            records["row"] = (np.uint64(portion) << np.uint64(32)) | rows.astype(np.uint64)
            self.hold((band, parts(count)), records)
        if self.full:
            yield from self.flush()

    def blocks(self, kind: tuple[int, int], records: Records) -> Iterator[Block]:
        band, several = kind
        for part, block in cut((records["value"] >> _RANK) % np.uint64(several), records):
            yield band << 32 | part, block


def pairs_of(_: int, blocks: Iterable[bytes]) -> Iterator[Block]:
    """Blocks of (preferred, later) rows that share a value, by portion of the preferred.

    Where one value is so frequent that the group is large, its first row is found in one pass, and the rest is paired with
    it part by part.
    """
    count = sum(len(block) for block in blocks) // _BAND.itemsize
    several = -(-count // MOST)
    firsts = np.empty(0, _BAND)
    if several > 1:
        for block in read(blocks, _BAND):
            firsts = distinct(np.concatenate([firsts, block]), "value", "row")
            firsts = firsts[_leaders(firsts) == np.arange(len(firsts))]
    for number in range(several):
        mine = [block[mixed(block["row"]) % np.uint64(several) == number] for block in read(blocks, _BAND)]
        made = _paired(distinct(np.concatenate([firsts, *mine]), "value", "row"))
        yield from by_portion(made["first"], made)


def _leaders(records: Records) -> np.ndarray:
    """(n,) where the first record with the same value stands."""
    value = records["value"] >> _RANK
    return np.searchsorted(value, value)


def _paired(records: Records) -> Records:
    """Each of the records, in order of value, rank and row, with the first of its value and with the one before it."""
    leader, places = _leaders(records), np.arange(len(records))
    later = np.flatnonzero(leader < places)
    second = later[leader[later] < later - 1]
    made = np.empty(len(later) + len(second), _PAIR)
    made["first"] = records["row"][np.concatenate([leader[later], second - 1])]
    made["later"] = records["row"][np.concatenate([later, second])]
    return made


def fetch(portion: int, values: Iterable[bytes]) -> Iterator[Block]:
    """Pairs with the sketches of their preferred rows, which are of this portion, by portion of the later."""
    sketches: Any = None
    for pairs in _some(records_of(values)):
        if sketches is None:
            sketches = prints_of(values)["sketch"]
        made = np.empty(len(pairs), _FETCHED)
        made["first"], made["later"] = pairs["first"], pairs["later"]
        made["sketch"] = sketches[(pairs["first"] & _LOW).astype(np.int64)]
        yield from by_portion(made["later"], made)


def _some(blocks: Iterable[bytes]) -> Iterator[Records]:
    """Different pairs, many at a time."""
    held: list[Records] = []
    for block in read(blocks, _PAIR):
        held.append(block)
        if sum(map(len, held)) > MOST:
            held = [distinct(np.concatenate(held), "first", "later")]
            if len(held[0]) > MOST // 2:
                yield held.pop()
    if held:
        yield distinct(np.concatenate(held), "first", "later")


def compare(portion: int, values: Iterable[bytes], threshold: float, count: int) -> Iterator[Block]:
    """Pairs that are close, by hash of their preferred rows; the later ones are of this portion."""
    sketches: Any = None
    for block in records_of(values):
        if sketches is None:
            sketches = prints_of(values)["sketch"]
        fetched = np.frombuffer(block, _FETCHED)
        same = (fetched["sketch"] == sketches[(fetched["later"] & _LOW).astype(np.int64)]).sum(axis=1)
        close = signatures.similarity(same.astype(np.uint16)) >= threshold
        made = np.empty(int(close.sum()), DROP)
        made["row"], made["of"], made["same"] = fetched["later"][close], fetched["first"][close], same[close]
        yield from by_row(made["of"], made, parts(count))

"""Documents with the same address, or the same text: of each group the preferred one stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from tokenmill.pipelines.corpus.packed import MOST, Block, Gather, Records, by_portion, cut, distinct, each, parts, read
from tokenmill.pipelines.corpus.prints import prints_of, records_of

DROP = np.dtype([("row", "<u8"), ("of", "<u8"), ("same", "<u2")])
"""A row, the row that it repeats, and the equal bytes of their sketches: of a row that is dropped."""
NOT_COMPARED, EQUAL = 0xFFFF, 0xFFFE
"""In the place of equal bytes: of rows with one address, and with one text."""
_COPY = np.dtype([("hash", "<u8"), ("more", "<u8"), ("row", "<u8")])
"""112 bits of a hash, 16 of a rank, and the row."""
_RANK = np.uint64(16)
RANK_MASK = np.uint64(0xFFFF)


def dead_rows(values: Iterable[bytes], count: int) -> np.ndarray:
    """(count,), whether each document of a portion is dropped already."""
    dead = np.zeros(count, bool)
    for block in records_of(values):
        rows = np.frombuffer(block, DROP)["row"]
        dead[(rows & np.uint64(0xFFFFFFFF)).astype(np.int64)] = True
    return dead


class FindCopies(beam.PTransform[Any, Any]):
    """(portion, values of `Beside`) -> blocks of `DROP`, by portion of the row that is dropped.

    Args:
        column: `address` or `content`.
        count: of documents, a singleton.
    """

    def __init__(self, column: str, count: Any) -> None:
        super().__init__()
        self.column = column
        self.count = count

    def expand(self, beside: beam.PCollection[Any]) -> beam.PCollection[Any]:
        same = NOT_COMPARED if self.column == "address" else EQUAL
        return (
            beside
            | "Cut" >> beam.ParDo(_Cut(self.column), self.count).with_output_types(Block)
            | "Same hash" >> beam.GroupByKey()
            | "Copies" >> each(copies, same)
        )


class _Cut(Gather):
    def __init__(self, column: str) -> None:
        self.column = column

    def process(self, beside: tuple[int, Iterable[bytes]], count: int) -> Iterator[Block]:
        portion, values = beside
        prints = prints_of(values)
        hashes, rank = prints[self.column], prints.rank
        rows = np.flatnonzero(~dead_rows(values, len(rank)) & hashes.any(axis=1))
        records = np.empty(len(rows), _COPY)
        records["hash"] = hashes[rows, 0]
        records["more"] = (hashes[rows, 1] & ~RANK_MASK) | rank[rows]
        records["row"] = (np.uint64(portion) << np.uint64(32)) | rows.astype(np.uint64)
        self.hold(parts(count), records)
        if self.full:
            yield from self.flush()

    def blocks(self, kind: int, records: Records) -> Iterator[Block]:
        return cut(records["hash"] % np.uint64(kind), records)


def copies(_: int, blocks: Iterable[bytes], same: int) -> Iterator[Block]:
    """The rows of a group that repeat another one. Gone through twice, block by block: a text that a million pages have needs no
    more room than one."""
    first = np.empty(0, _COPY)
    held = [first]
    for block in read(blocks, _COPY):
        held.append(block)
        if sum(map(len, held)) > MOST:
            held = [_firsts(np.concatenate(held))]
    first = _firsts(np.concatenate(held))
    for block in read(blocks, _COPY):
        of = np.minimum(np.searchsorted(first["hash"], block["hash"]), len(first) - 1)
        later = (
            (first["hash"][of] == block["hash"])
            & (first["more"][of] >> _RANK == block["more"] >> _RANK)
            & (first["row"][of] != block["row"])
        )
        made = np.empty(int(later.sum()), DROP)
        made["row"], made["of"], made["same"] = block["row"][later], first["row"][of[later]], same
        yield from by_portion(made["row"], made)


def _firsts(records: Records) -> Records:
    """The preferred record of each hash, in order of the hashes."""
    ordered = distinct(records, "hash", "more", "row")
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered["hash"][1:] != ordered["hash"][:-1]) | (
        ordered["more"][1:] >> _RANK != ordered["more"][:-1] >> _RANK
    )
    return ordered[new]

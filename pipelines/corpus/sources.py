"""Rows that say the same in other words: how many there are of each source, and not too many.

A text and what was written of it are exposures of one source: seen together, they count like epochs. Rows of one source meet as
records of 16 bytes; each learns how many there are, and of rephrasings beyond the second the last are dropped (the report
rephrases a corpus at most twice).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from tokenmill.pipelines.corpus.copies import DROP, NOT_COMPARED, dead_rows
from tokenmill.pipelines.corpus.packed import Block, Gather, Records, by_portion, cut, distinct, each, parts
from tokenmill.pipelines.corpus.portions import Decision as RowDecision
from tokenmill.pipelines.corpus.prints import prints_of

REPHRASINGS = 2
CHECK, REASON = "exposure", "rephrased_too_often"
_ROW = np.dtype([("value", "<u8"), ("row", "<u8")])
"""48 bits of the source's hash, one that says whether it is a rephrasing, 15 of the rank; and the row."""
_RANK = np.uint64(16)
_SYNTHETIC = np.uint64(1 << 15)


class CountSources(beam.PTransform[Any, Any]):
    """(portion, values of `Beside`) -> (blocks of `DROP` by portion, RowDecision): rephrasings that are too many, and what rows
    of one source, where there are several, are told.

    Args:
        count: of documents, a singleton.
    """

    def __init__(self, count: Any, most: int = REPHRASINGS) -> None:
        super().__init__()
        self.count = count
        self.most = most

    def expand(self, beside: beam.PCollection[Any]) -> tuple[beam.PCollection[Any], beam.PCollection[Any]]:
        gathered = (
            beside
            | "Cut" >> beam.ParDo(_Cut(), self.count).with_output_types(Block)
            | "Same source" >> beam.GroupByKey()
        )
        dropped = gathered | "Too many" >> each(too_many, self.most)
        return dropped, gathered | "Exposures" >> each(exposures, self.most, gives=RowDecision)


class _Cut(Gather):
    def process(self, beside: tuple[int, Iterable[bytes]], count: int) -> Iterator[Block]:
        portion, values = beside
        prints = prints_of(values)
        source, synthetic, rank = prints["source"], prints["synthetic"], prints.rank
        rows = np.flatnonzero(~dead_rows(values, len(rank)))
        records = np.empty(len(rows), _ROW)
        order = (rank[rows] >> np.uint64(1)) | np.where(synthetic[rows], _SYNTHETIC, np.uint64(0))
        records["value"] = (source[rows] & ~np.uint64(0xFFFF)) | order
        records["row"] = (np.uint64(portion) << np.uint64(32)) | rows.astype(np.uint64)
        self.hold(parts(count), records)
        if self.full:
            yield from self.flush()

    def blocks(self, kind: int, records: Records) -> Iterator[Block]:
        return cut((records["value"] >> _RANK) % np.uint64(kind), records)


def _counted(blocks: Iterable[bytes], most: int) -> tuple[Records, np.ndarray, np.ndarray]:
    """(rows in order of their sources, whether each stays, how many of its source stay)."""
    records = distinct(np.concatenate([np.frombuffer(block, _ROW) for block in blocks]), "value", "row")
    source = records["value"] >> _RANK
    synthetic = (records["value"] & _SYNTHETIC) > 0
    first = np.searchsorted(source, source)
    before: np.ndarray = np.cumsum(synthetic) - synthetic
    stays = ~synthetic | (before - before[first] < most)
    kept = np.concatenate([[0], np.cumsum(stays)])
    return records, stays, kept[np.searchsorted(source, source, "right")] - kept[first]


def too_many(_: int, blocks: Iterable[bytes], most: int) -> Iterator[Block]:
    """Rephrasings beyond `most` of a source."""
    records, stays, _kept = _counted(blocks, most)
    made = np.zeros(int((~stays).sum()), DROP)
    made["row"], made["same"] = records["row"][~stays], NOT_COMPARED
    yield from by_portion(made["row"], made)


def exposures(_: int, blocks: Iterable[bytes], most: int) -> Iterator[RowDecision]:
    """What rows of one source are told."""
    records, stays, kept = _counted(blocks, most)
    for row, stay, rows in zip(records["row"].tolist(), stays.tolist(), kept.tolist(), strict=True):
        if not stay:
            yield RowDecision(row, CHECK, REASON, f"{rows} rows of its source stay, {most} of them rephrasings")
        elif rows > 1:
            yield RowDecision(row, CHECK, source_rows=rows)

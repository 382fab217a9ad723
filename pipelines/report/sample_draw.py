"""Rows of a finished run to show: drawn by hash of their ids, the same ones whatever the order of shards."""

from __future__ import annotations

import hashlib
import heapq
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

CLIP = 200_000
"""Characters kept of a sample's text."""
_GROUPS = 64
_BATCH = 256


@dataclass(frozen=True)
class Sample:
    """A row drawn for showing, long texts clipped; `lengths` has the full length of every clipped column, by name."""

    row: dict[str, Any]
    lengths: dict[str, int]
    twin: Sample | None = None
    """The row that `duplicate_of` names, where it has such a column and that row is in the run."""


class Draw:
    """Keeps, per group, the places of the rows whose ids have the smallest hashes."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._heaps: dict[tuple[str, ...], list[tuple[int, Path, int]]] = {}
        self._rows: dict[tuple[Path, int], Sample] = {}

    def offer(self, batch: pa.RecordBatch, path: Path, first: int) -> None:
        """`first` is the index in `path` of the batch's first row."""
        if not self._wanted:
            return
        names = batch.schema.names
        ids = batch.column("id").cast(pa.string()).to_pylist() if "id" in names else [None] * len(batch)
        for i, (id_, group) in enumerate(zip(ids, _groups(batch), strict=True), start=first):
            key = id_ if id_ is not None else f"{path.name} {i}"
            # Negated: heapq keeps the smallest on top, and the largest hash is the one to give up.
            entry = (-int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()), path, i)
            if group not in self._heaps and len(self._heaps) >= _GROUPS:
                group = ("other",)
            heap = self._heaps.setdefault(group, [])
            if len(heap) < self._wanted:
                heapq.heappush(heap, entry)
            elif entry > heap[0]:
                heapq.heapreplace(heap, entry)

    def fetch(self) -> None:
        """Read the rows drawn so far, while the shard of those just offered is there: what is not drawn now never will be,
        since later rows only push others out."""
        places = self._places()
        new = fetch([place for place in places if place not in self._rows])
        self._rows = {place: self._rows.get(place) or new[place] for place in places}

    def drawn(self) -> list[Sample]:
        """At most the wanted number, one group after the other in turn."""
        return list(self._rows.values())

    def _places(self) -> list[tuple[Path, int]]:
        queues = [sorted(heap, reverse=True) for heap in self._heaps.values()]
        queues.sort(reverse=True)
        places: list[tuple[Path, int]] = []
        while queues and len(places) < self._wanted:
            for queue in queues[: self._wanted - len(places)]:
                places.append(queue.pop(0)[1:])
            queues = [queue for queue in queues if queue]
        return places


def _groups(batch: pa.RecordBatch) -> list[tuple[str, ...]]:
    """Rows are spread over reason or error, or else over style and whether a repair was needed, or over origin or level."""
    names = set(batch.schema.names)
    by = [n for n in ("reason", "error") if n in names] or [n for n in ("style", "origin", "level") if n in names]
    columns = [batch.column(n).cast(pa.string()).to_pylist() for n in by]
    if by == ["style"] and "attempts" in names and "chunks" in names:
        columns.append(pc.greater(batch.column("attempts"), batch.column("chunks")).to_pylist())
    if not columns:
        return [()] * len(batch)
    return [tuple(str(v)[:200] for v in row) for row in zip(*columns, strict=True)]


def fetch(places: list[tuple[Path, int]]) -> dict[tuple[Path, int], Sample]:
    """The rows at (shard, index), reading only the row groups that hold them.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read.
    """
    samples: dict[tuple[Path, int], Sample] = {}
    for path in {path for path, _ in places}:
        wanted = {i for p, i in places if p == path}
        with pq.ParquetFile(path, pre_buffer=False) as shard:
            first = 0
            for group in range(shard.num_row_groups):
                last = first + shard.metadata.row_group(group).num_rows
                if wanted & set(range(first, last)):
                    for batch in shard.iter_batches(batch_size=_BATCH, row_groups=[group]):
                        for i in wanted & set(range(first, first + len(batch))):
                            samples[path, i] = _sample(batch, i - first)
                        first += len(batch)
                first = last
    return samples


def _sample(batch: pa.RecordBatch, i: int) -> Sample:
    row = batch.slice(i, 1).to_pylist()[0]
    lengths: dict[str, int] = {}
    for name, value in row.items():
        if isinstance(value, str) and len(value) > CLIP:
            lengths[name] = len(value)
            row[name] = value[:CLIP]
    return Sample(row, lengths)

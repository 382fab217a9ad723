"""Counts over the shards of one output folder, and over those of a run: everything that rows of any type can have said.

Shards are streamed batch by batch, so memory is bounded by a batch, the distinct values kept per column and the samples
kept, whatever the number of rows. Nothing here knows a row type: a column that is absent is simply not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tokenmill.pipelines.report.diversity import Diversity
from tokenmill.pipelines.report.sample_draw import Draw, Sample
from tokenmill.pipelines.transforms import PAIRS

Shards = Callable[[str], Iterable[Path]]
"""The shards of one output folder, in order; each need only be there until the next one is asked for."""

CLASSES = ("data", "rejected", "failed")
"""Output folders of a run: rows accepted, refused by a check, broken."""

COUNTED = (
    "license", "language", "style", "perspective", "reason", "error", "step", "model", "judge_model", "origin", "category",
)  # fmt: skip
"""Columns of few values, counted by value."""

SCORE_BINS = 1000
RATIO_STEP, RATIO_MAX = 0.01, 3.0
_DISTINCT = 1000
_GROUPS = 64
_BATCH = 256


@dataclass
class Scores:
    """Scores of one check in bins of equal width over [0, 1]."""

    passed: np.ndarray = field(default_factory=lambda: np.zeros(SCORE_BINS, np.int64))
    refused: np.ndarray = field(default_factory=lambda: np.zeros(SCORE_BINS, np.int64))

    @property
    def refusals(self) -> int:
        return int(self.refused.sum())

    @property
    def verdicts(self) -> int:
        return int(self.passed.sum()) + self.refusals


@dataclass
class Rows:
    """What there is to say of one output folder."""

    folder: str
    files: list[tuple[str, int, int]] = field(default_factory=list)
    """(path relative to the run, rows, bytes on disk)"""
    schema: pa.Schema | None = None
    arrow_bytes: int = 0
    values: dict[str, Counter[str]] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)
    ratios: np.ndarray = field(default_factory=lambda: np.zeros(round(RATIO_MAX / RATIO_STEP) + 1, np.int64))
    """Characters of `text` per character of `source_text`; the last bin holds everything from `RATIO_MAX` up."""
    characters: int = 0
    """Characters of `text`."""
    repaired: int = 0
    """Rows with a refusal among their verdicts."""
    minor: int = 0
    """Rows with a minor fault that the judge let pass."""
    samples: list[Sample] = field(default_factory=list)
    diversity: Diversity = field(default_factory=Diversity)
    """Of the texts of `data`."""

    @property
    def count(self) -> int:
        return sum(rows for _, rows, _ in self.files)

    @property
    def disk_bytes(self) -> int:
        return sum(size for _, _, size in self.files)


@dataclass
class Survey:
    """What there is to say of a run's rows."""

    data: Rows
    rejected: Rows
    failed: Rows
    pairs: Rows = field(default_factory=lambda: Rows(PAIRS))
    """Beside the others: it is in none of their figures."""
    figures: Any = None
    """What only rows of their type have, see `View.figures`."""

    def __iter__(self) -> Iterator[Rows]:
        return iter((self.data, self.rejected, self.failed))

    @property
    def schema(self) -> pa.Schema | None:
        """Of the rows kept, or else of those refused; None where there are no shards."""
        return self.data.schema or self.rejected.schema

    @property
    def scores(self) -> list[tuple[str, Scores]]:
        """Scores by check, those of all folders together."""
        merged: dict[str, Scores] = {}
        for check, scores in (item for rows in self for item in rows.scores.items()):
            total = merged.setdefault(check, Scores())
            total.passed = total.passed + scores.passed
            total.refused = total.refused + scores.refused
        return sorted(merged.items())


def quantile(bins: np.ndarray, q: float, top: float = 1.0) -> float:
    """The `q`-quantile of binned values over [0, `top`], exact to one bin; NaN when empty."""
    total = bins.sum()
    if not total:
        return float("nan")
    index = int(np.searchsorted(np.cumsum(bins), q * total))
    return (min(index, len(bins) - 1) + 0.5) * top / len(bins)


def tally_folder(shards: Shards, folder: str, samples: int) -> Rows:
    rows = Rows(folder)
    draw = Draw(samples)
    for path in shards(folder):
        with pq.ParquetFile(path, pre_buffer=False) as shard:
            rows.schema = rows.schema or shard.schema_arrow
            rows.files.append((f"{folder}/{path.name}", shard.metadata.num_rows, path.stat().st_size))
            first = 0
            for batch in shard.iter_batches(batch_size=_BATCH):
                _count_batch(rows, batch)
                if folder == "data":
                    rows.diversity.offer(batch)
                draw.offer(batch, path, first)
                first += len(batch)
        draw.fetch()
    rows.samples = draw.drawn()
    return rows


def _count_batch(rows: Rows, batch: pa.RecordBatch) -> None:
    rows.arrow_bytes += batch.nbytes
    names = set(batch.schema.names)
    for name in COUNTED:
        if name in names:
            _count_values(rows.values.setdefault(name, Counter()), batch.column(name))
    if "text" in names and _is_string(batch.column("text").type):
        written = pc.utf8_length(batch.column("text"))
        rows.characters += pc.sum(written).as_py() or 0
        if "source_text" in names and _is_string(batch.column("source_text").type):
            _count_ratios(rows.ratios, written, pc.utf8_length(batch.column("source_text")))
    if "minor_faults" in names:
        rows.minor += int(np.count_nonzero(_numbers(batch.column("minor_faults")) > 0))
    if "verdicts" in names:
        rows.repaired += _count_verdicts(rows.scores, batch.column("verdicts"))


def _count_values(counter: Counter[str], column: pa.Array) -> None:
    for item in pc.value_counts(column.cast(pa.string())).to_pylist():
        value = (item["values"] or "")[:200]
        # Free text in such a column must not fill the memory.
        counter[value if value in counter or len(counter) < _DISTINCT else "(other)"] += item["counts"]


def _count_ratios(bins: np.ndarray, written: pa.Array, source: pa.Array) -> None:
    a, b = _numbers(written), _numbers(source)
    ratios = a[b > 0] / b[b > 0]
    np.add.at(bins, np.minimum((ratios / RATIO_STEP).astype(np.int64), len(bins) - 1), 1)


def _count_verdicts(scores: dict[str, Scores], column: pa.Array) -> int:
    """Bin the scores of a `list<struct<check, passed, score, ...>>` column; returns rows with a refusal."""
    if not _is_verdicts(column.type):
        return 0
    verdicts = pc.list_flatten(column)
    checks = np.asarray(verdicts.field("check").cast(pa.string()).to_pylist(), object)
    passed = _numbers(verdicts.field("passed").cast(pa.uint8())) > 0
    score = _numbers(verdicts.field("score"), np.nan)
    known = np.isfinite(score)
    bins = np.clip((np.where(known, score, 0) * SCORE_BINS).astype(np.int64), 0, SCORE_BINS - 1)
    for check in set(checks[known].tolist()):
        if check not in scores and len(scores) >= _GROUPS:
            continue
        counted = scores.setdefault(check, Scores())
        of_check = known & (checks == check)
        counted.passed += np.bincount(bins[of_check & passed], minlength=SCORE_BINS)
        counted.refused += np.bincount(bins[of_check & ~passed], minlength=SCORE_BINS)
    parents = _numbers(pc.list_parent_indices(column))
    return len(np.unique(parents[~passed]))


def _numbers(column: pa.Array, otherwise: float = 0.0) -> np.ndarray:
    """A column of numbers as float64, with `otherwise` in the place of nulls. Arrow's own way imports pandas first."""
    column = column.cast(pa.float64())
    numbers = np.frombuffer(column.buffers()[1] or b"", np.float64)[column.offset :][: len(column)]
    if not column.null_count:
        return numbers
    there = np.from_dlpack(pc.is_valid(column).cast(pa.uint8()))
    return np.where(there > 0, numbers, otherwise)


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_verdicts(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    return {"check", "passed", "score"} <= {f.name for f in kind.value_type}

"""One pass over the shards of a finished run: everything the card and the report say of its rows.

Shards are streamed batch by batch, so memory is bounded by a batch, the distinct values kept per column and the samples
kept, whatever the number of rows. Nothing here knows a row type: a column that is absent is simply not counted.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.runs.tool_view import are_tools
from pipelines.runs.trajectory_figures import TrajectoryFigures, survey_trajectories

if TYPE_CHECKING:
    from pipelines.runs.tool_space import ToolSpace

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
CLIP = 200_000
"""Characters kept of a sample's text."""


@dataclass
class Scores:
    """Scores of one check in bins of equal width over [0, 1]."""

    passed: np.ndarray = field(default_factory=lambda: np.zeros(SCORE_BINS, np.int64))
    refused: np.ndarray = field(default_factory=lambda: np.zeros(SCORE_BINS, np.int64))

    @property
    def verdicts(self) -> int:
        return int(self.passed.sum() + self.refused.sum())


@dataclass(frozen=True)
class Sample:
    """A row drawn for showing, long texts clipped; `lengths` has the full length of every clipped column, by name."""

    row: dict[str, Any]
    lengths: dict[str, int]
    twin: Sample | None = None
    """The row that `duplicate_of` names, where it has such a column and that row is in the run."""


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
    samples: list[Sample] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(rows for _, rows, _ in self.files)

    @property
    def disk_bytes(self) -> int:
        return sum(size for _, _, size in self.files)


@dataclass
class Survey:
    data: Rows
    rejected: Rows
    failed: Rows
    tools: ToolSpace | None = None
    """What the rows cover, where they are tool specifications."""
    trajectories: TrajectoryFigures | None = None
    """Pass rates and costs, where the rows are trajectories."""

    def __iter__(self):
        return iter((self.data, self.rejected, self.failed))


def survey_run(out: Path, samples: int = 20) -> Survey:
    """Read every shard under `out`. Where the rows are tool specifications, pictures of what they cover are drawn into
    `out`/coverage.

    Args:
        samples: rows to draw per folder, spread over styles, reasons or errors, by hash of their id: the same rows
            whatever the order of shards.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read.
    """
    data, rejected, failed = (_survey_folder(out, folder, samples) for folder in CLASSES)
    rejected.samples = _with_twins(out, rejected.samples)
    return Survey(data, rejected, failed, _tool_space(out, data), survey_trajectories(out))


def _tool_space(out: Path, data: Rows) -> ToolSpace | None:
    if not are_tools(data.schema):
        return None
    from pipelines.runs.tool_space import survey_tools

    return survey_tools(out)


def _with_twins(out: Path, samples: list[Sample]) -> list[Sample]:
    """The samples, each with the row that it is a duplicate of."""
    wanted = {sample.row["duplicate_of"] for sample in samples if sample.row.get("duplicate_of")}
    if not wanted:
        return samples
    found: dict[str, Sample] = {}
    for path in (path for folder in ("data", "rejected") for path in sorted((out / folder).glob("*.parquet"))):
        ids = pq.read_table(path, columns=["id"])["id"].to_pylist()
        places = [(path, i) for i, id_ in enumerate(ids) if id_ in wanted and id_ not in found]
        found |= {sample.row["id"]: sample for sample in _fetch(places).values()}
    return [replace(sample, twin=found.get(sample.row.get("duplicate_of") or "")) for sample in samples]


def quantile(bins: np.ndarray, q: float, top: float = 1.0) -> float:
    """The `q`-quantile of binned values over [0, `top`], exact to one bin; NaN when empty."""
    total = bins.sum()
    if not total:
        return float("nan")
    index = int(np.searchsorted(np.cumsum(bins), q * total))
    return (min(index, len(bins) - 1) + 0.5) * top / len(bins)


def _survey_folder(out: Path, folder: str, samples: int) -> Rows:
    rows = Rows(folder)
    draw = _Draw(samples)
    for path in sorted((out / folder).glob("*.parquet")):
        with pq.ParquetFile(path, pre_buffer=False) as shard:
            rows.schema = rows.schema or shard.schema_arrow
            rows.files.append((f"{folder}/{path.name}", shard.metadata.num_rows, path.stat().st_size))
            first = 0
            for batch in shard.iter_batches(batch_size=_BATCH):
                _count_batch(rows, batch)
                draw.offer(batch, path, first)
                first += len(batch)
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
    if "verdicts" in names:
        rows.repaired += _count_verdicts(rows.scores, batch.column("verdicts"))


def _count_values(counter: Counter[str], column: pa.Array) -> None:
    for item in pc.value_counts(column.cast(pa.string())).to_pylist():
        value = (item["values"] or "")[:200]
        # Free text in such a column must not fill the memory.
        counter[value if value in counter or len(counter) < _DISTINCT else "(other)"] += item["counts"]


def _count_ratios(bins: np.ndarray, written: pa.Array, source: pa.Array) -> None:
    a = np.asarray(pc.fill_null(written, 0), float)
    b = np.asarray(pc.fill_null(source, 0), float)
    ratios = a[b > 0] / b[b > 0]
    np.add.at(bins, np.minimum((ratios / RATIO_STEP).astype(np.int64), len(bins) - 1), 1)


def _count_verdicts(scores: dict[str, Scores], column: pa.Array) -> int:
    """Bin the scores of a `list<struct<check, passed, score, ...>>` column; returns rows with a refusal."""
    if not _is_verdicts(column.type):
        return 0
    verdicts = pc.list_flatten(column)
    checks = np.asarray(verdicts.field("check").cast(pa.string()).to_pylist(), object)
    passed = np.asarray(pc.fill_null(verdicts.field("passed"), False), bool)
    score = np.asarray(pc.fill_null(verdicts.field("score").cast(pa.float64()), np.nan), float)
    known = np.isfinite(score)
    bins = np.clip((np.where(known, score, 0) * SCORE_BINS).astype(np.int64), 0, SCORE_BINS - 1)
    for check in set(checks[known].tolist()):
        if check not in scores and len(scores) >= _GROUPS:
            continue
        counted = scores.setdefault(check, Scores())
        of_check = known & (checks == check)
        counted.passed += np.bincount(bins[of_check & passed], minlength=SCORE_BINS)
        counted.refused += np.bincount(bins[of_check & ~passed], minlength=SCORE_BINS)
    parents = np.asarray(pc.list_parent_indices(column))
    return len(np.unique(parents[~passed]))


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_verdicts(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    return {"check", "passed", "score"} <= {f.name for f in kind.value_type}


class _Draw:
    """Keeps, per group, the places of the rows whose ids have the smallest hashes."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._heaps: dict[tuple[str, ...], list[tuple[int, Path, int]]] = {}

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

    def drawn(self) -> list[Sample]:
        """At most the wanted number, one group after the other in turn."""
        queues = [sorted(heap, reverse=True) for heap in self._heaps.values()]
        queues.sort(reverse=True)
        places: list[tuple[Path, int]] = []
        while queues and len(places) < self._wanted:
            for queue in queues[: self._wanted - len(places)]:
                places.append(queue.pop(0)[1:])
            queues = [queue for queue in queues if queue]
        rows = _fetch(places)
        return [rows[place] for place in places]


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


def _fetch(places: list[tuple[Path, int]]) -> dict[tuple[Path, int], Sample]:
    """The rows at (shard, index), reading only the row groups that hold them."""
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

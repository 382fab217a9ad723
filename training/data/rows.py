"""Rows of Parquet shards, as the pipelines write them: whole files, any row group, nothing read that is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenmill.training.data.selection import ALL, Selection

WANTED = ("text", "messages", "tools")


class InputError(Exception):
    """The data cannot be read as asked; the text is one line for the user."""


@dataclass(frozen=True)
class Shards:
    """Row groups of several files, numbered through in the order of the files."""

    files: tuple[Path, ...]
    group_rows: tuple[tuple[int, ...], ...]
    """Rows of each row group, per file."""
    columns: tuple[str, ...]
    selection: Selection = ALL
    """Which of their rows are read; `group_rows` counts these."""

    @cached_property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        """(file, row group within it, rows), all that are not empty."""
        return tuple(
            (file, group, rows)
            for file, sizes in enumerate(self.group_rows)
            for group, rows in enumerate(sizes)
            if rows
        )

    @cached_property
    def rows(self) -> int:
        return sum(rows for _, _, rows in self.groups)

    def read(self, group: int) -> list[dict[str, Any]]:
        """The rows of one group. Raises `InputError` when the file has changed or broken since it was opened."""
        file, index, rows = self.groups[group]
        try:
            with pq.ParquetFile(self.files[file]) as parquet:
                wanted = [*self.columns, *self.selection.columns]
                table = parquet.read_row_group(index, columns=wanted)
                if self.selection.conditions:
                    table = table.filter(pa.array(self.selection.mask(table))).select(list(self.columns))
                found = table.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self.files[file]}: {error}") from error
        if len(found) != rows:
            raise InputError(f"{self.files[file]}: row group {index} has changed since training began")
        return found

    def fingerprint(self) -> list[Any]:
        """Tells whether these are the same shards: a resumed run must not go on with others."""
        files: list[Any] = [[file.name, list(sizes)] for file, sizes in zip(self.files, self.group_rows, strict=True)]
        return [*files, self.selection.described()] if self.selection.conditions else files


def find_files(path: Path) -> list[Path]:
    """Parquet files of a run (`DIR/data/`), of a plain directory, or the file itself. Raises `InputError`."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"{path}: no such file or directory")
    for folder in (path / "data", path):
        if files := sorted(folder.glob("*.parquet")):
            return files
    raise InputError(f"{path}: holds no Parquet files, nor does its data/")


def open_shards(files: Sequence[Path], selection: Selection = ALL) -> Shards:
    """Reads the files' footers, and the columns by which rows are selected. Raises `InputError` when a file has neither `text`
    nor `messages`, lacks such a column, or none has rows."""
    group_rows, columns = [], None
    for file in files:
        try:
            with pq.ParquetFile(file) as parquet:
                metadata, names = parquet.metadata, parquet.schema_arrow.names
                sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
                if missing := set(selection.columns) - set(names):
                    raise InputError(f"{file}: has no column `{missing.pop()}`")
                if selection.conditions:
                    by = list(selection.columns)
                    sizes = [
                        int(selection.mask(parquet.read_row_group(g, columns=by)).sum()) for g in range(len(sizes))
                    ]
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{file}: {error}") from error
        found = tuple(name for name in WANTED if name in names)
        if "messages" in found:
            found = tuple(name for name in found if name != "text")
        elif "text" not in found:
            raise InputError(f"{file}: has neither a `text` nor a `messages` column")
        if columns not in (None, found):
            raise InputError(f"{file}: has columns {', '.join(found)}, other files {', '.join(columns)}")
        columns = found
        group_rows.append(tuple(sizes))
    shards = Shards(tuple(files), tuple(group_rows), columns or (), selection)
    if not shards.rows:
        raise InputError(f"{files[0].parent if files else 'the data'}: holds no rows")
    return shards


def iterate_rows(shards: Shards, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """All rows once, in the order of the shards."""
    left = shards.rows if limit is None else limit
    for group in range(len(shards.groups)):
        if left <= 0:
            return
        rows = shards.read(group)[:left]
        left -= len(rows)
        yield from rows


class ShuffledRows:
    """The same rows in another order each epoch, with any position reachable by reading one window of row groups.

    Row groups are drawn in a permuted order; the rows of `window` consecutive ones are permuted together. The order
    depends on (seed, epoch) alone, so a position is one number.
    """

    def __init__(self, shards: Shards, seed: int, window: int = 16) -> None:
        if window < 1:
            raise ValueError(f"window: give at least 1 row group, not {window}")
        self.shards, self.seed, self.window = shards, seed, window

    def iterate(self, position: int = 0) -> Iterator[dict[str, Any]]:
        """Without end, from row `position` on; epoch e is rows e * n to (e + 1) * n - 1."""
        while True:
            epoch, skip = divmod(position, self.shards.rows)
            for row in self._epoch(epoch, skip):
                yield row
                position += 1

    def _epoch(self, epoch: int, skip: int) -> Iterator[dict[str, Any]]:
        draw = np.random.default_rng([self.seed, epoch])
        order = draw.permutation(len(self.shards.groups)).tolist()
        sizes = [self.shards.groups[group][2] for group in order]
        starts = [0, *accumulate(sizes)]
        for first in range(0, len(order), self.window):
            last = min(first + self.window, len(order))
            # Drawn even for a window that is skipped, so that later ones see the same draws.
            permutation = draw.permutation(starts[last] - starts[first])
            if starts[last] <= skip:
                continue
            rows = [row for group in order[first:last] for row in self.shards.read(group)]
            for index in permutation[max(0, skip - starts[first]) :]:
                yield rows[index]

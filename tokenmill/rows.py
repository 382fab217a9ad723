"""Rows as Python programs have them, as a file that a job reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tokenmill.pipelines.runs.errors import line_of
from tokenmill.result import Run
from tokenmill.schemas.flags import UsageError

ROWS = "rows.parquet"
"""Name of the file: rows without an id of their own are named after it, whatever they came in."""
KINDS = "paths, a list of dicts, a pandas or polars table, an Arrow table or a datasets.Dataset"


def as_paths(rows: Any, folder: Path) -> tuple[str, ...]:
    """What a job's `input` says for rows given in Python: their paths, or that of a Parquet file written into `folder`.

    Raises:
        UsageError: they are of no kind that is known, or have no common columns.
    """
    if isinstance(rows, Run):
        return (rows.path,)
    if isinstance(rows, (str, os.PathLike)):
        return (os.fspath(rows),)
    if isinstance(rows, (list, tuple)) and rows and all(isinstance(one, (str, os.PathLike, Run)) for one in rows):
        return tuple(path for one in rows for path in as_paths(one, folder))
    try:
        pq.write_table(_table(rows), folder / ROWS)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"the rows cannot be made a table: {line_of(error)}") from None
    return (str(folder / ROWS),)


def _table(rows: Any) -> pa.Table:
    if hasattr(rows, "with_format") and hasattr(rows, "to_parquet"):  # datasets.Dataset, with its selections
        rows = rows.with_format("arrow")[:]
    if isinstance(rows, pa.Table):
        return rows
    if hasattr(rows, "to_pandas") is False and hasattr(rows, "columns") and hasattr(rows, "iloc"):  # pandas
        return pa.Table.from_pandas(rows, preserve_index=False)
    if hasattr(rows, "to_arrow"):  # polars
        return rows.to_arrow()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise TypeError(f"{type(rows).__name__} is none of {KINDS}")
    listed = list(rows)
    if not all(isinstance(row, Mapping) for row in listed):
        raise TypeError(f"a list of {type(listed[0]).__name__} is none of {KINDS}")
    if not listed:
        raise ValueError("there are none")
    # Arrow would take the columns of the first row for those of all.
    names = dict.fromkeys(name for row in listed for name in row)
    return pa.table({name: [row.get(name) for row in listed] for name in names})

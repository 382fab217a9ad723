"""Rows of a user's file: JSONL or Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from tokenmill.schemas.flags import UsageError

LONGEST_ROW = 20_000_000


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Each row as a dict.

    Raises:
        UsageError: the file cannot be read, or a line is no object.
    """
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            for batch in pq.ParquetFile(path).iter_batches(batch_size=64):
                yield from batch.to_pylist()
            return
        with path.open("rb") as file:
            for number, line in enumerate(file):
                if len(line) > LONGEST_ROW:
                    raise ValueError(f"line {number + 1} is longer than {LONGEST_ROW} bytes")
                if line.strip():
                    row = orjson.loads(line)
                    if not isinstance(row, dict):
                        raise ValueError(f"line {number + 1} is no object")
                    yield row
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None

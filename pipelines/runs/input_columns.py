"""What the columns of an input file hold, as far as its schema or its first rows show."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from tokenmill.pipelines.runs.errors import UsageError, line_of
from tokenmill.pipelines.transforms.sources import PARQUET, Parser, Piece, RowUnreadable, ends_with, raw_rows

SAMPLED = 20
LONGEST = 1 << 26
"""Bytes of a row that is looked at."""


def columns_of(path: str, name: str) -> dict[str, str] | None:
    """`{column: ""}`, or the kind of what is in it where that cannot be text; None for a JSONL file without rows.

    Raises:
        UsageError: the beginning of the file is not readable at all.
    """
    if ends_with(path, PARQUET):
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as raw:
            return {
                field.name: "" if _text(field.type) else str(field.type) for field in pq.ParquetFile(raw).schema_arrow
            }
    kinds: dict[str, list[type]] = {}
    bad, rows = None, 0
    try:
        # One row at a time: a row may be long.
        for _, values in itertools.islice(raw_rows(Piece(path, name), None, LONGEST), SAMPLED):
            rows += 1
            if isinstance(values, RowUnreadable):
                bad = bad or values
                continue
            for column, value in values.items():
                kinds.setdefault(column, []).extend([type(value)] if value is not None else [])
    except Exception as error:  # each kind of compression has its own
        raise UsageError(f"--input {path}: not readable: {line_of(error)}") from None
    if bad and not kinds:
        raise UsageError(f"--input {path}: {bad} in its first rows")
    return {column: _kind(types) for column, types in kinds.items()} if rows else None


def _text(type: pa.DataType) -> bool:
    """Whether a column of an Arrow type may hold text: strings, bytes that may be UTF-8, or nothing but nulls."""
    if pa.types.is_dictionary(type):
        type = type.value_type
    kinds: tuple[Any, ...] = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    kinds += (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_null)
    return any(of_kind(type) for of_kind in kinds)


def _kind(types: Sequence[type]) -> str:
    return "" if not types or str in types else types[0].__name__


def check(path: str, present: dict[str, str], parser: Parser[Any]) -> None:
    """The columns that the job needs are among those present, of several named together, one; and where text must be is
    text.

    Raises:
        UsageError: a column is missing, or cannot hold text.
    """
    wanted = [(name,) if isinstance(name, str) else name for name in getattr(parser, "required", ())]
    for names in wanted:
        if not present.keys() & set(names):
            listed = ", ".join(sorted(present)) or "(none)"
            raise UsageError(
                f"--input {path}: no column {' or '.join(map(repr, names))}; its columns are {listed}."
                f"{_advice(present, parser, names)}"
            )
    for names in getattr(parser, "texts", ()):
        column = next((name for name in ((names,) if isinstance(names, str) else names) if name in present), None)
        if column is not None and present[column]:
            raise UsageError(
                f"--input {path}: column {column!r} holds {present[column]}, not text.{_advice(present, parser, (column,))}"
            )

    for column in getattr(parser, "shown", ()):
        if "binary" in present[column]:
            raise UsageError(
                f"--input {path}: column {column!r} holds {present[column]}: images and other bytes cannot be put into a prompt"
            )


def _advice(present: dict[str, str], parser: Parser[Any], missing: Sequence[str]) -> str:
    """How a column of text is named in its stead, where the job has a flag for that."""
    if not hasattr(parser, "texts"):
        return ""
    free = sorted(name for name, kind in present.items() if not kind and name not in (parser.columns or ()))
    if not free:
        return " No other column of it holds text"
    flag = next((name for name, column in vars(parser).items() if column in missing), "text")
    return f" Name the right one, such as --columns {flag}={free[0]}"

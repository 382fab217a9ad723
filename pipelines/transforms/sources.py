"""Reading rows from Parquet, JSONL, text and Markdown files, and keeping one row per id."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

import apache_beam as beam
import orjson
import pyarrow.parquet as pq
import zstandard
from apache_beam import typehints
from apache_beam.coders import registry
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from pipelines.transforms import FAILED, NAMESPACE
from schemas.documents import FailedRow

Row = TypeVar("Row", covariant=True)

JSONL = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst")
TEXT = (".txt", ".md", ".markdown")
PARQUET = (".parquet",)
FORMATS = PARQUET + JSONL + TEXT

COUNTED_FILES = 200
"""Up to this many input files have a counter each."""

registry.register_row(FailedRow)


@dataclass(frozen=True)
class Piece:
    """A part of the input that one worker reads: a file, or one row group of a Parquet file."""

    path: str
    name: str
    """The file as rows name it: relative to the inputs' common folder."""
    row_group: int = -1
    first_row: int = 0
    rows: int = -1
    """Rows to read at most; -1 for all."""


class RowUnreadable(Exception):
    """A row that no work can be done on; `error` is its machine-readable kind."""

    def __init__(self, error: str, message: str, excerpt: str = "", id: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.excerpt = excerpt[:500]
        self.id = id


class Parser(Protocol, Generic[Row]):
    """Makes a typed row of what a file holds. Picklable."""

    row_type: type
    columns: tuple[str, ...] | None
    """Columns to read from Parquet, those of them that exist; None for all."""

    def __call__(self, values: dict[str, Any], file: str, row: int) -> Row:
        """Raises: RowUnreadable."""
        ...


def open_input(path: str) -> BinaryIO:
    """The decompressed bytes of a file on any Beam filesystem."""
    raw = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    if path.endswith(".gz"):
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if path.endswith(".zst"):
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True), 1 << 20)
    return raw


def raw_rows(
    piece: Piece, columns: tuple[str, ...] | None, max_bytes: int
) -> Iterator[tuple[int, dict[str, Any] | RowUnreadable]]:
    """(row number, values or why there are none) for every row of a piece, in order."""
    if piece.path.endswith(PARQUET):
        rows = _parquet_rows(piece, columns)
    elif piece.path.endswith(JSONL):
        rows = _jsonl_rows(piece.path, max_bytes)
    else:
        rows = _text_rows(piece.path, max_bytes)
    number = piece.first_row
    try:
        for count, row in enumerate(rows):
            if count == piece.rows:
                return
            yield row
            number = row[0] + 1
    except (OSError, EOFError, ValueError, zlib.error, zstandard.ZstdError) as error:  # pyarrow's are ValueErrors
        message = " ".join(str(error).split()) or type(error).__name__
        yield number, RowUnreadable("unreadable_file", f"the file cannot be read from here on: {message}")


def _parquet_rows(piece: Piece, columns: tuple[str, ...] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    with FileSystems.open(piece.path, compression_type=CompressionTypes.UNCOMPRESSED) as raw:
        file = pq.ParquetFile(raw)
        present = [c for c in columns if c in file.schema_arrow.names] if columns is not None else None
        groups = range(file.num_row_groups) if piece.row_group < 0 else [piece.row_group]
        number = piece.first_row
        for batch in file.iter_batches(batch_size=512, row_groups=list(groups), columns=present):
            for values in batch.to_pylist():
                yield number, values
                number += 1


def _jsonl_rows(path: str, max_bytes: int) -> Iterator[tuple[int, dict[str, Any] | RowUnreadable]]:
    with open_input(path) as file:
        number = -1
        while line := file.readline(max_bytes + 1):
            number += 1
            if len(line) > max_bytes:
                start, size = line[:500], len(line)
                while not line.endswith(b"\n") and (line := file.readline(1 << 20)):
                    size += len(line)
                yield number, _too_long(size, max_bytes, start)
            elif not line.isspace():
                yield number, _json_object(line)


def _json_object(line: bytes) -> dict[str, Any] | RowUnreadable:
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as bad:
            return RowUnreadable("invalid_utf8", f"byte {bad.start} is not UTF-8", line.decode("utf-8", "replace"))
        return RowUnreadable("invalid_json", f"not JSON: {error}", line[:500].decode("utf-8", "replace"))
    if not isinstance(values, dict):
        return RowUnreadable("not_an_object", "the line is not a JSON object", line[:500].decode("utf-8", "replace"))
    return values


def _text_rows(path: str, max_bytes: int) -> Iterator[tuple[int, dict[str, Any] | RowUnreadable]]:
    with open_input(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        yield 0, _too_long(len(content), max_bytes, content[:500])
        return
    try:
        yield 0, {"text": content.decode("utf-8-sig")}
    except UnicodeDecodeError as bad:
        yield 0, RowUnreadable("invalid_utf8", f"byte {bad.start} is not UTF-8", content.decode("utf-8", "replace"))


def _too_long(size: int, max_bytes: int, start: bytes) -> RowUnreadable:
    return RowUnreadable(
        "too_long",
        f"{size} bytes or more, over the limit of {max_bytes} (--max-document-bytes)",
        start.decode("utf-8", "replace"),
    )


class ReadRows(beam.PTransform):
    """Typed rows of all pieces, one per id; what cannot be read, and repeated ids, are in `failed`.

    Grouping by id also redistributes the rows over the workers, which the slow steps that follow need.
    """

    def __init__(self, pieces: Iterable[Piece], parser: Parser, *, max_bytes: int = 5_000_000) -> None:
        super().__init__()
        self.pieces = list(pieces)
        self.parser = parser
        self.max_bytes = max_bytes

    def expand(self, start: beam.pvalue.PBegin) -> tuple[beam.PCollection, beam.PCollection]:
        read = (
            start
            | "List pieces" >> beam.Create(self.pieces)
            | "Spread pieces" >> beam.Reshuffle()
            | "Read pieces"
            >> beam.ParDo(
                _Read(self.parser, self.max_bytes, len({p.name for p in self.pieces}) <= COUNTED_FILES)
            ).with_outputs(FAILED, main="rows")
        )
        read["rows"].element_type = typehints.KV[str, self.parser.row_type]
        read[FAILED].element_type = FailedRow
        unique = (
            read["rows"]
            | "Group by id" >> beam.GroupByKey()
            | "Keep one per id" >> beam.ParDo(_KeepFirst()).with_outputs(FAILED, main="rows")
        )
        unique["rows"].element_type = self.parser.row_type
        unique[FAILED].element_type = FailedRow
        failed = (read[FAILED], unique[FAILED]) | "Unreadable" >> beam.Flatten()
        return unique["rows"], failed


class _Read(beam.DoFn):
    def __init__(self, parser: Parser, max_bytes: int, per_file: bool) -> None:
        self.parser = parser
        self.max_bytes = max_bytes
        self.per_file = per_file
        self.read = Metrics.counter(NAMESPACE, "read")
        self.unreadable = Metrics.counter(NAMESPACE, "unreadable")

    def process(self, piece: Piece) -> Iterator[Any]:
        count = 0
        for number, values in raw_rows(piece, self.parser.columns, self.max_bytes):
            count += 1
            try:
                if isinstance(values, RowUnreadable):
                    raise values
                row = self.parser(values, piece.name, number)
                yield row.id, row
            except RowUnreadable as error:
                self.unreadable.inc()
                yield beam.pvalue.TaggedOutput(
                    FAILED,
                    FailedRow(
                        error.id or f"{piece.name}:{number}",
                        error.id,
                        piece.name,
                        number,
                        "read",
                        error.error,
                        str(error),
                        error.excerpt,
                    ),
                )
        self.read.inc(count)
        if self.per_file:
            Metrics.counter(NAMESPACE, f"read from {piece.name}").inc(count)


class _KeepFirst(beam.DoFn):
    """Of the rows that share an id, the first in input order goes on."""

    def __init__(self) -> None:
        self.unreadable = Metrics.counter(NAMESPACE, "unreadable")

    def process(self, group: tuple[str, Iterable[Any]]) -> Iterator[Any]:
        id, found = group
        rows = list(found)
        if len(rows) > 1:
            rows.sort(key=lambda row: (row.source_file, row.source_row))
        first = rows[0]
        yield first
        for row in rows[1:]:
            self.unreadable.inc()
            yield beam.pvalue.TaggedOutput(
                FAILED,
                FailedRow(
                    id,
                    id,
                    row.source_file,
                    row.source_row,
                    "read",
                    "duplicate_id",
                    f"the id {id!r} already stands in {first.source_file} row {first.source_row}",
                    row.text[:500],
                ),
            )

"""Reading rows from Parquet, JSONL, text and Markdown files, and keeping one row per id."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

import apache_beam as beam
import orjson
import zstandard
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from tokenmill.pipelines.transforms import FAILED
from tokenmill.pipelines.transforms.bounded import BLANK, parquet_values, unpacked
from tokenmill.pipelines.transforms.counts import COUNTS, keep
from tokenmill.schemas.documents import FailedRow, failed_row

Row = TypeVar("Row", covariant=True)

JSONL = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst")
TEXT = (".txt", ".md", ".markdown")
PARQUET = (".parquet",)
FORMATS = PARQUET + JSONL + TEXT
HTML_FILES = (".html", ".htm", ".xhtml")
"""Not among `FORMATS`: only a job that takes the text out of pages reads them."""

_LARGE = 1 << 63
"""A whole number that 64 bits do not hold is at least so large; orjson makes a float of it."""
_BOM = b"\xef\xbb\xbf"
"""A byte order mark, with which some programs begin a UTF-8 file. It is no part of the first row."""

ID_GROUPS = 4096
COUNTED_FILES = 200
"""Up to this many input files are counted each."""


@dataclass(frozen=True)
class Piece:
    """A part of the input that one worker reads: a file, or a part of it. However it is cut, a row keeps its number."""

    path: str
    name: str
    """The file as rows name it: relative to the inputs' common folder."""
    row_group: int = -1
    skip: int = 0
    """Rows of the row group that other pieces hold."""
    first_row: int = 0
    rows: int = -1
    """Rows to read at most; -1 for all."""
    offset: int = 0
    end: int = -1
    """From where to where, in bytes, in a JSONL file that is not compressed; -1 for its end."""
    heavy: bool = False
    """Whether it cannot be cut further and holds more than one worker should go on with alone."""


class RowUnreadable(Exception):
    """A row that no work can be done on; `error` is its machine-readable kind."""

    def __init__(self, error: str, message: str, excerpt: str = "", id: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.excerpt = excerpt[:500]
        self.id = id


RawRows = Iterator[tuple[int, dict[str, Any] | RowUnreadable]]
"""(row number, values or why there are none)"""


class Parser(Protocol, Generic[Row]):
    """Makes a typed row of what a file holds. Picklable."""

    @property
    def row_type(self) -> type: ...

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Columns to read from Parquet, those of them that exist; None for all."""

    def __call__(self, values: dict[str, Any], file: str, row: int) -> Row:
        """Raises: RowUnreadable."""
        ...


def ends_with(path: str, suffixes: str | tuple[str, ...]) -> bool:
    """Whether a file's name ends so, in whatever case: `DATA.JSONL.GZ` is JSONL, too."""
    return path.lower().endswith(suffixes)


def open_input(path: str) -> BinaryIO:
    """The decompressed bytes of a file on any Beam filesystem. Reading raises ValueError where they are out of proportion."""
    raw = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    return next((unpacked(raw, kind) for kind in ("gz", "zst") if ends_with(path, f".{kind}")), raw)


def raw_rows(piece: Piece, columns: tuple[str, ...] | None, max_bytes: int) -> RawRows:
    """Every row of a piece, in order."""
    if ends_with(piece.path, PARQUET):
        rows: RawRows = _parquet_rows(piece, columns, max_bytes)
    elif ends_with(piece.path, JSONL):
        rows = _jsonl_rows(piece, max_bytes)
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


def _parquet_rows(piece: Piece, columns: tuple[str, ...] | None, max_bytes: int) -> RawRows:
    with FileSystems.open(piece.path, compression_type=CompressionTypes.UNCOMPRESSED) as raw:
        groups = None if piece.row_group < 0 else [piece.row_group]
        for number, values in enumerate(parquet_values(raw, groups, columns, max_bytes, piece.skip), piece.first_row):
            yield number, _too_long(values, max_bytes, b"") if isinstance(values, int) else values


def _jsonl_rows(piece: Piece, max_bytes: int) -> RawRows:
    with open_input(piece.path) as file:
        if piece.offset:
            file.seek(piece.offset)
        number, position, blank = piece.first_row - 1, piece.offset, 0
        while (piece.end < 0 or position < piece.end) and (line := file.readline(max_bytes + 1)):
            number += 1
            position += len(line)
            if number == 0:
                line = line.removeprefix(_BOM)
            if len(line) > max_bytes:
                start, size = line[:500], len(line)
                while not line.endswith(b"\n") and (line := file.readline(1 << 20)):
                    size += len(line)
                    position += len(line)
                yield number, _too_long(size, max_bytes, start)
            elif line and not line.isspace():
                blank = 0
                yield number, _json_object(line)
            else:
                blank += 1
                if blank > BLANK:
                    raise ValueError(f"more than {BLANK:,} blank lines in a row")


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
    if any(isinstance(value, float) and abs(value) >= _LARGE for value in values.values()):
        with contextlib.suppress(RecursionError):  # nested more deeply than this parser goes, it stays as it is
            values = json.loads(line, parse_int=_whole)
    return values


def _whole(digits: str) -> int | str:
    """A whole number; its digits as they stand where 64 bits do not hold it, or different ids would be rounded to one."""
    return int(digits) if -_LARGE <= int(digits[:21]) < 2 * _LARGE else digits


def _text_rows(path: str, max_bytes: int) -> RawRows:
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


class ReadRows(beam.PTransform[Any, Any]):
    """Typed rows of all pieces, one per id; what cannot be read, and repeated ids, are in `failed`.

    Only pieces and ids are shuffled. A row is read by the worker that goes on to work on it, so that a corpus never has
    to fit into a shuffle; repeated ids are found beforehand, by reading the ids alone.
    """

    def __init__(self, pieces: Iterable[Piece], parser: Parser[Any], *, max_bytes: int = 5_000_000) -> None:
        super().__init__()
        self.pieces = list(pieces)
        self.parser = parser
        self.max_bytes = max_bytes

    def expand(self, start: beam.pvalue.PBegin) -> tuple[beam.PCollection[Any], beam.PCollection[Any]]:
        pieces = start | "List pieces" >> beam.Create(self.pieces) | "Spread pieces" >> beam.Reshuffle()
        repeated = (
            pieces
            | "Read ids" >> beam.ParDo(_ReadIds(self.parser, self.max_bytes)).with_output_types(tuple[int, str])
            | "Group by hash of id" >> beam.GroupByKey()
            | "Find repeated ids" >> beam.FlatMap(_repetitions).with_output_types(tuple[str, str])
        )
        per_file = len({piece.name for piece in self.pieces}) <= COUNTED_FILES
        read = pieces | "Read rows" >> beam.ParDo(
            _ReadRows(self.parser, self.max_bytes, per_file), beam.pvalue.AsDict(repeated)
        ).with_outputs(FAILED, COUNTS, main="rows")
        keep(read[COUNTS])
        read["rows"].element_type = self.parser.row_type
        read[FAILED].element_type = FailedRow
        rows = read["rows"]
        if any(piece.heavy for piece in self.pieces):
            rows = rows | "Spread rows" >> beam.Reshuffle()
        return rows, read[FAILED]


class _ReadIds(beam.DoFn):
    """(hash, place and id) of every readable row that brings its own id. Few hashes, so that a group is worth its keep."""

    def __init__(self, parser: Parser[Any], max_bytes: int) -> None:
        self.parser = parser
        self.max_bytes = max_bytes

    def process(self, piece: Piece) -> Iterator[tuple[int, str]]:
        key = getattr(self.parser, "key", None) or (lambda values, file, row: self.parser(values, file, row).id)
        for number, values in raw_rows(piece, self.parser.columns, self.max_bytes):
            if isinstance(values, RowUnreadable):
                continue
            try:
                id = key(values, piece.name, number)
            except RowUnreadable:
                continue
            if id is not None:
                yield zlib.crc32(id.encode()) % ID_GROUPS, f"{_place(piece.name, number)}\x1f{id}"


def _place(file: str, row: int) -> str:
    return f"{file}\x1f{row}"


def _repetitions(group: tuple[int, Iterable[str]]) -> Iterator[tuple[str, str]]:
    """(place, where the id stood first) of every row whose id an earlier row has."""
    places: dict[str, list[tuple[str, int]]] = {}
    for found in group[1]:
        file, row, id = found.split("\x1f", 2)
        places.setdefault(id, []).append((file, int(row)))
    for order in places.values():
        if len(order) > 1:
            order.sort()
            first_file, first_row = order[0]
            for later in order[1:]:
                yield _place(*later), f"{first_file} row {first_row}"


class _ReadRows(beam.DoFn):
    def __init__(self, parser: Parser[Any], max_bytes: int, per_file: bool) -> None:
        self.parser = parser
        self.max_bytes = max_bytes
        self.per_file = per_file

    def process(self, piece: Piece, repeated: dict[str, str]) -> Iterator[Any]:
        count = unreadable = 0
        for number, values in raw_rows(piece, self.parser.columns, self.max_bytes):
            count += 1
            try:
                if isinstance(values, RowUnreadable):
                    raise values
                row = self.parser(values, piece.name, number)
                first = repeated.get(_place(piece.name, number)) if repeated else None
                if first is not None:
                    message = f"the id {row.id!r} already stands in {first}"
                    raise RowUnreadable("duplicate_id", message, getattr(row, "text", ""), row.id)
                yield row
            except RowUnreadable as error:
                unreadable += 1
                id = error.id or f"{piece.name}:{number}"
                place: dict[str, Any] = {"source_id": error.id, "source_file": piece.name, "source_row": number}
                row = failed_row(id, "read", error.error, str(error), error.excerpt, **place)
                yield beam.pvalue.TaggedOutput(FAILED, row)
        counted = {"read": count, "unreadable": unreadable}
        if self.per_file:
            counted[f"read from {piece.name}"] = count
        for one in counted.items():
            yield beam.pvalue.TaggedOutput(COUNTS, one)

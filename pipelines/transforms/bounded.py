"""Reading files that strangers made, in memory and time that do not depend on what they say of themselves.

A few kilobytes may unpack to terabytes: compressed streams, Parquet dictionaries of which every row repeats a huge value,
lists written as run lengths. Nothing here is held whole; what goes beyond a bound is an error of the file or of the row.
"""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zstandard

RATIO, FREE = 200, 1 << 28
"""A compressed file may unpack to so many times its size once it has unpacked to so many bytes. Texts come to ten, tables of
equal rows to fifty."""
BLANK = 100_000
"""Blank lines in a row after which a file is no table of rows."""
COLUMNS = 10_000
"""Columns that a Parquet file may have."""
ROWS_PER_BYTE, FEW_ROWS = 100, 10_000_000
"""Rows that a Parquet file may have for each of its bytes, once it says it has so many."""
VALUES = 50_000_000
"""Values that a column of one row group may have."""
CHUNK_RATIO = 1000
"""How often the pages of a Parquet column may be larger unpacked than packed, once they are larger than `FREE`."""
HELD = 1 << 25
"""Bytes of rows that are made into Python values at a time."""
DICTIONARY = 4 << 20
"""Bytes of a dictionary whose values are written out as they are read."""
_BATCH = 512


class _Counted(io.RawIOBase):
    """A file, and how much of it has been read."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._raw.read(size)
        self.count += len(piece)
        return piece

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Bounded(io.RawIOBase):
    """What a compressed file unpacks to, as long as that is in proportion."""

    def __init__(self, packed: _Counted, stream: Any) -> None:
        self._packed = packed
        self._stream = stream
        self._made = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read1(len(buffer))  # what there is, before what is broken
        buffer[: len(piece)] = piece
        self._made += len(piece)
        if self._made > FREE and self._made > RATIO * self._packed.count:
            raise ValueError(f"it unpacks to more than {RATIO} times its size, like a file made to exhaust its reader")
        return len(piece)

    def close(self) -> None:
        self._packed.close()
        super().close()


def unpacked(raw: BinaryIO, kind: str) -> BinaryIO:
    """The bytes of a compressed file, `kind` being `gz` or `zst`. Reading raises ValueError beyond `RATIO`."""
    packed = _Counted(raw)
    stream: Any
    if kind == "gz":
        stream = gzip.GzipFile(fileobj=packed)
    else:
        stream = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)  # type: ignore[arg-type]
    return io.BufferedReader(_Bounded(packed, stream), 1 << 17)


def check_parquet(metadata: pq.FileMetaData, size: int) -> None:
    """
    Raises:
        ValueError: the file says of itself what no corpus is: too many columns, two of one name, rows out of proportion.
    """
    if metadata.num_columns > COLUMNS:
        raise ValueError(f"it has {metadata.num_columns:,} columns, more than {COLUMNS:,}")
    names = metadata.schema.to_arrow_schema().names
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"it has {names.count(name)} columns named {name!r}; rename all but one")
    if metadata.num_rows > FEW_ROWS and metadata.num_rows > ROWS_PER_BYTE * size:
        raise ValueError(f"it says it has {metadata.num_rows:,} rows in {size:,} bytes")


def parquet_values(
    raw: BinaryIO, groups: Sequence[int] | None, columns: Sequence[str] | None, max_bytes: int, skip: int = 0
) -> Iterator[dict[str, Any] | int]:
    """Rows of a Parquet file as dicts, in order; of a row that holds more than `max_bytes`, how many.

    Args:
        groups: row groups to read; None for all.
        columns: those of them that exist are read; None for all.
        skip: rows of the first group to leave out; they are unpacked, but made into no values.

    Raises:
        ValueError, OSError: the file is broken, or out of proportion.
    """
    metadata = pq.read_metadata(raw)
    names = metadata.schema.to_arrow_schema().names
    chosen = set(names if columns is None else columns)
    groups = range(metadata.num_row_groups) if groups is None else groups
    _check_footer(metadata, raw.seek(0, io.SEEK_END), groups)
    shared: set[str] = set()
    batch = _BATCH
    for group in groups:
        for number in range(metadata.num_columns):
            chunk, path = metadata.row_group(group).column(number), metadata.schema.column(number).path
            if (
                chunk.path_in_schema != path
            ):  # pages are read by the schema: what is checked by another name is not what is read
                raise ValueError(f"its footer calls the column {path!r} {chunk.path_in_schema!r} elsewhere")
            if path.split(".")[0] not in chosen and path not in chosen:
                continue
            _check_chunk(chunk)
            if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page:
                longest = _dictionary_bytes(raw, chunk)
                if longest > DICTIONARY:
                    shared.add(path)
                else:  # written out, since that is five times as fast
                    batch = max(1, min(batch, HELD // max(1, longest)))
            elif "DELTA_BYTE_ARRAY" in chunk.encodings:  # each value may repeat all of the one before
                batch = max(1, min(batch, HELD // max(1, chunk.total_uncompressed_size)))
    # Read as a dictionary, equal values stand in memory once, as they do in the file.
    file = pq.ParquetFile(raw, metadata=metadata, read_dictionary=sorted(shared))
    present = [name for name in names if name in chosen]
    for records in file.iter_batches(batch_size=batch, row_groups=list(groups), columns=present):
        skip, passed = max(0, skip - records.num_rows), skip
        if passed < records.num_rows:
            yield from _values(records.slice(passed), max_bytes)


class _NotRead(OSError):
    """The pages of a file were to be read."""


class _OnlyFooter(io.RawIOBase):
    """A file of which nothing can be read."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int = -1) -> bytes:
        raise _NotRead


def _check_footer(metadata: pq.FileMetaData, size: int, groups: Sequence[int]) -> None:
    """What a footer says of each column of a row group contradicts itself nowhere. Arrow's own reader says so as an error;
    the same found by `FileMetaData.row_group().column()` ends the process, since that call cannot raise (pyarrow 25). So the
    reader is sent first, as far as the pages. Where all is well it does not get further than to ask for them.

    Raises:
        ValueError, OSError: it does.
    """
    reader = pq.ParquetFile(_OnlyFooter(size), metadata=metadata, pre_buffer=True)
    with contextlib.suppress(_NotRead):
        next(reader.iter_batches(batch_size=1, row_groups=list(groups)), None)


def _dictionary_bytes(raw: BinaryIO, chunk: pq.ColumnChunkMetaData) -> int:
    """Bytes that the dictionary of a column unpacks to, and so more than any value has: from the head of its page, beyond which
    Arrow does not unpack it either. Very large where the head is not to be read."""
    raw.seek(chunk.dictionary_page_offset)
    head, place = raw.read(32), 0
    numbers: list[int] = []
    # Thrift's compact form of three 32-bit fields: the page's type, its size unpacked, its size packed.
    while len(numbers) < 3 and head[place : place + 1] == b"\x15":
        value = shift = 0
        place += 1
        while place < len(head):
            value |= (head[place] & 0x7F) << shift
            shift, place = shift + 7, place + 1
            if head[place - 1] < 0x80:
                break
        numbers.append((value >> 1) ^ -(value & 1))
    return max(numbers[1:]) if len(numbers) == 3 and min(numbers) >= 0 else 1 << 62


def _check_chunk(chunk: pq.ColumnChunkMetaData) -> None:
    if chunk.num_values > VALUES:
        raise ValueError(f"a row group has {chunk.num_values:,} values in {chunk.path_in_schema}, more than {VALUES:,}")
    packed, size = chunk.total_compressed_size, chunk.total_uncompressed_size
    if size > FREE and size > CHUNK_RATIO * packed:
        raise ValueError(f"{chunk.path_in_schema} unpacks {packed:,} bytes to {size:,}, more than {CHUNK_RATIO} times")


def _values(records: pa.RecordBatch, max_bytes: int) -> Iterator[dict[str, Any] | int]:
    """The rows of a batch, as many at a time as fit into `HELD`."""
    sizes = np.zeros(records.num_rows, dtype=np.int64)
    for column in records.columns:
        sizes += _sizes(column)
    if sizes.sum() <= HELD and (not len(sizes) or sizes.max() <= max_bytes):
        yield from _as_dicts(records)
        return
    start = 0
    while start < len(sizes):
        if sizes[start] > max_bytes:
            yield int(sizes[start])
            start += 1
            continue
        end, held = start, 0
        while end < len(sizes) and sizes[end] <= max_bytes and (end == start or held + sizes[end] <= HELD):
            held += int(sizes[end])
            end += 1
        yield from _as_dicts(records.slice(start, end - start))
        start = end


def _as_dicts(records: pa.RecordBatch) -> list[dict[str, Any]]:
    # Written out, a column is made into Python values ten times as fast as through its dictionary.
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in records.columns]
    return pa.RecordBatch.from_arrays(columns, names=records.schema.names).to_pylist()


def _sizes(array: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes that each value takes, with those of equal values counted each time."""
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _sizes(array.cast(pa.large_binary()))
    if pa.types.is_dictionary(kind):
        return _taken(_sizes(array.dictionary), array.indices)
    if _is_bytes(kind):
        return np.asarray(pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False), dtype=np.int64)
    if pa.types.is_struct(kind):
        return sum((_sizes(array.field(i)) for i in range(kind.num_fields)), np.full(len(array), 8, dtype=np.int64))
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets = array.offsets.to_numpy()
        inner = _sizes(array.keys) + _sizes(array.items) if pa.types.is_map(kind) else _sizes(array.values)
        sums = np.concatenate(([0], np.cumsum(inner + 8)))
        return sums[offsets[1:]] - sums[offsets[:-1]]
    if pa.types.is_fixed_size_list(kind):
        return np.full(len(array), 8 * kind.list_size, dtype=np.int64)
    width = kind.bit_width // 8 if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) else 0
    return np.full(len(array), max(8, width), dtype=np.int64)


def _taken(sizes: np.ndarray[Any, np.dtype[np.int64]], indices: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    places = np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.where(places >= 0, np.append(sizes, 0)[places], 0)


def _is_bytes(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds)

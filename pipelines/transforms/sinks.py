"""Writing rows as Parquet shards, whole or not at all, the same bytes whatever the order in which rows arrive."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import apache_beam as beam
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
import zstandard
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue
from tokenmill.inference.errors import RunStopped
from tokenmill.inference.redaction import redacted
from tokenmill.pipelines.transforms.files import replace_file
from tokenmill.schemas.columns import arrow_schema, stored
from tokenmill.schemas.draws import digest

ROW_GROUP = 1000
"""Rows per row group: small enough for a viewer to open one."""
ORDER = ("source_file", "source_row", "id")
"""Rows of a shard are sorted by these columns, those of them that the row type has."""
HELD_BYTES = 1 << 23
"""Bytes of rows that a worker holds before it writes them."""

TOLD = ".json"
"""Ending of the file beside a shard that says what `Shard` says."""
EMPTY = "no-rows"
"""File beside the shards of `data`: one without rows, for a run that keeps none."""

Place = tuple[str, int, int]
"""(file, offset, length), the last two in bytes."""
Placed, Framed = tuple[int, Place], tuple[int, bytes]
Run = Place | bytes
"""Rows of one shard: where they stand, or themselves, JSON lines in a zstd frame."""


class Shard(NamedTuple):
    """What is known of a Parquet file since it was written."""

    rows: int
    bytes: int
    sha256: str


def describe(path: str) -> Shard:
    """What is known of a shard: from the file beside it, without reading the shard itself."""
    with FileSystems.open(f"{path}{TOLD}", compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return Shard(*orjson.loads(file.read()))


class _Hashed:
    """A file being written, with its length and hash so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        self.sha256 = hashlib.sha256()
        self.closed = False

    def write(self, part: Any) -> int:
        self._file.write(bytes(part))
        self.sha256.update(part)
        self.size += len(part)
        return len(part)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        self.closed = True  # the file itself is closed by who opened it


def write_parquet(table: pa.Table, path: str) -> Shard:
    """Write a table, in the order of `ORDER`, as the Hub likes it: zstd, page index, content-defined chunking, small
    row groups.

    Rows are put in order one row group at a time, and the file appears under its name only when it is complete.

    Raises:
        RunStopped: the disk is full.
    """
    order = pc.sort_indices(table, [(name, "ascending") for name in ORDER if name in table.column_names])
    part = f"{path}.part-{uuid.uuid4().hex}"  # containers have the same process numbers
    with (
        room_for(path),
        FileSystems.create(part, mime_type="application/octet-stream", compression_type="uncompressed") as raw,
        contextlib.closing(_Hashed(raw)) as file,
        pq.ParquetWriter(
            file,
            table.schema,
            compression="zstd",
            compression_level=3,
            write_page_index=True,
            use_content_defined_chunking=True,
        ) as writer,
    ):
        for start in range(0, table.num_rows, ROW_GROUP):
            writer.write_table(table.take(order.slice(start, ROW_GROUP)), row_group_size=ROW_GROUP)
    replace_file(part, path)  # an earlier attempt of this bundle may have got this far
    return Shard(table.num_rows, file.size, file.sha256.hexdigest())


def write_shard(table: pa.Table, path: str) -> None:
    """`write_parquet`, and beside the file what `describe` reads.

    Raises:
        RunStopped: the disk is full.
    """
    told = write_parquet(table, path)
    part = f"{path}{TOLD}.part-{uuid.uuid4().hex}"
    with room_for(path), FileSystems.create(part, "application/json", compression_type="uncompressed") as file:
        file.write(orjson.dumps(list(told)))
    replace_file(part, f"{path}{TOLD}")


@contextlib.contextmanager
def room_for(path: str) -> Iterator[None]:
    """
    Raises:
        RunStopped: there is no room for the file; the run can go on once there is.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        folder = FileSystems.split(path)[0]
        raise RunStopped(f"{folder} is full ({error.strerror}); make room and repeat the command to go on") from error


@dataclass(frozen=True)
class Together:
    """Columns that are known only when rows stand beside each other."""

    key: str
    """Column by whose hash a row's shard is drawn in place of its id: rows that share it are in one shard."""
    fill: Callable[[pa.Table], pa.Table]
    """Gives the rows of one shard, in any order, with these columns filled in."""


class WriteShards(beam.PTransform[Any, Any]):
    """Rows as `FOLDER/shard-NNNNN.parquet`; a shard without rows makes no file. Gives the paths written.

    Workers write their rows to files of their own, sorted by shard, and only places in those files are shuffled; then each
    shard is put together from its runs of rows. On a cluster the runs themselves are shuffled: reading each from a store would
    take shards x runs requests. A row's shard is drawn by hash of its id, and rows within a shard are sorted, so
    that the bytes do not depend on the number of workers.
    """

    def __init__(
        self, folder: str, row_type: type, shards: int, together: Together | None = None, *, shuffled: bool = False
    ) -> None:
        super().__init__()
        self.shuffled = shuffled
        self.folder = folder
        self.row_type = row_type
        self.shards = shards
        self.together = together

    def expand(self, rows: beam.PCollection[Any]) -> beam.PCollection[Any]:
        key, fill = (self.together.key, self.together.fill) if self.together else ("id", None)
        runs = _WriteRuns("" if self.shuffled else self.folder, self.shards, key)
        return (
            rows
            | "Write runs" >> beam.ParDo(runs).with_output_types(Framed if self.shuffled else Placed)
            | "Gather runs" >> beam.GroupByKey()
            | "Write shard" >> beam.ParDo(_WriteShard(self.folder, self.row_type, fill)).with_output_types(str)
        )


class _WriteRuns(beam.DoFn):
    """Rows as JSON lines, held until the bundle ends or there are many, then written to one file, those of each shard in a
    zstd frame of their own. Gives (shard, where in which file). A bundle that is repeated writes new files.

    Without a folder it gives (shard, frame).
    """

    def __init__(self, folder: str, shards: int, key: str = "id") -> None:
        self.folder = folder
        self.shards = shards
        self.key = key

    def start_bundle(self) -> None:
        self._held: dict[int, bytearray] = {}
        self._bytes = 0

    def process(self, row: Any) -> list[tuple[int, Run]] | None:
        shard = digest("shard", getattr(row, self.key)) % self.shards if self.shards > 1 else 0
        line = _as_json(row)
        held = self._held.get(shard)
        if held is None:
            held = self._held[shard] = bytearray()
        held += line
        self._bytes += len(line)
        return self._write() if self._bytes >= HELD_BYTES else None

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window = GlobalWindow()
        for run in self._write():
            yield WindowedValue(run, window.max_timestamp(), (window,))

    def _write(self) -> list[tuple[int, Run]]:
        if not self._held:
            return []
        compressor = zstandard.ZstdCompressor(level=1)
        self._bytes = 0
        if not self.folder:
            held, self._held = self._held, {}
            return [(shard, compressor.compress(rows)) for shard, rows in held.items()]
        path = FileSystems.join(self.folder, f"run-{uuid.uuid4().hex}.jsonl.zst")
        runs: list[tuple[int, Run]] = []
        offset = 0
        with (
            room_for(path),
            FileSystems.create(path, mime_type="application/zstd", compression_type="uncompressed") as file,
        ):
            for shard in list(self._held):
                frame = compressor.compress(self._held.pop(shard))
                file.write(frame)
                runs.append((shard, (path, offset, len(frame))))
                offset += len(frame)
        return runs


class _WriteShard(beam.DoFn):
    def __init__(self, folder: str, row_type: type, fill: Callable[[pa.Table], pa.Table] | None = None) -> None:
        self.folder = folder
        self.row_type = row_type
        self.fill = fill

    def process(self, shard: tuple[int, Iterable[Run]]) -> Iterator[str]:
        number, runs = shard
        path = FileSystems.join(self.folder, f"shard-{number:05d}.parquet")
        rows = read_rows(b"".join(_read_runs(runs)), self.row_type)
        write_shard(self.fill(rows) if self.fill else rows, path)
        pa.default_memory_pool().release_unused()
        yield path


def _read_runs(runs: Iterable[Run]) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor()
    places = []
    for run in runs:
        if isinstance(run, bytes):
            yield decompressor.decompress(run)
        else:
            places.append(run)
    for path, parts in itertools.groupby(sorted(places), key=lambda run: run[0]):
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            for _, offset, length in parts:
                file.seek(offset)
                yield decompressor.decompress(file.read(length))


def _as_json(row: Any) -> bytes:
    # In a process that has not imported a row's type, Beam decodes it as a named tuple of its own making.
    # What an endpoint was sent it may repeat, in a refusal or in an answer.
    return redacted(orjson.dumps(row, default=lambda part: part._asdict(), option=orjson.OPT_APPEND_NEWLINE))


def read_rows(lines: bytes, row_type: type) -> pa.Table:
    """Rows of one type, a JSON object a line, as a table."""
    schema = arrow_schema(row_type)
    read = pa.schema([pa.field(f.name, stored(f.type), f.nullable) for f in schema])
    # In one block: a row must not be longer than a block, and a shard is small enough to be one.
    table = pj.read_json(
        pa.BufferReader(lines),
        pj.ReadOptions(block_size=len(lines) + 1, use_threads=False),
        pj.ParseOptions(explicit_schema=read, unexpected_field_behavior="error"),
    )
    return table.cast(schema)

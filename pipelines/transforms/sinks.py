"""Writing rows as Parquet shards, whole or not at all, the same bytes whatever the order in which rows arrive."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import orjson
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from schemas.columns import arrow_schema
from schemas.draws import digest

ROW_GROUP = 1000
"""Rows per row group: small enough for a viewer to open one."""
ORDER = ("source_file", "source_row", "id")
"""Rows of a shard are sorted by these columns, those of them that the row type has."""


def write_parquet(table: pa.Table, path: str) -> None:
    """Write a table as the Hub likes it: zstd, page index, content-defined chunking, small row groups.

    The file appears under its name only when it is complete.
    """
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="zstd",
        compression_level=3,
        row_group_size=ROW_GROUP,
        write_page_index=True,
        use_content_defined_chunking=True,
    )
    part = f"{path}.part-{os.getpid()}"
    with FileSystems.create(part, mime_type="application/octet-stream") as file:
        file.write(buffer.getbuffer())
    if FileSystems.exists(path):  # an earlier attempt of this bundle got this far
        FileSystems.delete([path])
    FileSystems.rename([part], [path])


def _as_json(row: Any) -> bytes:
    # In a process that has not imported a row's type, Beam decodes it as a named tuple of its own making.
    return orjson.dumps(row, default=lambda part: part._asdict())


class WriteShards(beam.PTransform):
    """Rows as `FOLDER/shard-NNNNN.parquet`; a shard without rows makes no file. Gives the paths written.

    A row's shard is drawn by hash of its id, and rows within a shard are sorted, so that the bytes do not depend on the
    number of workers. The driver numbers the files once all are there.
    """

    def __init__(self, folder: str, row_type: type, shards: int) -> None:
        super().__init__()
        self.folder = folder
        self.row_type = row_type
        self.shards = shards

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        shards = self.shards
        return (
            rows
            # Rows travel to their shard as JSON, which Arrow reads in one go without making Python objects of them again.
            | "Draw shard"
            >> beam.Map(
                lambda row: (digest("shard", row.id) % shards if shards > 1 else 0, _as_json(row))
            ).with_output_types(tuple[int, bytes])
            | "Gather shard" >> beam.GroupByKey()
            | "Write shard" >> beam.ParDo(_WriteShard(self.folder, self.row_type)).with_output_types(str)
        )


class _WriteShard(beam.DoFn):
    def __init__(self, folder: str, row_type: type) -> None:
        self.folder = folder
        self.row_type = row_type

    def process(self, shard: tuple[int, Iterable[bytes]]) -> Iterator[str]:
        number, rows = shard
        table = sorted_table(rows, self.row_type)
        path = FileSystems.join(self.folder, f"shard-{number:05d}.parquet")
        write_parquet(table, path)
        yield path


def sorted_table(rows: Iterable[bytes], row_type: type) -> pa.Table:
    """Rows of one type, each as a JSON object, as one table in the order of `ORDER`."""
    lines = list(rows)
    schema = arrow_schema(row_type)
    block = max(1 << 20, 2 * max(map(len, lines)) + 2)
    table = pj.read_json(
        io.BytesIO(b"\n".join(lines)),
        pj.ReadOptions(block_size=block, use_threads=False),
        pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    return table.cast(schema).sort_by([(name, "ascending") for name in ORDER if name in schema.names]).combine_chunks()

"""Writing rows as Parquet shards, whole or not at all, the same bytes whatever the order in which rows arrive."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from schemas.columns import arrow_schema, to_table
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
        row_type, shards = self.row_type, self.shards
        return (
            rows
            | "Draw shard"
            >> beam.Map(lambda row: (digest("shard", row.id) % shards if shards > 1 else 0, row)).with_output_types(
                tuple[int, row_type]  # type: ignore[valid-type]
            )
            | "Gather shard" >> beam.GroupByKey()
            | "Write shard" >> beam.ParDo(_WriteShard(self.folder, row_type)).with_output_types(str)
        )


class _WriteShard(beam.DoFn):
    def __init__(self, folder: str, row_type: type) -> None:
        self.folder = folder
        self.row_type = row_type

    def process(self, shard: tuple[int, Iterable[Any]]) -> Iterator[str]:
        number, rows = shard
        table = sorted_table(rows, self.row_type)
        path = FileSystems.join(self.folder, f"shard-{number:05d}.parquet")
        write_parquet(table, path)
        yield path


def sorted_table(rows: Iterable[Any], row_type: type) -> pa.Table:
    """Rows of one type as one table in the order of `ORDER`. Rows are turned into Arrow as they come, so that no more
    than a thousand of them are Python objects at a time."""
    tables, batch = [], []
    for row in rows:
        batch.append(row)
        if len(batch) == ROW_GROUP:
            tables.append(to_table(batch, row_type))
            batch = []
    tables.append(to_table(batch, row_type))
    table = pa.concat_tables(tables)
    schema = arrow_schema(row_type)
    return table.sort_by([(name, "ascending") for name in ORDER if name in schema.names]).combine_chunks()

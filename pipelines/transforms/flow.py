"""How every DAG begins and ends: with the rows of the input, and with shards of what is kept, refused and failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from tokenmill.inference.roles import Models
from tokenmill.pipelines.transforms import DATA, FAILED, PAIRS, REJECTED
from tokenmill.pipelines.transforms.sinks import EMPTY, Together, WriteShards, write_shard
from tokenmill.pipelines.transforms.sources import Parser, Piece, ReadRows
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.documents import FailedRow


@dataclass(frozen=True)
class Flow:
    """What a DAG is laid between, and whom its steps may ask."""

    root: beam.Pipeline
    models: Models
    pieces: Sequence[Piece]
    parser: Parser[Any] | None
    max_row_bytes: int
    folder: str
    """Gets {data,rejected,failed}."""
    shards: int

    def read(self) -> tuple[beam.PCollection[Any], beam.PCollection[Any]]:
        """Typed rows of the input, one per id; and of each row that cannot be read, a `FailedRow`."""
        assert self.parser is not None  # a job that reads rows has one
        return self.root | "Read" >> ReadRows(self.pieces, self.parser, max_bytes=self.max_row_bytes)

    def write(
        self,
        data: type,
        rejected: type,
        kept: beam.PCollection[Any],
        refused: Sequence[beam.PCollection[Any]],
        failed: Sequence[beam.PCollection[Any]],
        together: Together | None = None,
    ) -> None:
        """Write what became of all rows.

        Args:
            data, rejected: types of the rows `kept` and `refused`.
            together: columns of the rows kept that are filled in when these stand beside each other.
        """
        write_shard(to_table([], data), f"{self.folder}/{DATA}/{EMPTY}")
        for kind, row_type, parts in ((DATA, data, [kept]), (REJECTED, rejected, refused), (FAILED, FailedRow, failed)):
            rows = parts[0] if len(parts) == 1 else parts | f"All {kind}" >> beam.Flatten()
            fill = together if kind == DATA else None
            _ = rows | f"Write {kind}" >> WriteShards(
                f"{self.folder}/{kind}", row_type, self.shards, fill, shuffled=bool(self.models.attempt)
            )

    def write_rolled(
        self,
        rolled: beam.pvalue.DoOutputsTuple,
        unreadable: beam.PCollection[Any],
        data: type,
        rejected: type,
        together: Together | None = None,
        pairs: type | None = None,
    ) -> None:
        """`write` for what came of one `Rollout`.

        Args:
            pairs: type of its `Paired` rows, where it makes any.
        """
        self.write(data, rejected, rolled[DATA], [rolled[REJECTED]], [unreadable, rolled[FAILED]], together)
        if pairs is not None:
            _ = rolled[PAIRS] | f"Write {PAIRS}" >> WriteShards(
                f"{self.folder}/{PAIRS}", pairs, self.shards, shuffled=bool(self.models.attempt)
            )

"""The first pass: read, extract, filter one document after the other, and write what passed to files of its own."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from tokenmill.pipelines.corpus.funnel import count_failed, count_read, count_refused
from tokenmill.pipelines.corpus.pages import rows_of
from tokenmill.pipelines.corpus.parse import CorpusParser, FoundDocument
from tokenmill.pipelines.corpus.portions import BATCH, Candidate, Portion, Sign, clean_file, row_key
from tokenmill.pipelines.corpus.screen import Screen
from tokenmill.pipelines.transforms import FAILED, REJECTED
from tokenmill.pipelines.transforms.counts import COUNTS, Tallying, keep, tally
from tokenmill.pipelines.transforms.files import replace_file
from tokenmill.pipelines.transforms.sinks import room_for
from tokenmill.pipelines.transforms.sources import COUNTED_FILES, RowUnreadable
from tokenmill.schemas.columns import arrow_schema, to_table
from tokenmill.schemas.corpus import CorpusDocument, RefusedDocument
from tokenmill.schemas.documents import FailedRow, failed_row

PRINTS = "prints"


class Cleaned(NamedTuple):
    """What came of the first pass."""

    portions: beam.PCollection[Any]
    """Numbers of the portions, each once its clean file is there."""
    prints: beam.PCollection[Any]
    """Whatever `Sign` yielded; empty without one."""
    rejected: beam.PCollection[Any]
    failed: beam.PCollection[Any]


class ExtractAndFilter(beam.PTransform[Any, Any]):
    """Portion -> `Cleaned`. Every row ends in a clean file, in `rejected` or in `failed`.

    Args:
        screen: what is done with each document, and what is asked of it.
        folder: gets the clean files.
        sign: see `Sign`.
        files: input files in all; few of them are counted each.
    """

    def __init__(self, screen: Screen, folder: str, max_bytes: int, sign: Sign | None = None, files: int = 0) -> None:
        super().__init__()
        self.clean = _Clean(screen, folder, max_bytes, sign, files <= COUNTED_FILES)

    def expand(self, portions: beam.PCollection[Any]) -> Cleaned:
        made = portions | beam.ParDo(self.clean).with_outputs(PRINTS, REJECTED, FAILED, COUNTS, main="portions")
        keep(made[COUNTS])
        made["portions"].element_type = int
        made[REJECTED].element_type = RefusedDocument
        made[FAILED].element_type = FailedRow
        return Cleaned(made["portions"], made[PRINTS], made[REJECTED], made[FAILED])


@dataclass
class _Clean(Tallying):
    screen: Screen
    folder: str
    max_bytes: int
    sign: Sign | None
    per_file: bool

    def __post_init__(self) -> None:
        super().__init__()

    def process(self, portion: Portion) -> Iterator[Any]:
        path = clean_file(self.folder, portion.number)
        part = f"{path}.part-{uuid.uuid4().hex}"
        schema = arrow_schema(CorpusDocument)
        held: list[Candidate] = []
        rows = 0
        with (
            room_for(path),
            _created(part) as file,
            pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as writer,
        ):
            for found in self._read(portion):
                outcome = self._outcome(found) if isinstance(found, FoundDocument) else found
                if isinstance(outcome, Candidate):
                    held.append(outcome)
                    if len(held) == BATCH:
                        yield from self._flush(writer, portion.number, rows, held)
                        rows, held = rows + len(held), []
                elif isinstance(outcome, RefusedDocument):
                    tally(REJECTED)
                    count_refused(outcome)
                    yield beam.pvalue.TaggedOutput(REJECTED, outcome)
                else:
                    count_failed(outcome.source_file)
                    yield beam.pvalue.TaggedOutput(FAILED, outcome)
            yield from self._flush(writer, portion.number, rows, held)
        replace_file(part, path)  # an earlier attempt of this bundle may have got this far
        yield portion.number

    def _read(self, portion: Portion) -> Iterator[FoundDocument | FailedRow]:
        parser = CorpusParser()
        for piece in portion.pieces:
            count = 0
            for number, values in rows_of(piece, parser.columns, self.max_bytes):
                count += 1
                try:
                    if isinstance(values, RowUnreadable):
                        raise values
                    yield parser(values, piece.name, number)
                except RowUnreadable as error:
                    tally("unreadable")
                    id = error.id or f"{piece.name}:{number}"
                    place: dict[str, Any] = {"source_id": error.id, "source_file": piece.name, "source_row": number}
                    yield failed_row(id, "read", error.error, str(error), error.excerpt, **place)
            tally("read", count)
            count_read(piece.name, count)
            if self.per_file:
                tally(f"read from {piece.name}", count)

    def _outcome(self, found: FoundDocument) -> Candidate | RefusedDocument | FailedRow:
        outcome = self.screen(found)
        if isinstance(outcome, FailedRow):
            tally(FAILED)
        return outcome

    def _flush(self, writer: pq.ParquetWriter, portion: int, first: int, held: Sequence[Candidate]) -> Iterator[Any]:
        if not held:
            return
        writer.write_table(to_table([one.document for one in held], CorpusDocument))
        if self.sign is not None:
            keys = range(row_key(portion, first), row_key(portion, first + len(held)))
            for made in self.sign(keys, held):
                yield beam.pvalue.TaggedOutput(PRINTS, made)


@contextlib.contextmanager
def _created(path: str) -> Iterator[Any]:
    with FileSystems.create(path, mime_type="application/octet-stream", compression_type="uncompressed") as file:
        yield file

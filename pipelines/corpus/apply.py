"""The second pass over cleaned rows: each file is read once more, with the decisions on its own rows beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from tokenmill.pipelines.corpus.funnel import count_kept, count_refused
from tokenmill.pipelines.corpus.portions import BATCH, Decision, clean_file, portion_of, row_of
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.transforms import DATA, REJECTED
from tokenmill.pipelines.transforms.counts import COUNTS, Tallying, keep, tally
from tokenmill.schemas.corpus import CorpusDocument, RefusedDocument, Screening


class ApplyDecisions(beam.PTransform[Any, Any]):
    """Numbers of portions, and `Decision`s -> (CorpusDocument, RefusedDocument).

    Only decisions are shuffled, to the portion whose rows they fall on.
    """

    def __init__(self, folder: str, decisions: beam.PCollection[Any] | None = None) -> None:
        super().__init__()
        self.folder = folder
        self.decisions = decisions

    def expand(self, portions: beam.PCollection[Any]) -> tuple[beam.PCollection[Any], beam.PCollection[Any]]:
        joined = {"portions": portions | "Key portions" >> beam.Map(lambda number: (number, number))}
        if self.decisions is not None:
            joined["decisions"] = self.decisions | "By portion" >> beam.Map(lambda one: (portion_of(one.key), one))
        applied = (
            joined
            | "Beside their rows" >> beam.CoGroupByKey()
            | "Apply" >> beam.ParDo(_Apply(self.folder)).with_outputs(REJECTED, COUNTS, main=DATA)
        )
        keep(applied[COUNTS])
        applied[DATA].element_type = CorpusDocument
        applied[REJECTED].element_type = RefusedDocument
        return applied[DATA], applied[REJECTED]


class _Apply(Tallying):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, found: tuple[int, dict[str, Iterable[Any]]]) -> Iterator[Any]:
        number, beside = found
        if not list(beside["portions"]):
            raise ValueError(f"a decision falls on portion {number}, which there is not")
        decisions: dict[int, list[Decision]] = {}
        for decision in beside.get("decisions", ()):
            decisions.setdefault(row_of(decision.key), []).append(Decision(*decision))
        for row, document in enumerate(read_clean(clean_file(self.folder, number))):
            made = decided(document, decisions.get(row, ()))
            if isinstance(made, RefusedDocument):
                tally(REJECTED)
                count_refused(made)
                yield beam.pvalue.TaggedOutput(REJECTED, made)
            else:
                tally(DATA)
                count_kept(made)
                yield made


def read_clean(path: str) -> Iterator[CorpusDocument]:
    """The rows of a clean file, in order."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as raw:
        for batch in pq.ParquetFile(raw).iter_batches(batch_size=BATCH):
            for values in batch.to_pylist():
                values["verdicts"] = [Screening(**verdict) for verdict in values["verdicts"]]
                yield CorpusDocument(**values)


def decided(document: CorpusDocument, decisions: Iterable[Decision]) -> CorpusDocument | RefusedDocument:
    """What becomes of a row."""
    ordered = sorted(decisions, key=lambda one: (one.reason, one.of))
    for drop in (one for one in ordered if one.reason):
        similarity = drop.similarity if drop.similarity >= 0 else None
        said = Screening(drop.check, False, 1 - (similarity or 0.0), drop.reason, drop.detail, drop.quote)
        return refused(document, said, drop.of, similarity)
    rows = max((one.source_rows for one in ordered), default=0)
    document = dataclasses.replace(document, source_rows=rows or document.source_rows)
    cuts = sorted({cut for one in ordered for cut in one.cuts}, reverse=True)
    if not cuts:
        return document
    text = document.text
    for start, end in cuts:
        text = text[:start] + text[end:]
    said = Screening(
        next(one.check for one in ordered if one.cuts), True, 1.0, "", f"{len(cuts)} passages taken out", ""
    )
    return dataclasses.replace(document, text=text, tokens=count_tokens(text), verdicts=[*document.verdicts, said])


def refused(
    document: CorpusDocument, said: Screening, of: str = "", similarity: float | None = None
) -> RefusedDocument:
    """The row of `rejected/` for a document, with the verdict that ended it."""
    values = {field.name: getattr(document, field.name) for field in dataclasses.fields(document)}
    values["verdicts"] = [*document.verdicts, said]
    return RefusedDocument(**values, reason=said.reason, duplicate_of=of, similarity=similarity)

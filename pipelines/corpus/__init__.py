"""A pre-training corpus from raw pages, code, mathematics and our own shards (Kimi K2 report, section 2.2).

sources | extract and filter each document by itself | decide over all of them | apply | data, rejected, failed

Texts are written twice and never shuffled: what crosses is a signature of each document, and a decision on some.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import apache_beam as beam
from tokenmill.pipelines.corpus.apply import ApplyDecisions
from tokenmill.pipelines.corpus.clean import ExtractAndFilter
from tokenmill.pipelines.corpus.deciding import Deciding
from tokenmill.pipelines.corpus.portions import portions_of
from tokenmill.pipelines.corpus.screen import Screen
from tokenmill.pipelines.corpus.weigh import Weigh
from tokenmill.pipelines.transforms import DATA
from tokenmill.pipelines.transforms.counts import COUNTS, keep
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.schemas.corpus import CorpusDocument, RefusedDocument


@dataclass(frozen=True)
class Corpus:
    """What becomes of the documents."""

    screen: Screen
    deciding: Deciding | None = field(default_factory=Deciding)
    """How it is decided over all of them; None for not at all."""


def build(config: Corpus, flow: Flow) -> None:
    """The whole job."""
    portions = (
        flow.root
        | "List portions" >> beam.Create(list(portions_of(flow.pieces)))
        | "Spread portions" >> beam.Reshuffle()
    )
    files = len({piece.name for piece in flow.pieces})
    cleaned = portions | "Extract and filter" >> ExtractAndFilter(
        config.screen, flow.folder, flow.max_row_bytes, config.deciding.sign if config.deciding else None, files
    )
    decisions = cleaned.prints | "Decide" >> config.deciding.decide(flow.folder) if config.deciding else None
    kept, dropped = cleaned.portions | "Apply decisions" >> ApplyDecisions(flow.folder, decisions)
    weighed = kept | "Weigh" >> beam.ParDo(Weigh()).with_outputs(COUNTS, main=DATA)
    keep(weighed[COUNTS])
    kept = weighed[DATA]
    kept.element_type = CorpusDocument
    flow.write(CorpusDocument, RefusedDocument, kept, [cleaned.rejected, dropped], [cleaned.failed])

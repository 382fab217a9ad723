"""Knowledge rephrasing (Kimi K2 report, section 2.2 and figure 4).

documents | draw styles and perspectives | rewrite chunk by chunk, verify, repair | data, rejected, failed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import apache_beam as beam
from apache_beam.coders import registry
from tokenmill.inference.roles import Models
from tokenmill.pipelines.knowledge.rephrase import Rephrase
from tokenmill.pipelines.knowledge.style_pairs import draw_pairs
from tokenmill.pipelines.transforms.documents import DocumentParser
from tokenmill.pipelines.transforms.rollout import Rollout
from tokenmill.pipelines.transforms.sinks import write_rolled
from tokenmill.pipelines.transforms.sources import Piece, ReadRows
from tokenmill.schemas.documents import Document
from tokenmill.schemas.knowledge import RefusedRephrasing, Rephrasing, RephrasingTask

for row_type in (RephrasingTask, Rephrasing, RefusedRephrasing):
    registry.register_row(row_type)


@dataclass(frozen=True)
class Knowledge:
    """Configuration of one run, all that shapes its rows."""

    step: Rephrase
    rephrasings: int = 2
    """Rewrites per document; the report rephrases its corpora at most twice."""
    parser: DocumentParser = field(default_factory=DocumentParser)
    max_document_bytes: int = 5_000_000

    def tasks(self, document: Document) -> Iterator[RephrasingTask]:
        """One task for each rephrasing of a document."""
        for index, (style, perspective) in enumerate(draw_pairs(self.rephrasings, self.step.seed, document.id)):
            yield RephrasingTask(document, index, style, perspective)


def build(config: Knowledge, root: beam.Pipeline, models: Models, pieces: Sequence[Piece], folder: str, shards: int):
    """The whole job on a pipeline: shards under `folder`/{data,rejected,failed}."""
    documents, unreadable = root | "Read" >> ReadRows(pieces, config.parser, max_bytes=config.max_document_bytes)
    tasks = documents | "Draw styles" >> beam.FlatMap(config.tasks).with_output_types(RephrasingTask)
    rephrased = tasks | "Rephrase" >> Rollout(config.step, models)
    write_rolled(rephrased, unreadable, folder, Rephrasing, RefusedRephrasing, shards)

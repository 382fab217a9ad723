"""Knowledge rephrasing (Kimi K2 report, section 2.2 and figure 4).

documents | draw styles that suit them, and perspectives | rewrite chunk by chunk, verify, repair | data, rejected, failed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.coders import registry
from tokenmill.pipelines.knowledge.content import kind_of
from tokenmill.pipelines.knowledge.rephrase import Rephrase
from tokenmill.pipelines.knowledge.row_figures import with_similarity
from tokenmill.pipelines.knowledge.style_pairs import Repertoire, draw_pairs
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Rollout
from tokenmill.pipelines.transforms.sinks import Together
from tokenmill.schemas.documents import Document
from tokenmill.schemas.knowledge import RefusedRephrasing, Rephrasing, RephrasingTask

for row_type in (RephrasingTask, Rephrasing, RefusedRephrasing):
    registry.register_row(row_type)


@dataclass(frozen=True)
class Knowledge:
    """What becomes of one document."""

    step: Rephrase
    rephrasings: int = 2
    """Rewrites per document; the report rephrases its corpora at most twice."""
    among: Repertoire | None = None
    """What is drawn from; None for all that is shipped."""

    def tasks(self, document: Document) -> Iterator[RephrasingTask]:
        """One task for each rephrasing of a document."""
        tokens = count_tokens(document.text)
        kind = kind_of(document.text, tokens)
        drawn = draw_pairs(self.rephrasings, self.step.seed, document.id, kind, tokens, self.among)
        for index, (style, perspective) in enumerate(drawn):
            yield RephrasingTask(document, index, style, perspective, kind, tokens)


def build(config: Knowledge, flow: Flow) -> None:
    """The whole job."""
    documents, unreadable = flow.read()
    tasks = documents | "Draw styles" >> beam.FlatMap(config.tasks).with_output_types(RephrasingTask)
    rephrased = tasks | "Rephrase" >> Rollout(config.step, flow.models)
    siblings = Together("source_id", with_similarity)
    flow.write_rolled(rephrased, unreadable, Rephrasing, RefusedRephrasing, siblings)

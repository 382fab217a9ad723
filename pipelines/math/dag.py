"""Mathematics as learning notes, and other languages into English (Kimi K2 report, section 2.2, after SwallowMath).

problems and texts | draw styles | check the source, translate, write, verify, repair | data, rejected, failed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import apache_beam as beam
from apache_beam.coders import registry
from tokenmill.inference.roles import Models
from tokenmill.pipelines.math.note import WriteNote
from tokenmill.pipelines.math.parse import ProblemParser
from tokenmill.pipelines.transforms.rollout import Rollout
from tokenmill.pipelines.transforms.sinks import write_rolled
from tokenmill.pipelines.transforms.sources import Piece, ReadRows
from tokenmill.schemas.draws import shuffled
from tokenmill.schemas.math import LearningNote, NoteTask, Problem, RefusedNote

from tokenmill import prompts

for row_type in (NoteTask, LearningNote, RefusedNote):
    registry.register_row(row_type)

STYLES = "math/styles"


@dataclass(frozen=True)
class MathNotes:
    """Configuration of one run, all that shapes its rows."""

    step: WriteNote
    notes: int = 1
    """Notes per source, each in another style."""
    parser: ProblemParser = field(default_factory=ProblemParser)
    max_document_bytes: int = 5_000_000

    def __post_init__(self) -> None:
        most = len(prompts.names(STYLES))
        if not 1 <= self.notes <= most:
            raise ValueError(f"there are {most} styles, so a source can have 1 to {most} notes, not {self.notes}")

    def tasks(self, problem: Problem) -> Iterator[NoteTask]:
        """One task for each note of a source; the first n styles of a longer draw are the draw of n."""
        styles = shuffled(prompts.names(STYLES), self.step.seed, problem.id, STYLES)
        for index, style in enumerate(styles[: self.notes]):
            yield NoteTask(problem, index, style)


def build(config: MathNotes, root: beam.Pipeline, models: Models, pieces: Sequence[Piece], folder: str, shards: int):
    """The whole job on a pipeline: shards under `folder`/{data,rejected,failed}."""
    problems, unreadable = root | "Read" >> ReadRows(pieces, config.parser, max_bytes=config.max_document_bytes)
    tasks = problems | "Draw styles" >> beam.FlatMap(config.tasks).with_output_types(NoteTask)
    written = tasks | "Write notes" >> Rollout(config.step, models)
    write_rolled(written, unreadable, folder, LearningNote, RefusedNote, shards)

"""Mathematics as learning notes, and other languages into English (Kimi K2 report, section 2.2, after SwallowMath).

problems and texts | draw styles and shapes | check the source, translate, write, verify, repair | data, rejected, failed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

import apache_beam as beam
from apache_beam.coders import registry
from tokenmill.pipelines.math.note import WriteNote
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Rollout
from tokenmill.schemas.draws import shuffled
from tokenmill.schemas.math import LearningNote, NoteTask, Problem, RefusedNote

from tokenmill import prompts

for row_type in (NoteTask, LearningNote, RefusedNote):
    registry.register_row(row_type)

STYLES, SHAPES = "math/styles", "math/shapes"


@dataclass(frozen=True)
class MathNotes:
    """What becomes of one source."""

    step: WriteNote
    notes: int = 1
    """Notes per source, each in another style."""

    def __post_init__(self) -> None:
        most = len(prompts.names(STYLES))
        if not 1 <= self.notes <= most:
            raise ValueError(f"there are {most} styles, so a source can have 1 to {most} notes, not {self.notes}")

    def tasks(self, problem: Problem) -> Iterator[NoteTask]:
        """One task for each note of a source, in another style and, while there are any, another shape; the first n of a longer
        draw are the draw of n."""
        styles = shuffled(prompts.names(STYLES), self.step.seed, problem.id, STYLES)
        fitting = [name for name in prompts.names(SHAPES) if problem.question or prompts.load(name).meta["documents"]]
        shapes = cycle(shuffled(fitting, self.step.seed, problem.id, SHAPES))
        for index, (style, shape) in enumerate(zip(styles[: self.notes], shapes, strict=False)):
            yield NoteTask(problem, index, style, shape)


def build(config: MathNotes, flow: Flow) -> None:
    """The whole job."""
    problems, unreadable = flow.read()
    tasks = problems | "Draw styles and shapes" >> beam.FlatMap(config.tasks).with_output_types(NoteTask)
    written = tasks | "Write notes" >> Rollout(config.step, flow.models)
    flow.write_rolled(written, unreadable, LearningNote, RefusedNote)

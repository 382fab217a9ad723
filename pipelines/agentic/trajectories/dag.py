"""Tool-use demonstrations (Kimi K2 report, section 3.1.1 and figure 8), each stage a run of its own:

tools  | draw tool-sets | write agents         | data, rejected, failed      tokenmill.pipelines.agentic.agents.dag
agents | draw levels    | write tasks, rubrics | data, rejected, failed      tokenmill.pipelines.agentic.tasks.dag
tasks  | repeat         | run and judge        | data, rejected, failed      here
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from tokenmill.inference.roles import Models
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES
from tokenmill.pipelines.transforms.rollout import Rollout, Step
from tokenmill.pipelines.transforms.sinks import write_rolled
from tokenmill.pipelines.transforms.sources import Parser, Piece, ReadRows
from tokenmill.schemas.agentic import RefusedTrajectory, Trajectory


@dataclass(frozen=True)
class Trajectories:
    """Configuration of one run, all that shapes its rows."""

    step: Step
    """What runs an attempt: `RunTrajectory`, or `RunCodeTask` for tasks whose tests decide."""
    parser: Parser
    samples: int = 1
    """Attempts at each task: more than one is rejection sampling."""
    max_document_bytes: int = MAX_ROW_BYTES

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"a task has at least one attempt, not {self.samples}")

    def attempts(self, task: Any) -> Iterator[Attempt]:
        """One element for each attempt at a task; the first n of more are the same attempts."""
        return (Attempt(task, sample) for sample in range(self.samples))


def build(
    config: Trajectories, root: beam.Pipeline, models: Models, pieces: Sequence[Piece], folder: str, shards: int
) -> None:
    """The whole job on a pipeline: shards under `folder`/{data,rejected,failed}."""
    tasks, unreadable = root | "Read" >> ReadRows(pieces, config.parser, max_bytes=config.max_document_bytes)
    attempts = tasks | "Repeat" >> beam.FlatMap(config.attempts) | "Spread" >> beam.Reshuffle()
    run = attempts | "Run and judge" >> Rollout(config.step, models)
    write_rolled(run, unreadable, folder, Trajectory, RefusedTrajectory, shards)

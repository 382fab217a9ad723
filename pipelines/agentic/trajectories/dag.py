"""Tool-use demonstrations (Kimi K2 report, section 3.1.1 and figure 8), each stage a run of its own:

tools  | draw tool-sets | write agents         | data, rejected, failed      tokenmill.pipelines.agentic.agents.dag
agents | draw levels    | write tasks, rubrics | data, rejected, failed      tokenmill.pipelines.agentic.tasks.dag
tasks  | repeat         | run and judge        | data, rejected, failed      here
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Rollout, Step
from tokenmill.schemas.agentic import RefusedTrajectory, Trajectory


@dataclass(frozen=True)
class Trajectories:
    """What becomes of one task."""

    step: Step[Any]
    """What runs an attempt: `RunTrajectory`, or `RunCodeTask` for tasks whose tests decide."""
    samples: int = 1
    """Attempts at each task: more than one is rejection sampling."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"a task has at least one attempt, not {self.samples}")

    def attempts(self, task: Any) -> Iterator[Attempt[Any]]:
        """One element for each attempt at a task; the first n of more are the same attempts."""
        return (Attempt(task, sample) for sample in range(self.samples))


def build(config: Trajectories, flow: Flow) -> None:
    """The whole job."""
    tasks, unreadable = flow.read()
    attempts = tasks | "Repeat" >> beam.FlatMap(config.attempts) | "Spread" >> beam.Reshuffle()
    run = attempts | "Run and judge" >> Rollout(config.step, flow.models)
    flow.write_rolled(run, unreadable, Trajectory, RefusedTrajectory)

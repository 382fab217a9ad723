"""Tool-use demonstrations (Kimi K2 report, section 3.1.1 and figure 8), each stage a run of its own:

tools  | draw tool-sets | write agents         | data, rejected, failed      tokenmill.pipelines.agentic.agents.dag
agents | draw levels    | write tasks, rubrics | data, rejected, failed      tokenmill.pipelines.agentic.tasks.dag
tasks  | spread         | run and judge        | data, rejected, failed      here
"""

from __future__ import annotations

import apache_beam as beam
from tokenmill.pipelines.agentic.trajectories.tries import TryTask
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Rollout
from tokenmill.schemas.agentic import PreferencePair, RefusedTrajectory, Trajectory


def build(step: TryTask, flow: Flow) -> None:
    """The whole job."""
    tasks, unreadable = flow.read()
    # A task may have several tries in flight: with fewer tasks at once as many calls are.
    window = max(2, Rollout(step, flow.models).window // step.wave)
    run = tasks | "Spread" >> beam.Reshuffle() | "Run and judge" >> Rollout(step, flow.models, window=window)
    flow.write_rolled(run, unreadable, Trajectory, RefusedTrajectory, pairs=PreferencePair if step.pairs else None)

"""Attempts at tasks of environments, each with its reward and the evidence for it.

    python beam_runner.py gym rollout game24 tables --tasks 500 --samples 4 --llm SPEC --output OUT
    python beam_runner.py gym rollout game24 --tasks 500 --samples 8 --accept 1 --llm SPEC --output OUT

With `--accept` only attempts with that reward are kept: rejection sampling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import apache_beam as beam
from tokenmill.gym.environment import OVER_BUDGET
from tokenmill.inference.call import Ask
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt
from tokenmill.pipelines.gym.options import GymOptions, begun, estimate, sampling
from tokenmill.pipelines.gym.sampling import Sampling, window
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.launch import Command
from tokenmill.pipelines.runs.options import roles
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Rollout
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.flags import flag, must, shaping
from tokenmill.schemas.gym import GymRollout, GymTask, RefusedRollout

TOO_LOW, CUT_OFF = "reward_too_low", "over_budget"


@dataclass(frozen=True, kw_only=True)
class RolloutOptions(GymOptions):
    """What `gym rollout` may be given."""

    accept: float = flag(
        0.0,
        metavar="R",
        parse=must("from 0 to 1", lambda value: 0 <= value <= 1),
        shapes=True,
        help="rollouts with less reward go to rejected/",
    )


@dataclass(frozen=True)
class RollOut:
    """The step: one attempt at one task."""

    sampling: Sampling
    samples: int = 1
    accept: float = 0.0

    row_type: ClassVar[type] = GymRollout
    rejected_type: ClassVar[type] = RefusedRollout

    def attempts(self, task: GymTask) -> Iterator[Attempt[GymTask]]:
        """One element for each attempt."""
        return (Attempt(task, sample) for sample in range(self.samples))

    async def __call__(self, element: Attempt[GymTask], ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when the environment or a model broke."""
        meter, task, drawn = Meter(ask), element.task, self.sampling
        episode = await drawn.attempt(task, element.sample, meter)
        columns = {
            "id": element.id,
            "messages": list(episode.messages),
            "reward": episode.reward,
            "parts": list(episode.parts),
            "ended": episode.ended,
            "task_id": task.id,
            "sample": element.sample,
            "judge_model": drawn.judged_by(task),
            "model_calls": meter.calls,
            **{name: getattr(task, name) for name in ("environment", "kind", "topics", "prompt", "reference", "data")},
            **meter.provenance(drawn.model, drawn.prompts(task), drawn.seed),
        }
        if episode.reward >= self.accept:
            return Accepted(GymRollout(**columns))
        reason = CUT_OFF if episode.ended == OVER_BUDGET else TOO_LOW
        return Rejected(RefusedRollout(**columns, reason=reason), reason)

    def failed(self, element: Attempt[GymTask], error: str, message: str) -> FailedRow:
        """The row of `failed/` for an attempt that the environment or an endpoint broke."""
        return failed_row(element.id, "rollout", error, message, element.task.prompt, source_id=element.task.id)


def job(options: RolloutOptions, players: tuple[str, ...]) -> Job:
    """The configured job; `players` are the roles that its environments ask."""
    step = RollOut(sampling(options), options.samples, options.accept)
    return Job(
        name="gym rollout",
        title="Rollouts at tasks with verifiable rewards",
        step=step,
        parser=RecordParser(GymTask),
        roles=roles(options, *players),
        tasks=step.attempts,
        tasks_per_row=options.samples,
        dag=partial(build, step),
        max_row_bytes=options.max_document_bytes,
        estimate=lambda attempt: estimate(1, attempt.task),
        prompts=(),
        config=shaping(options),
        reads="tasks",
    )


COMMAND = Command("gym rollout", RolloutOptions, begun(job))


def build(step: RollOut, flow: Flow) -> None:
    """The whole job: tasks | repeat | roll out | data, rejected, failed."""
    tasks, unreadable = flow.read()
    attempts = tasks | "Repeat" >> beam.FlatMap(step.attempts) | "Spread" >> beam.Reshuffle()
    rolled = attempts | "Roll out" >> Rollout(step, flow.models, window=window(flow.models))
    flow.write_rolled(rolled, unreadable, GymRollout, RefusedRollout)

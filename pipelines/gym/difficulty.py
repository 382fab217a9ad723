"""Keep the tasks that a model solves sometimes: neither always nor never, so that attempts at them can be told apart.

    python beam_runner.py gym difficulty game24 tables --tasks 500 --samples 8 --keep 0.1:0.9 --llm SPEC --output OUT

What is too easy or too hard goes to rejected/ with its rewards. (Kimi K2 report, section 3.2.1: "moderate difficulty",
measured by the model's own pass@k.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from tokenmill.inference.call import Ask
from tokenmill.inference.gather import together
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
from tokenmill.schemas.flags import checked, flag, shaping
from tokenmill.schemas.gym import GymTask, RatedTask, RefusedRatedTask

TOO_EASY, TOO_HARD = "too_easy", "too_hard"


def bounds(text: str) -> tuple[float, float]:
    """`0.1:0.9` as numbers.

    Raises:
        ValueError: it is not that, or not within 0 and 1 and in order.
    """
    least, colon, most = text.partition(":")
    try:
        low, high = float(least), float(most)
    except ValueError:
        low, high = 1.0, 0.0
    if not colon or not 0 <= low <= high <= 1:
        raise ValueError("write LEAST:MOST, two rates from 0 to 1 such as 0.1:0.9")
    return low, high


@dataclass(frozen=True, kw_only=True)
class DifficultyOptions(GymOptions):
    """What `gym difficulty` may be given."""

    keep: str = flag(
        "0.1:0.9",
        metavar="LEAST:MOST",
        parse=checked(bounds),
        shapes=True,
        help="mean rewards of the tasks that are kept, both included",
    )


@dataclass(frozen=True)
class Rate:
    """The step: several attempts at one task."""

    sampling: Sampling
    samples: int = 8
    least: float = 0.1
    most: float = 0.9

    row_type: ClassVar[type] = RatedTask
    rejected_type: ClassVar[type] = RefusedRatedTask

    async def __call__(self, task: GymTask, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when the environment or a model broke."""
        meter, drawn = Meter(ask), self.sampling
        episodes = await together(drawn.attempt(task, sample, meter) for sample in range(self.samples))
        rewards = [episode.reward for episode in episodes]
        rate = sum(rewards) / len(rewards)
        columns: dict[str, Any] = {
            **vars(task),
            "rewards": rewards,
            "pass_rate": rate,
            "samples": self.samples,
            "judge_model": drawn.judged_by(task),
            **meter.provenance(drawn.model, drawn.prompts(task), drawn.seed),
        }
        if self.least <= rate <= self.most:
            return Accepted(RatedTask(**columns))
        reason = TOO_EASY if rate > self.most else TOO_HARD
        return Rejected(RefusedRatedTask(**columns, reason=reason), reason)

    def failed(self, task: GymTask, error: str, message: str) -> FailedRow:
        """The row of `failed/` for a task that the environment or an endpoint broke."""
        return failed_row(task.id, "rollout", error, message, task.prompt)


def job(options: DifficultyOptions, players: tuple[str, ...]) -> Job:
    """The configured job; `players` are the roles that its environments ask."""
    step = Rate(sampling(options), options.samples, *bounds(options.keep))
    return Job(
        name="gym difficulty",
        title="Tasks of moderate difficulty, by a model's own pass rate",
        step=step,
        parser=RecordParser(GymTask),
        roles=roles(options, *players),
        dag=partial(build, step),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, options.samples),
        prompts=(),
        config=shaping(options),
        reads="tasks",
    )


COMMAND = Command("gym difficulty", DifficultyOptions, begun(job))


def build(step: Rate, flow: Flow) -> None:
    """The whole job: tasks | rate | data, rejected, failed."""
    tasks, unreadable = flow.read()
    rated = tasks | "Rate" >> Rollout(step, flow.models, window=window(flow.models))
    flow.write_rolled(rated, unreadable, RatedTask, RefusedRatedTask)

"""Rows of the gym: tasks with rewards that can be checked, rollouts at them, and how hard they are for a model."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.agentic import ChatMessage
from tokenmill.schemas.columns import column

CODE, JUDGE = "code", "judge"
"""Who decided on a part of a reward."""


@dataclass(frozen=True, kw_only=True)
class GymTask:
    """A task of an environment. A model is shown `prompt` (and `system`) and nothing else."""

    id: str = column("`environment/seed/number`, or the id that its file gives it")
    environment: str = column("name of the environment, as `--env` takes it")
    kind: str = column("kind of task within the environment")
    topics: list[str] = column("topic tags", default_factory=list)
    system: str = column("system prompt; empty for none", default="")
    prompt: str = column("the user's message")
    budget: int = column("tokens that an answer may have")
    reference: str = column("an answer that earns the full reward; empty where none is known", default="")
    data: str = column("what the reward needs to know, as JSON", default="{}")


@dataclass(frozen=True, kw_only=True)
class RewardPart:
    """One part of a reward, with its evidence."""

    name: str = column("what was looked at")
    reward: float = column("in [0, 1]; the rollout's reward is the product of all parts")
    evidence: str = column("why, one line")
    decided_by: str = column("`code` or `judge`", default=CODE)


@dataclass(frozen=True, kw_only=True)
class GymRollout:
    """One attempt at a task: one row of `data/` of `gym rollout`."""

    id: str = column("`task/sample`")
    messages: list[ChatMessage] = column("the conversation")
    reward: float = column("in [0, 1]")
    parts: list[RewardPart] = column("what the reward is the product of, each with its evidence")
    ended: str = column("`answered`, `budget` (cut off), or how a dialogue ended")
    task_id: str = column("`id` of the task")
    sample: int = column("0-based number of this attempt at the task")
    environment: str = column("name of the environment")
    kind: str = column("kind of task within the environment")
    topics: list[str] = column("topic tags")
    prompt: str = column("the user's message")
    reference: str = column("an answer that earns the full reward; empty where none is known")
    data: str = column("what the reward needed to know, as JSON")
    model: str = column("model that answered")
    judge_model: str = column("model that judged, empty for none")
    prompts: list[str] = column("every prompt used beside the task's own, as `name@version`")
    seed: int = column("seed of the run")
    model_calls: int = column("calls of all models that it took")
    prompt_tokens: int = column("tokens sent for it, all roles, as billed")
    completion_tokens: int = column("tokens received for it, all roles, as billed")


@dataclass(frozen=True, kw_only=True)
class RefusedRollout(GymRollout):
    """A rollout whose reward is below `--accept`: one row of `rejected/`."""

    reason: str = column("`reward_too_low`, or `over_budget` where the answer was cut off")


@dataclass(frozen=True, kw_only=True)
class RatedTask(GymTask):
    """A task of moderate difficulty for a model: one row of `data/` of `gym difficulty`."""

    rewards: list[float] = column("reward of each sample")
    pass_rate: float = column("mean reward of the samples")
    samples: int = column("samples drawn")
    model: str = column("model that answered")
    judge_model: str = column("model that judged, empty for none")
    prompts: list[str] = column("every prompt used beside the task's own, as `name@version`")
    seed: int = column("seed of the run")
    prompt_tokens: int = column("tokens sent for it, all samples, as billed")
    completion_tokens: int = column("tokens received for it, all samples, as billed")


@dataclass(frozen=True, kw_only=True)
class RefusedRatedTask(RatedTask):
    """A task outside `--keep`: one row of `rejected/`."""

    reason: str = column("`too_easy` or `too_hard`")

"""Rewards in the signatures that trainers call: `trl`, `verl`, `verifiers`. They need no trainer to be installed.

Only environments without a judge: a trainer's reward function has nobody to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
from tokenmill.gym.check import Scripted, said
from tokenmill.gym.environment import Environment
from tokenmill.gym.registry import find
from tokenmill.schemas.columns import from_values
from tokenmill.schemas.flags import UsageError
from tokenmill.schemas.gym import GymTask

TRL, VERL, VERIFIERS = "trl", "verl", "verifiers"
TRAINERS = (TRL, VERL, VERIFIERS)


def trl_reward(prompts: Sequence[Any], completions: Sequence[Any], task: Sequence[str], **_: Any) -> list[float]:
    """Rewards as `trl.GRPOTrainer(reward_funcs=…)` asks for them; `task` is the column of that name, JSON of a `GymTask`.

    Raises:
        EnvironmentFault: the environment broke; no reward is made up.
    """
    return [reward(_text(completion), one) for completion, one in zip(completions, task, strict=True)]


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    """A reward as `verl`'s `custom_reward_function` is called; `ground_truth` is JSON of a `GymTask`."""
    return reward(solution_str, ground_truth)


def load_environment(tasks: str, **_: Any) -> Any:
    """An environment of `verifiers` over an exported `tasks.jsonl`."""
    import datasets
    import verifiers  # type: ignore[import-not-found]  # the user's

    def correct(completion: Any, answer: str, **_: Any) -> float:
        return reward(_text(completion), answer)

    rows = datasets.load_dataset("json", data_files=tasks, split="train")
    return verifiers.SingleTurnEnv(dataset=rows, rubric=verifiers.Rubric(funcs=[correct], weights=[1.0]))


def reward(text: str, task: str) -> float:
    """What an answer to a task earns.

    Args:
        task: JSON of a `GymTask`.

    Raises:
        EnvironmentFault: the environment broke.
    """
    given = from_values(GymTask, orjson.loads(task))
    return _alone(_rollout(find(given.environment), given, text))


async def _rollout(environment: Environment, task: GymTask, text: str) -> float:
    return (await environment.rollout(task, Scripted([said(text)]))).reward


def _alone(work: Any) -> float:
    """The result of a coroutine, also where the caller has an event loop that runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        result: float = asyncio.run(work)
        return result
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(asyncio.run, work).result()


def _text(completion: Any) -> str:
    """The answer's text: as it is, or the content of the last message."""
    return completion if isinstance(completion, str) else str(completion[-1]["content"] or "")


def row_for(trainer: str, task: GymTask) -> dict[str, Any]:
    """A task as a row of a trainer's data."""
    messages = ([{"role": "system", "content": task.system}] if task.system else []) + [
        {"role": "user", "content": task.prompt}
    ]
    packed = orjson.dumps(task).decode()
    if trainer == TRL:
        return {"prompt": messages, "task": packed, "environment": task.environment}
    if trainer == VERL:
        return {
            "data_source": f"tokenmill/{task.environment}",
            "prompt": messages,
            "ability": (task.topics or [task.kind])[0],
            "reward_model": {"style": "rule", "ground_truth": packed},
            "extra_info": {"id": task.id, "kind": task.kind},
        }
    return {"prompt": messages, "answer": packed, "task": task.environment}


REWARDS = {
    TRL: "from tokenmill.gym.export import trl_reward  # GRPOTrainer(reward_funcs=[trl_reward], …)\n",
    VERL: "from tokenmill.gym.export import compute_score  # custom_reward_function.path=reward.py\n",
    VERIFIERS: (
        "from pathlib import Path\n\nfrom tokenmill.gym import export\n\n\ndef load_environment(**given):\n"
        '    return export.load_environment(str(Path(__file__).with_name("tasks.jsonl")), **given)\n'
    ),
}
"""`reward.py` by trainer."""


def check_exportable(environment: Environment) -> None:
    """
    Raises:
        UsageError: a model takes part in its reward, or it takes several turns.
    """
    if environment.judged:
        raise UsageError(f"{environment.name}: a model takes part in its reward, which a trainer's function cannot ask")
    if hasattr(environment, "script"):
        raise UsageError(f"{environment.name}: it takes several turns, which a trainer's reward function does not see")

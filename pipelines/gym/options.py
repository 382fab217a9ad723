"""What the gym's jobs have in common: environments, the tasks drawn of them, who answers and who judges."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.gym.sampling import Sampling
from tokenmill.pipelines.runs.errors import UsageError, line_of
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import launch
from tokenmill.pipelines.runs.options import RecordOptions, of_data, of_models
from tokenmill.schemas.flags import flag, more_than_zero, positive
from tokenmill.schemas.gym import GymTask

TASKS = "tasks"
"""Folder of the output in which the drawn tasks lie."""


@dataclass(frozen=True, kw_only=True)
class GymOptions(RecordOptions):
    """What both jobs may be given."""

    input: tuple[str, ...] = of_data(
        name="env",
        metavar="ENV",
        help="environments: names of `gym list`, module:object, FILE.py:object, folders; `all`",
    )
    tasks: int = of_data(100, metavar="N", parse=positive, shapes=True, help="tasks of each environment")
    samples: int = flag(8, metavar="N", parse=positive, shapes=True, help="attempts at each task")
    temperature: float = flag(1.0, metavar="T", parse=more_than_zero, shapes=True, help="at which attempts are drawn")
    budget: int | None = flag(
        None, metavar="N", parse=positive, shapes=True, help="tokens of an answer (default: the task's)"
    )
    user_llm: str | None = of_models(
        None, metavar="SPEC", echo=False, help="model that plays users and attackers (default: as --llm)"
    )
    tool_llm: str | None = of_models(
        None, metavar="SPEC", echo=False, help="model that simulates tools (default: as --llm)"
    )
    user_sampling: dict[str, Any] = flag({}, metavar="JSON", help="parameters for the user's calls")
    tool_sampling: dict[str, Any] = flag({}, metavar="JSON", help="parameters for the tools' calls")


def sampling(options: GymOptions) -> Sampling:
    """How attempts are drawn, as the options say."""
    from tokenmill.pipelines.gym.environments import here

    judge = parse_spec(options.judge_llm or options.llm).model
    return Sampling(
        parse_spec(options.llm).model,
        judge,
        here(),
        options.seed,
        options.temperature,
        budget=options.budget,
    )


def begun(make: Callable[[Any, tuple[str, ...]], Job]) -> Callable[[Any, Sequence[str]], int]:
    """What a command begins: the tasks are drawn and written down, then the job reads them like any input."""

    def begin(options: GymOptions, beam_args: Sequence[str]) -> int:
        from tokenmill.pipelines.gym.environments import expanded, found, here

        environments = found(options.input, here())
        named = dict(zip(expanded(options.input), environments, strict=True))
        roles = ("writer", *(("judge", "user", "tools") if any(one.judged for one in environments) else ()))
        job = make(options, roles)
        used = tuple(sorted({name for one in environments for name in getattr(one, "prompts", ())}))
        config = {**job.config, "environments": {name: sha256_of(one) for name, one in named.items()}}
        job = replace(job, prompts=used, config=config)
        with _listed(drawn(named, options.seed, options.tasks), options) as listed:
            return launch(job, replace(options, input=(listed,)), beam_args)

    return begin


def sha256_of(environment: Any) -> str:
    """Of the code that an environment is: what its rewards mean may change with it. A folder says it itself."""
    if known := getattr(environment, "sha256", ""):
        return str(known)
    file = inspect.getsourcefile(type(environment))
    return hashlib.sha256(Path(file).read_bytes() if file else b"").hexdigest()


def drawn(environments: Mapping[str, Any], seed: int, count: int) -> list[GymTask]:
    """The first tasks of each environment, which workers find again by the name that it was given here.

    Raises:
        UsageError: an environment makes none, or breaks.
    """
    tasks: list[GymTask] = []
    for name, environment in environments.items():
        try:
            made = list(itertools.islice(environment.tasks(seed), count))
        except UsageError:
            raise
        except Exception as error:  # whatever an environment of a user's raises
            raise UsageError(f"{name}: making tasks: {type(error).__name__}: {line_of(error)}") from None
        if not made:
            raise UsageError(f"{name}: there are no tasks")
        tasks += (replace(task, environment=name) for task in made)
    return tasks


@contextlib.contextmanager
def _listed(tasks: Sequence[GymTask], options: GymOptions) -> Iterator[str]:
    """The tasks as a file that every worker can read, named by its content."""
    content = b"".join(orjson.dumps(task) + b"\n" for task in tasks)
    if options.estimate or options.preview:
        with tempfile.TemporaryDirectory(prefix="tokenmill-") as folder:
            path = Path(folder, "tasks.jsonl")
            path.write_bytes(content)
            yield str(path)
        return
    name = f"tasks-{hashlib.sha256(content).hexdigest()[:8]}.jsonl"
    out = OutputFolder(options.folder)
    out.check_ours()
    try:
        out.write(f"{TASKS}/{name}", content)
    except Exception as error:  # each filesystem has errors of its own
        reason = getattr(error, "strerror", None) or line_of(error)
        raise UsageError(f"--output {options.output}: cannot be written: {reason}") from None
    yield out.at(TASKS, name)


def estimate(samples: int, task: GymTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of a task: answers take a third of their budget, or all of it."""
    from tokenmill.pipelines.rollouts.chunking import count_tokens

    prompt = count_tokens(task.prompt) + count_tokens(task.system) + 8
    usual = Plan(samples, samples * prompt, samples * task.budget // 3, waves=1)
    return {"writer": usual}, {"writer": Plan(samples, samples * prompt, samples * task.budget)}

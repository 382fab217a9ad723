"""Coding tasks from files, worked on in a sandbox and decided by hidden tests: HumanEval-like rows, small repositories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.pipelines.agentic.code.rollout import SYSTEM, RunCodeTask
from tokenmill.pipelines.agentic.trajectories.attempt import ModelNames
from tokenmill.pipelines.agentic.trajectories.dag import build
from tokenmill.pipelines.agentic.trajectories.options import TryOptions, estimate_tries, tries_counted
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.benchmarks import benchmarks
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import of_data, roles
from tokenmill.schemas.code import CodeTask
from tokenmill.schemas.flags import checked, flag, shaping
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.choose import named, sandbox_flag

from tokenmill import prompts


@dataclass(frozen=True, kw_only=True)
class CodeOptions(TryOptions):
    """What `agentic code` may be given."""

    input: tuple[str, ...] = of_data(
        metavar="DIR|GLOB",
        help="coding tasks: Parquet or JSONL with the columns of HumanEval, or with instructions, files, hidden_tests",
    )
    test_seconds: float = flag(
        10.0,
        metavar="S",
        parse=checked(lambda seconds: CodeTaskParser(time_limit=seconds)),
        shapes=True,
        help="time for each hidden test where the task does not say",
    )
    sandbox: str = sandbox_flag()


def job(options: CodeOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: there is no sandbox here, or the model's context is too small.
    """
    try:
        isolated = named(options.sandbox)
        isolated.check()
        runtime = Runtime.local(isolated)
    except SandboxUnavailable as error:
        raise UsageError(f"code is run in a sandbox only: {error}") from None
    parser = CodeTaskParser(time_limit=options.test_seconds)
    kept_out = benchmarks(options.decontaminate)
    step = RunCodeTask(
        models=ModelNames(parse_spec(options.llm).model),
        runtime=runtime,
        protocol=options.protocol,
        limits=options.limits(),
        seed=options.seed,
        max_tokens=options.answer_tokens(4096),
        benchmarks=kept_out,
    )
    tries = options.tries(step)
    return Job(
        name="agentic code",
        title="Coding trajectories, decided by hidden tests in a sandbox",
        step=tries,
        parser=parser,
        roles=roles(options, "writer"),
        rows_per_task=options.samples,
        dag=partial(build, tries),
        counts=tries_counted,
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate_tries, tries, partial(estimate, step)),
        prompts=step.prompt_names,
        config={
            **shaping(options),
            "limits": {name: getattr(step.limits, name) for name in ("turns", "calls", "tokens")},
            **{name: getattr(step, name) for name in ("protocol", "temperature", "top_p", "max_tokens")},
        },
        benchmarks=kept_out,
    )


COMMAND = Command("agentic code", CodeOptions, one(job))


TURNS, ANSWER, RESULT = 6, 250, 300
"""Turns of an ordinary try, and tokens of an answer and of what comes back from its call."""


def estimate(step: RunCodeTask, task: CodeTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one try: as many turns as an ordinary one takes, and as many as the limits allow."""
    if step.held(task)[1] is not None:
        return {"writer": Plan()}, {"writer": Plan()}
    fixed = count_tokens(prompts.load(SYSTEM).text) + count_tokens(task.instructions) + 700
    return {"writer": _talk(step, fixed, TURNS)}, {"writer": _talk(step, fixed, step.limits.turns)}


def _talk(step: RunCodeTask, fixed: int, turns: int) -> Plan:
    lengths = [
        min(fixed + turn * (ANSWER + RESULT), step.limits.tokens) for turn in range(min(turns, step.limits.turns))
    ]
    return Plan(len(lengths), sum(lengths), ANSWER * len(lengths))

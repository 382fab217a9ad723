"""Coding tasks from files, worked on in a sandbox and decided by hidden tests: HumanEval-like rows, small repositories."""

from __future__ import annotations

import argparse
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.pipelines.agentic.code.rollout import SYSTEM, RunCodeTask
from tokenmill.pipelines.agentic.flags import add_run_flags, roles_of
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt, ModelNames
from tokenmill.pipelines.agentic.trajectories.dag import Trajectories, build
from tokenmill.pipelines.agentic.trajectories.flags import add_trajectory_flags, answer_limit, limits_of, protocol_of
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES
from tokenmill.schemas.code import CodeTask
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap

from tokenmill import prompts


def add_code(kinds: argparse._SubParsersAction) -> None:
    """The subcommand `code` and its flags."""
    parser = kinds.add_parser(
        "code", help="work on coding tasks in a sandbox", description=__doc__.split("\n", 1)[0], allow_abbrev=False
    )
    add_run_flags(
        parser,
        reads="--input",
        what="coding tasks: Parquet or JSONL with the columns of HumanEval, or with instructions, files, hidden_tests",
    )
    add_trajectory_flags(parser)
    parser.add_argument(
        "--test-seconds",
        type=options.seconds,
        default=10.0,
        metavar="S",
        help="time for each hidden test where the task does not say (default 10)",
    )
    parser.set_defaults(make=job)


def job(args: argparse.Namespace) -> Job:
    """The configured job.

    Raises:
        UsageError: a flag's value makes no sense, or there is no sandbox here.
    """
    roles = roles_of(args, "writer")
    try:
        runtime = Runtime.local()
        Bubblewrap().check()
        parser = CodeTaskParser(time_limit=args.test_seconds)
    except SandboxUnavailable as error:
        raise UsageError(f"code is run in a sandbox only: {error}") from None
    except ValueError as error:
        raise UsageError(f"--test-seconds {args.test_seconds:g}: {error}") from None
    step = RunCodeTask(
        models=ModelNames(parse_spec(args.llm).model),
        runtime=runtime,
        protocol=protocol_of(args),
        limits=limits_of(args),
        seed=args.seed,
        max_tokens=answer_limit(args, 4096),
    )
    config = Trajectories(step, parser, args.samples)
    return Job(
        name="agentic code",
        title="Coding trajectories, decided by hidden tests in a sandbox",
        step=step,
        parser=parser,
        roles=roles,
        tasks=config.attempts,
        tasks_per_row=args.samples,
        build=partial(build, config),
        estimate=partial(estimate, step),
        prompts=step.prompt_names,
        config={
            "samples": args.samples,
            "test_seconds": args.test_seconds,
            "limits": {name: getattr(step.limits, name) for name in ("turns", "calls", "tokens")},
            **{name: getattr(step, name) for name in ("protocol", "temperature", "top_p", "max_tokens")},
        },
        max_row_bytes=MAX_ROW_BYTES,
    )


TURNS, ANSWER, RESULT = 6, 250, 300
"""Turns of an ordinary try, and tokens of an answer and of what comes back from its call."""


def estimate(step: RunCodeTask, element: Attempt[CodeTask]) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one try: as many turns as an ordinary one takes, and as many as the limits allow."""
    fixed = count_tokens(prompts.load(SYSTEM).text) + count_tokens(element.task.instructions) + 700
    return {"writer": _talk(step, fixed, TURNS)}, {"writer": _talk(step, fixed, step.limits.turns)}


def _talk(step: RunCodeTask, fixed: int, turns: int) -> Plan:
    lengths = [
        min(fixed + turn * (ANSWER + RESULT), step.limits.tokens) for turn in range(min(turns, step.limits.turns))
    ]
    return Plan(len(lengths), sum(lengths), ANSWER * len(lengths))

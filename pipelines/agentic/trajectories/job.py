"""Run agents on tasks: simulated users, tools that run, judges; `--samples` tries per task are rejection sampling."""

from __future__ import annotations

import argparse
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.flags import add_run_flags, roles_of
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt, ModelNames
from tokenmill.pipelines.agentic.trajectories.dag import Trajectories, build
from tokenmill.pipelines.agentic.trajectories.executable_worlds import ExecutableWorlds, find_engines
from tokenmill.pipelines.agentic.trajectories.flags import add_trajectory_flags, answer_limit, limits_of, protocol_of
from tokenmill.pipelines.agentic.trajectories.rollout import RunTrajectory
from tokenmill.pipelines.agentic.trajectories.worlds import ENGINES, EXECUTABLE, SIMULATOR, SimulatedWorlds, Worlds
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES, RecordParser
from tokenmill.schemas.agentic import AgentTask
from tokenmill.tools_repo.world.outcomes import Odds

ROLES = ("writer", "user", "tools", "judge")


def add_trajectories(kinds: argparse._SubParsersAction) -> None:
    """The subcommand `trajectories` and its flags."""
    parser = kinds.add_parser(
        "trajectories", help="run agents on tasks", description=__doc__.split("\n", 1)[0], allow_abbrev=False
    )
    add_run_flags(
        parser, reads="--tasks", what="output of `agentic tasks`, or Parquet or JSONL with such rows", roles=ROLES
    )
    add_flags(parser)
    parser.set_defaults(make=job)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What shapes trajectories, beside the contract of a run."""
    add_trajectory_flags(parser)
    world = parser.add_argument_group("the world and the judges")
    world.add_argument(
        "--engine",
        choices=ENGINES,
        default=SIMULATOR,
        help="what runs the tools: a model (default), or code written for their domain, see --engines",
    )
    world.add_argument(
        "--engines",
        nargs="+",
        default=[],
        metavar="DIR|GLOB",
        help="output of `tools implement`, for --engine executable; tools without code are simulated",
    )
    world.add_argument(
        "--outcomes",
        default="",
        metavar="A=P,…",
        help="probabilities of what becomes of a valid call: timeout=0.05,partial=0.02 (success has the rest; "
        "default: 2%% each)",
    )
    world.add_argument(
        "--votes",
        type=options.positive,
        default=3,
        metavar="N",
        help="the judge's votes on what code cannot decide, odd (default 3)",
    )


def job(args: argparse.Namespace) -> Job:
    """The configured job.

    Raises:
        UsageError: a flag's value makes no sense.
    """
    roles = roles_of(args, *ROLES)
    try:
        odds = Odds.parse(args.outcomes)
    except ValueError as error:
        raise UsageError(f"--outcomes {args.outcomes}: {error}") from None
    worlds, stamps = _worlds(args, odds)
    try:
        step = RunTrajectory(
            models=ModelNames(**{role: parse_spec(given.spec).model for role, given in roles.items()}),
            worlds=worlds,
            protocol=protocol_of(args),
            limits=limits_of(args),
            votes=args.votes,
            seed=args.seed,
            max_tokens=answer_limit(args, 2048),
        )
    except ValueError as error:
        raise UsageError(f"--votes {args.votes}: {error}") from None
    config = Trajectories(step, RecordParser(AgentTask), args.samples)
    return Job(
        name="agentic trajectories",
        title="Tool-use trajectories with rubrics, judged",
        step=step,
        parser=config.parser,
        roles=roles,
        tasks=config.attempts,
        tasks_per_row=args.samples,
        build=partial(build, config),
        estimate=partial(estimate, step),
        prompts=step.prompt_names,
        config={
            "samples": args.samples,
            "engine": args.engine,
            "engines": stamps,
            "outcomes": odds.of,
            "votes": args.votes,
            "limits": {name: getattr(step.limits, name) for name in ("turns", "calls", "tokens")},
            **{name: getattr(step, name) for name in ("protocol", "temperature", "top_p", "max_tokens")},
        },
        max_row_bytes=MAX_ROW_BYTES,
    )


def _worlds(args: argparse.Namespace, odds: Odds) -> tuple[Worlds, list[list[str]]]:
    """What makes the worlds, and what identifies the code that runs in them.

    Raises:
        UsageError: engines without --engine executable, or the other way round, or they cannot be read.
    """
    if bool(args.engines) != (args.engine == EXECUTABLE):
        raise UsageError(f"--engine {EXECUTABLE} and --engines DIR go together")
    if args.engine == SIMULATOR:
        return SimulatedWorlds(odds), []
    pieces, stamps = find_engines(args.engines)
    return ExecutableWorlds(pieces, odds), stamps


ANSWER, RESULT, USER = 120, 200, 60
"""Tokens of an ordinary answer of the agent, of a tool's result and of a user's turn."""
PROMPT = 1500
"""Tokens of the instructions that the user's, the simulator's and the judge's prompts hold, about."""


def estimate(step: RunTrajectory, element: Attempt[AgentTask]) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one try, by role: as the reference solution goes, and when every limit is used up."""
    task = element.task
    fixed = count_tokens(task.agent.system) + sum(
        count_tokens(tool.description) + count_tokens(tool.input_schema) for tool in task.agent.tools
    )
    calls = max(1, len(task.solution))
    return _plans(step, task, fixed, calls, 2), _plans(step, task, fixed, step.limits.calls, step.limits.turns)


def _plans(step: RunTrajectory, task: AgentTask, fixed: int, calls: int, replies: int) -> dict[str, Plan]:
    """Plans for a conversation of so many calls and replies to the user."""
    turns = min(calls + replies, step.limits.turns)
    lengths = [min(fixed + turn * (ANSWER + RESULT), step.limits.tokens) for turn in range(turns)]
    spoken = USER + ANSWER
    heard = sum(PROMPT + turn * spoken for turn in range(replies + 1))
    state = count_tokens(task.state) // 2
    judged = PROMPT + min(lengths[-1] + ANSWER, step.limits.tokens)
    simulated = calls if step.worlds.engine == SIMULATOR else 0
    return {
        "writer": Plan(turns, sum(lengths), ANSWER * turns),
        "user": Plan(replies + 1, heard, USER * (replies + 1)),
        "tools": Plan(simulated, simulated * (PROMPT + state), simulated * RESULT),
        "judge": Plan(1, judged, 200).scaled(step.votes),
    }

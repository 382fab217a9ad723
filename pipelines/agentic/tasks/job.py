"""`agentic tasks`: tasks with rubrics for the agents of an earlier run."""

from __future__ import annotations

import argparse
from functools import partial

import orjson
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.flags import add_run_flags, roles_of
from tokenmill.pipelines.agentic.tasks.dag import PROMPTS, TASK, WriteTasks, build
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES, RecordParser
from tokenmill.schemas.agentic import LEVELS, Agent
from tokenmill.tools_repo.tasks.levels import LevelWeights
from tokenmill.tools_repo.tasks.world_summary import tools_shown, world_shown

from tokenmill import prompts

EMBEDDED_TOKENS = 600
"""The embedded model goes on for ever where it loses the thread: its answers are cut after so many tokens."""


def add_tasks(kinds: argparse._SubParsersAction) -> None:
    """The subcommand `tasks` and its flags."""
    parser = kinds.add_parser(
        "tasks",
        help="write tasks with rubrics for agents",
        description=__doc__.split("\n", 1)[0],
        allow_abbrev=False,
    )
    add_run_flags(parser, reads="--agents", what="a run of `agentic agents`, or files of such rows")
    add_task_flags(parser)
    parser.set_defaults(make=job)


def add_task_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that shape tasks, for this stage and for the chain."""
    shape = parser.add_argument_group("how tasks are made")
    shape.add_argument(
        "--tasks-per-agent", type=options.positive, default=4, metavar="K", help="tasks for each agent (default 4)"
    )
    shape.add_argument(
        "--levels",
        default="",
        metavar="LIST",
        help=f"how often each level is drawn, such as one_call=1,decline=0.5 (default: all alike); levels: {', '.join(LEVELS)}",
    )
    shape.add_argument(
        "--threshold",
        type=float,
        default=0.8,
        metavar="S",
        help="score that a trajectory needs beside the mandatory criteria (default 0.8)",
    )


def job(args: argparse.Namespace) -> Job:
    """The configured job.

    Raises:
        UsageError: a flag's value makes no sense.
    """
    roles = roles_of(args, "writer")
    spec = parse_spec(args.llm)
    try:
        levels = LevelWeights.parse(args.levels)
    except ValueError as error:
        raise UsageError(f"--levels {args.levels}: {error}") from None
    try:
        step = WriteTasks(
            model=spec.model,
            tasks=args.tasks_per_agent,
            levels=levels,
            seed=args.seed,
            threshold=args.threshold,
            max_tokens=EMBEDDED_TOKENS if spec.kind == "embedded" else WriteTasks.max_tokens,
        )
    except ValueError as error:
        raise UsageError(f"--threshold {args.threshold}: {error}") from None
    return Job(
        name="agentic tasks",
        title="Tasks with rubrics, each shown to be solvable and not by doing nothing",
        step=step,
        parser=RecordParser(Agent),
        roles=roles,
        rows_per_task=step.tasks,
        build=partial(build, step),
        estimate=partial(estimate, step),
        prompts=PROMPTS,
        config={
            "tasks_per_agent": step.tasks,
            "levels": step.levels.of,
            **{name: getattr(step, name) for name in ("tries", "threshold", "temperature", "top_p", "max_tokens")},
        },
        max_row_bytes=MAX_ROW_BYTES,
        notes=options.too_small(args.llm, "write tasks that pass"),
    )


TASK_TOKENS = 1_600
"""Answer tokens of a task, as strong models write it."""


def estimate(step: WriteTasks, agent: Agent) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one agent's tasks, when nothing is refused and when each uses all its tries."""
    fixed = sum(count_tokens(text) for _, text in prompts.load(TASK).parts) + 500
    world = count_tokens(world_shown(orjson.loads(agent.entities), orjson.loads(agent.state)))
    one = Plan(1, fixed + world + count_tokens(agent.system) + count_tokens(tools_shown(agent.tools)), TASK_TOKENS)
    all_ = one.scaled(step.tasks)
    return {"writer": all_}, {"writer": all_.with_tries(step.tries)}

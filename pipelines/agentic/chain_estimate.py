"""What the whole chain will take, and a look at what it makes, before anything is written.

Agents are estimated from the tool-sets that were drawn; tasks and trajectories from agents and tasks of ordinary length in
their place, since the real ones are not there yet.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from tokenmill.inference import runtime as runtimes
from tokenmill.inference.call import Usage
from tokenmill.inference.pricing import load_prices
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.agents import job as agents_job
from tokenmill.pipelines.agentic.tasks import job as tasks_job
from tokenmill.pipelines.agentic.trajectories import job as trajectory_job
from tokenmill.pipelines.runs import inputs
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import OK
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import models_of
from tokenmill.pipelines.runs.preflight import check_models
from tokenmill.pipelines.runs.preview import present
from tokenmill.pipelines.runs.read_rows import parsed_rows
from tokenmill.pipelines.runs.terminal import Terminal
from tokenmill.schemas.agentic import LEVELS, Agent, AgentTask, ReferenceCall
from tokenmill.schemas.tools import dump
from tokenmill.schemas.toolsets import ToolSet

SYSTEM, TEXT = "word " * 350, "word " * 60
WORLD = dump({"Record": {"description": "word " * 400, "schema": {"type": "object"}}})
STATE = dump({"Record": {str(number): {"text": "word " * 60} for number in range(20)}})
"""A system prompt, a paragraph, and a world as long as strong models write them."""
CALLS = 2
"""Calls of an ordinary task's solution."""

Totals = dict[tuple[str, str], tuple[Plan, Plan]]
"""(expected, at most) by stage and role."""


def jobs(args: argparse.Namespace) -> tuple[Job, Job, Job]:
    """The three jobs of the chain; the first has drawn its tool-sets.

    Raises:
        UsageError: a flag's value makes no sense.
    """
    first = argparse.Namespace(**vars(args))
    made = agents_job.job(first), tasks_job.job(args), trajectory_job.job(args)
    args.input = first.input
    return made


def show(args: argparse.Namespace) -> int:
    """Print calls, tokens and cost of every stage and role.

    Raises:
        UsageError: a flag's value makes no sense.
    """
    try:
        prices = load_prices(args.prices)
    except ValueError as error:
        raise UsageError(f"--prices {error}") from None
    agents, tasks, trajectories = jobs(args)
    totals: Totals = {}
    for toolset in _toolsets(args, agents):
        _add(totals, "agents", agents.estimate(toolset))
        agent = ordinary_agent(toolset)
        _add(totals, "tasks", tasks.estimate(agent))
        for number in range(args.tasks_per_agent):
            task = ordinary_task(agent, number)
            for element in trajectories.tasks(task):
                _add(totals, "trajectories", trajectories.estimate(element))
    table = Table(title="agentic: the whole chain", box=box.SIMPLE, title_justify="left")
    for name in ("stage", "role", "model", ""):
        table.add_column(name)
    for name in ("calls", "prompt tokens", "answer tokens", "cost"):
        table.add_column(name, justify="right")
    sums, costs, unknown = [0, 0], [0.0, 0.0], False
    roles = {**agents.roles, **tasks.roles, **trajectories.roles}
    for (stage, role), plans in totals.items():
        spec = parse_spec(roles[role].spec)
        for place, (label, plan) in enumerate(zip(("expected", "at most"), plans, strict=True)):
            cost = 0.0 if spec.local else prices.cost(spec.model, Usage(plan.prompt, plan.completion))
            unknown |= cost is None
            sums[place] += plan.prompt + plan.completion
            costs[place] += cost or 0.0
            named = (stage, role, spec.text) if place == 0 else ("", "", "")
            told = "price unknown" if cost is None else f"${cost:,.2f}"
            table.add_row(*named, label, f"{plan.calls:,}", f"{plan.prompt:,}", f"{plan.completion:,}", told)
    console = Console()
    console.print(table)
    tail = "give a price with --prices FILE to see the cost" if unknown else (
        f"${costs[0]:,.2f} expected, ${costs[1]:,.2f} at most"
    )  # fmt: skip
    console.print(f"{sums[0]:,} tokens expected, {sums[1]:,} at most; {tail}")
    if args.max_tokens is not None and args.max_tokens < sums[0]:
        console.print(f"--max-tokens {args.max_tokens:,} will stop the chain before it is complete")
    console.print(
        "No call was made. Tasks and trajectories are taken as of ordinary length, and every agent and task as kept."
    )
    return OK


def _toolsets(args: argparse.Namespace, agents: Job) -> Iterator[ToolSet]:
    pieces = inputs.find(args.input, limit=args.limit).pieces
    return parsed_rows(pieces, agents.parser, agents.max_row_bytes)


def _add(totals: Totals, stage: str, plans: tuple[dict[str, Plan], dict[str, Plan]]) -> None:
    expected, most = plans
    for role, plan in expected.items():
        before = totals.get((stage, role), (Plan(), Plan()))
        totals[stage, role] = before[0] + plan, before[1] + most[role]


def ordinary_agent(toolset: ToolSet) -> Agent:
    """An agent of ordinary length for a tool-set."""
    world = toolset.entities or WORLD, toolset.state or STATE
    return Agent(
        id=toolset.id, system=SYSTEM, role="", expertise="", tone="", behaviour="", tools=toolset.tools, sampling="",
        domains=[], entities=world[0], state=world[1], model="", prompts=[], seed=0, prompt_tokens=0, completion_tokens=0,
    )  # fmt: skip


def ordinary_task(agent: Agent, number: int) -> AgentTask:
    """A task of ordinary length for an agent."""
    call = ReferenceCall(tool=agent.tools[0].name, arguments="{}", result="{}")
    return AgentTask(
        id=f"{agent.id}/{number}", agent=agent, level=LEVELS[number % len(LEVELS)], situation=TEXT, opening=TEXT, goal=TEXT,
        state=agent.state, rubric=[], solution=[call] * CALLS, model="", prompts=[], seed=0, prompt_tokens=0,
        completion_tokens=0,
    )  # fmt: skip


def preview(args: argparse.Namespace) -> int:
    """Make a few agents, their tasks and one try at each, print them, and write nothing but answers to the cache.

    Raises:
        UsageError: a flag's value makes no sense.
        RunStopped: a model does not answer.
    """
    count, args.output = args.preview, None
    made = jobs(args)
    rows: list[Any] = list(itertools.islice(_toolsets(args, made[0]), count))
    console = Terminal()
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as state:
        runtime = runtimes.obtain(models_of(made[2], args, state))
        try:
            check_models(runtime)
            for job in made:
                tasks = [task for row in rows for task in itertools.islice(job.tasks(row), 1)]
                rows = present(job, tasks, runtime, console)
        finally:
            runtimes.release(runtime)
    console.print("Nothing was written; the answers are in the cache, so that the run will not pay for them again.")
    return OK

"""What the whole chain will take, and a look at what it makes, before anything is written.

Agents are estimated from the tool-sets that were drawn; tasks and trajectories from agents and tasks of ordinary length in
their place, since the real ones are not there yet.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rich.console import Console
from tokenmill.inference import runtime as runtimes
from tokenmill.pipelines.agentic.agents import job as agents_job
from tokenmill.pipelines.agentic.tasks import job as tasks_job
from tokenmill.pipelines.agentic.trajectories import job as trajectory_job
from tokenmill.pipelines.runs.estimate import print_plans
from tokenmill.pipelines.runs.exit import OK
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import models_of
from tokenmill.pipelines.runs.preflight import check_models
from tokenmill.pipelines.runs.preview import present
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

Totals = dict[tuple[str, ...], tuple[Plan, Plan]]
"""(expected, at most) by stage and role."""


def jobs(options: Any) -> tuple[Job, Job, Job]:
    """The three jobs of the chain; the first has drawn its tool-sets.

    Raises:
        UsageError: there is nothing to read.
    """
    return agents_job.job(options), tasks_job.job(options), trajectory_job.job(options)


def show(options: Any) -> int:
    """Print calls, tokens and cost of every stage and role.

    Raises:
        UsageError: there is nothing to read.
    """
    agents, tasks, trajectories = jobs(options)
    totals: Totals = {}
    for toolset in _toolsets(agents):
        _add(totals, "agents", agents.estimate(toolset))
        agent = ordinary_agent(toolset)
        _add(totals, "tasks", tasks.estimate(agent))
        for number in range(options.tasks_per_agent):
            task = ordinary_task(agent, number)
            _add(totals, "trajectories", trajectories.estimate(task))
    roles = {**agents.roles, **tasks.roles, **trajectories.roles}
    print_plans("agentic: the whole chain", ("stage", "role"), totals, roles, options)
    Console().print(
        "No call was made. Tasks and trajectories are taken as of ordinary length, and every agent and task as kept."
    )
    return OK


def _toolsets(agents: Job) -> Iterable[ToolSet]:
    assert agents.found is not None  # drawn already
    return agents.rows(agents.found.pieces)


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


def preview(options: Any) -> int:
    """Make a few agents, their tasks and one try at each, print them, and write nothing but answers to the cache.

    Raises:
        UsageError: there is nothing to read.
        RunStopped: a model does not answer.
    """
    options = replace(options, output=None, samples=1, keep_per_task=None, give_up_after=None, pairs=False)
    made = jobs(options)
    rows: list[Any] = list(itertools.islice(_toolsets(made[0]), options.preview))
    console = Terminal()
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as state:
        runtime = runtimes.obtain(models_of(made[2], options, state))
        try:
            check_models(runtime)
            for job in made:
                tasks = [task for row in rows for task in itertools.islice(job.tasks(row), 1)]
                rows = present(job, tasks, runtime, console)
        finally:
            runtimes.release(runtime)
    console.print("Nothing was written; the answers are in the cache, so that the run will not pay for them again.")
    return OK

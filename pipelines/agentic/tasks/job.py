"""`agentic tasks`: tasks with rubrics for the agents of an earlier run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import orjson
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.tasks.dag import PROMPTS, TASK, WriteTasks, build
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import RecordOptions, is_embedded, of_data, roles, too_small
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.schemas.agentic import LEVELS, Agent
from tokenmill.schemas.flags import checked, flag, positive, shaping
from tokenmill.tools_repo.tasks.levels import LevelWeights
from tokenmill.tools_repo.tasks.world_summary import tools_shown, world_shown

from tokenmill import prompts

EMBEDDED_TOKENS = 600
"""The embedded model goes on for ever where it loses the thread: its answers are cut after so many tokens."""


_how = partial(flag, group="how tasks are made")


@dataclass(frozen=True, kw_only=True)
class TasksOptions(RecordOptions):
    """What `agentic tasks` may be given."""

    input: tuple[str, ...] = of_data(
        name="--agents", metavar="DIR|GLOB", help="a run of `agentic agents`, or files of such rows"
    )
    tasks_per_agent: int = _how(4, metavar="K", parse=positive, shapes=True, help="tasks for each agent")
    levels: str = _how(
        "",
        metavar="LIST",
        parse=checked(LevelWeights.parse),
        help="how often each level is drawn, such as one_call=1,decline=0.5 (default: all alike); "
        f"levels: {', '.join(LEVELS)}",
    )
    threshold: float = _how(
        0.8,
        metavar="S",
        parse=checked(lambda score: WriteTasks("", threshold=score)),
        shapes=True,
        help="score that a trajectory needs beside the mandatory criteria",
    )


def job(options: TasksOptions) -> Job:
    """The configured job."""
    embedded = is_embedded(options.llm)
    step = WriteTasks(
        model=parse_spec(options.llm).model,
        tasks=options.tasks_per_agent,
        levels=LevelWeights.parse(options.levels),
        seed=options.seed,
        threshold=options.threshold,
        max_tokens=EMBEDDED_TOKENS if embedded else WriteTasks.max_tokens,
    )
    return Job(
        name="agentic tasks",
        title="Tasks with rubrics, each shown to be solvable and not by doing nothing",
        step=step,
        parser=RecordParser(Agent),
        roles=roles(options, "writer"),
        rows_per_task=step.tasks,
        dag=partial(build, step),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, step),
        prompts=PROMPTS,
        config={
            **shaping(options, TasksOptions),
            "levels": step.levels.of,
            **{name: getattr(step, name) for name in ("tries", "temperature", "top_p", "max_tokens")},
        },
        notes=too_small(options.llm, "write tasks that pass"),
    )


COMMAND = Command("agentic tasks", TasksOptions, one(job))

TASK_TOKENS = 1_600
"""Answer tokens of a task, as strong models write it."""


def estimate(step: WriteTasks, agent: Agent) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one agent's tasks, when nothing is refused and when each uses all its tries."""
    fixed = sum(count_tokens(text) for _, text in prompts.load(TASK).parts) + 500
    world = count_tokens(world_shown(orjson.loads(agent.entities), orjson.loads(agent.state)))
    one = Plan(1, fixed + world + count_tokens(agent.system) + count_tokens(tools_shown(agent.tools)), TASK_TOKENS)
    all_ = one.scaled(step.tasks)
    return {"writer": all_}, {"writer": all_.with_tries(step.tries)}

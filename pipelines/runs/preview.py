"""A few rows, shown side by side in the terminal; the output folder is not touched."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from rich.text import Text
from tokenmill.inference import runtime as runtimes
from tokenmill.inference.errors import RunStopped
from tokenmill.inference.roles import Models
from tokenmill.pipelines.report.views.registry import view_of
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.preflight import check_models
from tokenmill.pipelines.runs.terminal import Terminal
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Several
from tokenmill.schemas.documents import FailedRow


def show(job: Job, inputs: Inputs, models: Models, count: int) -> int:
    """Run the step on the first rows and print what came of them; answers are kept in the cache for the real run."""
    rows = list(itertools.islice(job.rows(inputs.pieces), count))
    if not rows:
        raise UsageError("none of the first rows can be read")
    tasks = [task for row in rows for task in job.tasks(row)]
    runtime = runtimes.obtain(models)
    console = Terminal()
    try:
        check_models(runtime)
        present(job, tasks, runtime, console)
    finally:
        runtimes.release(runtime)
    console.print("Nothing was written; the answers are in the cache, so that the run will not pay for them again.")
    return 0


def present(job: Job, tasks: list[Any], runtime: runtimes.Runtime, console: Terminal) -> list[Any]:
    """Run a job's step on tasks and print what comes of them; the rows that were kept.

    Raises:
        RunStopped: the run cannot go on.
    """
    before = _tokens(runtime)
    shown: list[Any] = []
    for task, outcome in zip(tasks, runtime.run(_all(job, tasks, runtime)), strict=True):
        if isinstance(outcome, RunStopped):
            raise outcome
        made = outcome.outcomes if isinstance(outcome, Several) else [outcome]
        for one in made:
            _show(task, one, console)
        shown += made
    kept = [outcome.row for outcome in shown if isinstance(outcome, Accepted)]
    refused = sum(isinstance(outcome, Rejected) for outcome in shown)
    console.print(
        f"{len(kept)} kept, {refused} refused, {len(shown) - len(kept) - refused} failed; "
        f"{_tokens(runtime) - before:,} tokens."
    )
    return kept


def _tokens(runtime: runtimes.Runtime) -> int:
    return sum(stats.prompt_tokens + stats.completion_tokens for stats in runtime.stats().values())


async def _all(job: Job, tasks: list[Any], runtime: runtimes.Runtime) -> list[Any]:
    return await asyncio.gather(*(job.step(task, runtime.client.ask) for task in tasks), return_exceptions=True)


def _show(task: Any, outcome: Any, console: Terminal) -> None:
    if isinstance(outcome, BaseException):
        console.print(Text(f"{task.id}  failed: {type(outcome).__name__}: {outcome}", style="red"))
        return
    if isinstance(outcome, FailedRow):
        console.print(Text(f"{outcome.id}  failed: {outcome.error}: {outcome.message}", style="red"))
        console.print(Text(f"  {outcome.excerpt}", style="dim"))
        return
    row = outcome.row
    if isinstance(outcome, Rejected):
        verdict, style = f"refused: {outcome.reason.replace('_', ' ')}", "yellow"
    else:
        verdict, style = "kept", "green"
    console.print(view_of(type(row)).preview(row, Text(verdict, style)))

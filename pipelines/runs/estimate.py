"""What a run will take, before anything is spent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from tokenmill.inference.call import Usage
from tokenmill.inference.pricing import BATCH_SHARE, load_prices
from tokenmill.inference.roles import Role
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.runs.batched import batched
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.options import RunOptions

SAMPLE = 1000
"""Rows looked at; a larger input is scaled up from them."""


def _sampled(job: Job, inputs: Inputs) -> tuple[list[Any], float]:
    """A sample spread over the input's pieces, and the factor from it to the whole."""
    if job.given is not None:
        return list(job.given), 1.0
    pieces = inputs.pieces
    share = max(1, SAMPLE // len(pieces))
    stride = max(1, len(pieces) // SAMPLE)
    rows: list[Any] = []
    for piece in pieces[::stride]:
        rows += itertools.islice(job.rows([piece]), share)
    if inputs.rows is not None and rows:
        return rows, inputs.rows / len(rows)
    sampled = sum(_size(row) for row in rows)
    return rows, max(1.0, inputs.size / sampled) if sampled else 1.0


def _size(row: Any) -> int:
    """Bytes that a row took in the input, about."""
    text = getattr(row, "text", None)
    return len(text.encode()) + 100 if isinstance(text, str) else len(orjson.dumps(row))


def estimate(job: Job, inputs: Inputs) -> tuple[dict[str, Plan], dict[str, Plan], float]:
    """(expected, at most, number of rows): calls and tokens by role, when nothing is refused and when every try is used."""
    rows, factor = _sampled(job, inputs)
    expected: dict[str, Plan] = {}
    most: dict[str, Plan] = {}
    for row in rows:
        for task in job.tasks(row):
            one, all_tries = job.estimate(task)
            for total, part in ((expected, one), (most, all_tries)):
                for role, plan in part.items():
                    total[role] = total.get(role, Plan()) + plan
    scale = {role: plan.scaled(factor) for role, plan in expected.items()}
    return scale, {role: plan.scaled(factor) for role, plan in most.items()}, len(rows) * factor


def waves(job: Job, inputs: Inputs) -> int:
    """How often the longest of the sampled rows waits for a batch, when nothing is refused."""
    roles = {name for name, role in job.roles.items() if parse_spec(role.spec).batch}
    rows, _ = _sampled(job, inputs)
    tasks = (task for row in rows for task in job.tasks(row))
    plans = (job.estimate(task)[0] for task in tasks)
    return max((sum(plan.depth for role, plan in one.items() if role in roles) for one in plans), default=0)


def show(job: Job, inputs: Inputs, options: RunOptions) -> None:
    """Print the estimate as a table."""
    expected, most, rows = estimate(job, inputs)
    about = "" if rows <= SAMPLE else "about "
    title = f"{job.name}: {about}{rows:,.0f} {job.reads} in, {about}{rows * job.tasks_per_row:,.0f} tasks"
    if batched(job):
        title += f"; {waves(job, inputs):,} batches one after the other, each within a day"
    print_plans(title, ("role",), {(role,): (expected[role], most[role]) for role in expected}, job.roles, options)
    Console().print("No call was made. Expected: nothing is refused. At most: every chunk uses all its tries.")


def print_plans(
    title: str,
    names: tuple[str, ...],
    plans: Mapping[tuple[str, ...], tuple[Plan, Plan]],
    roles: Mapping[str, Role],
    options: RunOptions,
) -> None:
    """Print calls, tokens and cost as a table, and their sums.

    Args:
        names: headings of what the plans are named by, the role last.
        plans: what is expected, and at most.
    """
    prices = load_prices(options.prices)
    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    for name in (*names, "model", ""):
        table.add_column(name)
    for name in ("calls", "prompt tokens", "answer tokens", "cost"):
        table.add_column(name, justify="right")
    tokens, costs, unknown = [0, 0], [0.0, 0.0], False
    for key, both in plans.items():
        spec = parse_spec(roles[key[-1]].spec)
        for place, plan in enumerate(both):
            cost = prices.charged(spec.model, Usage(plan.prompt, plan.completion), local=spec.local)
            cost = cost and cost * (BATCH_SHARE if spec.batch else 1.0)
            unknown |= cost is None
            tokens[place] += plan.prompt + plan.completion
            costs[place] += cost or 0.0
            named = ("", *("" for _ in key), "at most") if place else (*key, spec.text, "expected")
            told = "price unknown" if cost is None else f"${cost:,.2f}"
            table.add_row(*named, f"{plan.calls:,}", f"{plan.prompt:,}", f"{plan.completion:,}", told)
    console = Console()
    console.print(table)
    known = f"${costs[0]:,.2f} expected, ${costs[1]:,.2f} at most"
    tail = "give a price with --prices FILE to see the cost" if unknown else known
    console.print(f"{tokens[0]:,} tokens expected, {tokens[1]:,} at most; {tail}")
    if options.max_tokens is not None and options.max_tokens < tokens[0]:
        console.print(f"--max-tokens {options.max_tokens:,} will stop the run before it is complete")

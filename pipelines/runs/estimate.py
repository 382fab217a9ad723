"""What a run will take, before anything is spent."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from tokenmill.inference.call import Usage
from tokenmill.inference.pricing import Prices
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.read_rows import parsed_rows

SAMPLE = 1000
"""Rows looked at; a larger input is scaled up from them."""


def _sampled(job: Job, inputs: Inputs) -> tuple[list[Any], float]:
    """A sample spread over the input's pieces, and the factor from it to the whole."""
    pieces = inputs.pieces
    share = max(1, SAMPLE // len(pieces))
    stride = max(1, len(pieces) // SAMPLE)
    rows: list[Any] = []
    for piece in pieces[::stride]:
        rows += itertools.islice(parsed_rows([piece], job.parser, job.max_row_bytes), share)
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


def show(job: Job, inputs: Inputs, prices: Prices, args: argparse.Namespace) -> None:
    """Print the estimate as a table."""
    expected, most, rows = estimate(job, inputs)
    about = "" if len(inputs.pieces) and rows <= SAMPLE else "about "
    table = Table(
        title=f"{job.name}: {about}{rows:,.0f} rows in, {about}{rows * job.tasks_per_row:,.0f} tasks",
        box=box.SIMPLE,
        title_justify="left",
    )
    for name, justify in (
        ("role", "left"), ("model", "left"), ("", "left"), ("calls", "right"), ("prompt tokens", "right"),
        ("answer tokens", "right"), ("cost", "right"),
    ):  # fmt: skip
        table.add_column(name, justify=justify)
    totals = {"expected": 0.0, "at most": 0.0}
    unknown = False
    for role in expected:
        spec = parse_spec(job.roles[role].spec)
        for label, plans in (("expected", expected), ("at most", most)):
            plan = plans[role]
            cost = 0.0 if spec.local else prices.cost(spec.model, Usage(plan.prompt, plan.completion))
            unknown |= cost is None
            totals[label] += cost or 0.0
            table.add_row(
                role if label == "expected" else "",
                spec.text if label == "expected" else "",
                label,
                f"{plan.calls:,}",
                f"{plan.prompt:,}",
                f"{plan.completion:,}",
                "price unknown" if cost is None else f"${cost:,.2f}",
            )
    console = Console()
    console.print(table)
    tokens = {
        label: sum(p.prompt + p.completion for p in plans.values()) for label, plans in (("e", expected), ("m", most))
    }
    console.print(
        f"{tokens['e']:,} tokens expected, {tokens['m']:,} at most"
        + (
            "; give a price with --prices FILE to see the cost"
            if unknown
            else f"; ${totals['expected']:,.2f} expected, ${totals['at most']:,.2f} at most"
        )
    )
    if args.max_tokens is not None and args.max_tokens < tokens["e"]:
        console.print(f"--max-tokens {args.max_tokens:,} will stop the run before it is complete")
    console.print("No call was made. Expected: nothing is refused. At most: every chunk uses all its tries.")

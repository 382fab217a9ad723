"""Tool specifications: how fast they are checked and rendered, and how well and how fast repetitions are found.

    python -m tokenmill.bench.tools speed
    python -m tokenmill.bench.tools recall [--tools 2000]
    python -m tokenmill.bench.tools growth [--sizes 2000 20000 200000]

`recall` uses the real embedding model; `growth` a stand-in (hashed words), because a model's time is the same for each
tool and would hide how the search grows. Each prints Markdown and returns 1 if a target was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tokenmill.bench.tools.corpus import KINDS, Planted, repetition, tools
from tokenmill.bench.tools.embedding import HashedWords
from tokenmill.pipelines.tools.dedup import DropDuplicates, Duplicate
from tokenmill.schemas.tools import ToolSpec, from_openai, to_openai
from tokenmill.schemas.typescript.render import render_namespace
from tokenmill.tools_repo.specs.likeness import Likeness
from tokenmill.tools_repo.specs.validate import validate

PLANTED = 0.2
"""Repetitions, as a share of the different tools."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.tools", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    speed_ = commands.add_parser("speed", help="specifications checked and rendered per second")
    speed_.add_argument("--tools", type=int, default=2000)
    recall_ = commands.add_parser("recall", help="planted repetitions found, different tools confused")
    recall_.add_argument("--tools", type=int, default=2000)
    recall_.add_argument("--misses", action="store_true", help="name what was missed or confused")
    growth_ = commands.add_parser("growth", help="time by number of tools")
    growth_.add_argument("--sizes", type=int, nargs="+", default=[2_000, 20_000, 200_000])
    args = parser.parse_args(argv)
    if args.command == "speed":
        return speed(args.tools)
    return recall(args.tools, args.misses) if args.command == "recall" else growth(args.sizes)


def speed(count: int) -> int:
    """Specifications a second of one core, validated and rendered, each on its own."""
    specs = list(tools(count))
    rates = {}
    for name, work in (
        ("validated", validate),
        ("rendered as TypeScript", lambda spec: render_namespace([to_openai(spec)])),
    ):
        for spec in specs[:50]:
            work(spec)
        began = time.process_time()
        for spec in specs:
            work(spec)
        rates[name] = count / (time.process_time() - began)
    print("| work | specifications per second of one core |\n|---|---|")
    for name, rate in rates.items():
        print(f"| {name} | {rate:,.0f} |")
    return 0


@dataclass(frozen=True)
class Outcome:
    seconds: float
    cpu_seconds: float
    found: list[tuple[str, str]]
    """(dropped, kept) ids."""


def drop(rows: list[ToolSpec], likeness: Likeness) -> Outcome:
    """Run the transform on this machine, in memory."""
    with TemporaryDirectory() as folder:
        began, cpu = time.perf_counter(), time.process_time()
        with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as pipeline:
            kept, duplicates = pipeline | beam.Create(rows) | DropDuplicates(likeness)
            for name, ids in (("kept", kept | beam.Map(_kept)), ("found", duplicates | beam.Map(_found))):
                _ = ids | f"Write {name}" >> beam.io.WriteToText(str(Path(folder, name)), shard_name_template="")
        outcome = Outcome(
            time.perf_counter() - began,
            time.process_time() - cpu,
            [tuple(json.loads(line)) for line in Path(folder, "found").read_text().splitlines()],
        )
        kept_count = len(Path(folder, "kept").read_text().splitlines())
    if kept_count + len(outcome.found) != len(rows):
        raise RuntimeError(f"{len(rows)} tools went in, {kept_count} + {len(outcome.found)} came out")
    return outcome


def _kept(tool: ToolSpec) -> str:
    return tool.id.encode("unicode_escape").decode()


def _found(duplicate: Duplicate) -> str:
    return json.dumps([duplicate.tool.id, duplicate.of])


def plant(count: int) -> tuple[list[ToolSpec], list[Planted]]:
    """Different tools, and repetitions of the first of them in every way."""
    base = list(tools(count))
    return base, [repetition(tool, KINDS[i % len(KINDS)]) for i, tool in enumerate(base[: int(count * PLANTED)])]


def recall(count: int, misses: bool) -> int:
    base, plants = plant(count)
    outcome = drop([*base, *(p.tool for p in plants)], Likeness())
    true = {frozenset((p.tool.id, p.of)): p for p in plants}
    found = {frozenset(pair) for pair in outcome.found}
    hits = Counter(p.kind for pair, p in true.items() if pair in found)
    totals = Counter(p.kind for p in plants)
    false = found - true.keys()
    print("| planted repetition | found |\n|---|---|")
    for kind in KINDS:
        print(f"| {kind} | {hits[kind]} of {totals[kind]} |")
    rate, wrong = hits.total() / len(plants), len(false) / max(1, len(found))
    print(f"| all | {rate:.1%} |\n| false merges among {len(found)} | {wrong:.1%} ({len(false)}) |")
    if misses:
        names = {tool.id: f"{tool.name}: {tool.description}" for tool in (*base, *(p.tool for p in plants))}
        for title, pairs in (("missed", true.keys() - found), ("confused", false)):
            for pair in pairs:
                print(title, *sorted(names[id] for id in pair), sep="\n    ", file=sys.stderr)
    _paraphrases()
    return 0 if rate >= 0.95 and wrong <= 0.02 else 1


def _paraphrases() -> None:
    """Forty tools written by hand, each with a paraphrase that shares few words, and with a neighbour that is another."""
    lines = resources.files("tokenmill.bench.tools").joinpath("data/pairs.jsonl").read_text().splitlines()
    rows = [
        [_by_hand(row[which], f"{which}-{at}") for which in ("tool", "same", "other")]
        for at, row in enumerate(map(json.loads, lines))
    ]
    likeness = Likeness()
    prints = asyncio.run(likeness.fingerprints([tool for row in rows for tool in row]))
    triples = [prints[i : i + 3] for i in range(0, len(prints), 3)]
    same = sum(likeness.score(tool, same) > 0 for tool, same, _ in triples)
    confused = sum(likeness.score(tool, other) > 0 or likeness.score(same, other) > 0 for tool, same, other in triples)
    print(f"\nBy hand: {same} of {len(triples)} full paraphrases found, {confused} neighbours confused.")


def _by_hand(tool: dict[str, Any], server: str) -> ToolSpec:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in tool["arguments"]}}
    function = {"name": tool["name"], "description": tool["description"], "parameters": schema}
    return from_openai(function, origin="mcp", server=server)


def growth(sizes: list[int]) -> int:
    print("| tools | seconds | CPU seconds | tools per second | peak MB | growth exponent |\n|---|---|---|---|---|---|")
    exponents, before = [], None
    for size in sorted(sizes):
        base, plants = plant(round(size / (1 + PLANTED)))
        outcome = drop([*base, *(p.tool for p in plants)], Likeness(embedder=HashedWords()))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        exponent = ""
        if before is not None:
            exponents.append(math.log(outcome.cpu_seconds / before[1]) / math.log(size / before[0]))
            exponent = f"{exponents[-1]:.2f}"
        before = (size, outcome.cpu_seconds)
        print(f"| {size:,} | {outcome.seconds:,.0f} | {outcome.cpu_seconds:,.0f} | {size / outcome.seconds:,.0f} "
              f"| {peak:,.0f} | {exponent} |", flush=True)  # fmt: skip
    return 0 if all(exponent < 1.5 for exponent in exponents) else 1


if __name__ == "__main__":
    sys.exit(main())

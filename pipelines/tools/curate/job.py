"""Merge the tools of several runs, harvested or evolved: each tool once, under a name of its own, and clear.

tools | validate | one of each, named, judged | data, rejected, failed
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import apache_beam as beam
import orjson
from apache_beam.metrics import Metrics
from tokenmill.inference.roles import Models
from tokenmill.judges.model.tool_clarity import present
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.tools.curate.dag import CurateTools, JudgeTool
from tokenmill.pipelines.tools.curation import Curation, add_curation, curation
from tokenmill.pipelines.tools.parse import ToolParser, ValidateTools
from tokenmill.pipelines.transforms import DATA, FAILED, NAMESPACE, REJECTED
from tokenmill.pipelines.transforms.sinks import write_outputs
from tokenmill.pipelines.transforms.sources import Piece, ReadRows
from tokenmill.schemas.tools import RefusedTool, ToolSpec

from tokenmill import prompts

_MAX_ROW = 5_000_000


def add_curate(kinds: argparse._SubParsersAction) -> None:
    """The subcommand `curate` and its flags."""
    parser = kinds.add_parser(
        "curate", help="merge runs, keep each tool once", description=__doc__.split("\n", 1)[0], allow_abbrev=False
    )
    data = parser.add_argument_group("what is read and written")
    data.add_argument(
        "--input",
        nargs="+",
        required=True,
        metavar="DIR|GLOB",
        help="output folders of `tools harvest` and `tools evolve`, or Parquet or JSONL files with such rows",
    )
    data.add_argument("--output", metavar="DIR", help="a folder for this run alone; required unless estimating")
    data.add_argument("--limit", type=options.positive, metavar="N", help="read only the first N rows")
    data.add_argument("--overwrite", action="store_true", help="replace a finished run of other settings in DIR")
    data.add_argument("--seed", type=options.seed, default=0, metavar="N", help="of every draw (default 0)")
    add_curation(parser)
    calls = parser.add_argument_group("the judge's calls")
    calls.add_argument(
        "--max-concurrency", type=options.positive, default=64, metavar="N", help="calls in flight per worker process"
    )
    calls.add_argument("--timeout", type=options.seconds, default=600.0, metavar="S", help="for one answer")
    calls.add_argument("--patience", type=options.seconds, default=300.0, metavar="S", help="with a silent endpoint")
    calls.add_argument("--estimate", action="store_true", help="print calls, tokens and cost, and make no call")
    calls.add_argument(
        "--max-tokens", type=options.positive, metavar="N", help="tokens this output may cost in all; then a clean stop"
    )
    calls.add_argument("--prices", metavar="FILE", help="JSON with prices per million tokens")
    calls.add_argument("--cache", metavar="PATH|URL", help="where answers are kept (default: ~/.cache/tokenmill)")
    calls.add_argument("--retry-failed", action="store_true", help="ask again what failed or was refused")
    parser.set_defaults(make=job, preview=None, max_document_bytes=_MAX_ROW)


def job(args: argparse.Namespace) -> Job:
    """The configured job.

    Raises:
        UsageError: a flag's value makes no sense.
    """
    chosen = curation(args)
    return Job(
        name="tools curate",
        title="Tool specifications of several runs, each tool once",
        step=JudgeTool(chosen.judge) if chosen.judge else JudgeTool(),
        parser=ToolParser(),
        roles=chosen.roles,
        build=partial(build, chosen, args.seed),
        estimate=partial(estimate, chosen),
        prompts=chosen.prompts,
        config=chosen.config,
    )


def build(
    chosen: Curation,
    seed: int,
    root: beam.Pipeline,
    models: Models,
    pieces: Sequence[Piece],
    folder: str,
    shards: int,
) -> None:
    """The whole job on a pipeline: shards under `folder`/{data,rejected,failed}."""
    tools, unreadable = root | "Read" >> ReadRows(pieces, ToolParser(), max_bytes=_MAX_ROW)
    tasks = tools | "Count tools" >> beam.Map(_counted).with_output_types(ToolSpec)
    valid = tasks | "Validate" >> ValidateTools()
    curated = valid[DATA] | "Curate" >> CurateTools(models, chosen.judge, seed, likeness=chosen.likeness)
    refused = (valid[REJECTED], curated[REJECTED]) | "All rejected" >> beam.Flatten()
    failed = (unreadable, curated[FAILED]) | "All failed" >> beam.Flatten()
    rows = {DATA: curated[DATA], REJECTED: refused, FAILED: failed}
    write_outputs(rows, folder, ToolSpec, RefusedTool, shards)


def _counted(tool: ToolSpec) -> ToolSpec:
    """Every tool read is one task of the run, whatever becomes of it."""
    Metrics.counter(NAMESPACE, DATA).inc()
    return tool


def estimate(chosen: Curation, tool: ToolSpec) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """The judge's calls for one tool, were it no duplicate; and when every answer must be asked for again."""
    if chosen.judge is None:
        return {}, {}
    from tokenmill.pipelines.rollouts.chunking import count_tokens

    judge = chosen.judge
    fixed = sum(count_tokens(text) for _, text in prompts.load(judge.prompt).parts)
    shown = count_tokens(present(tool)) if _readable(tool) else 0
    one = Plan(1, fixed + shown, 60)
    return {"judge": one.scaled(judge.votes)}, {"judge": one.scaled(judge.votes * judge.tries)}


def _readable(tool: ToolSpec) -> bool:
    try:
        orjson.loads(tool.output_schema or "{}")
    except ValueError:
        return False
    return True

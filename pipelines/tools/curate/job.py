"""Merge the tools of several runs, harvested or evolved: each tool once, under a name of its own, and clear.

tools | validate | one of each, named, judged | data, rejected, failed
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import orjson
from tokenmill.judges.model.tool_clarity import present
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import of_data
from tokenmill.pipelines.tools.curate.dag import CurateTools, LookAtTool
from tokenmill.pipelines.tools.curation import Curation, JudgeOnlyOptions, curation
from tokenmill.pipelines.tools.parse import ToolParser, ValidateTools
from tokenmill.pipelines.transforms import DATA, FAILED, REJECTED
from tokenmill.pipelines.transforms.counts import count
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.schemas.tools import RefusedTool, ToolSpec

from tokenmill import prompts


@dataclass(frozen=True, kw_only=True)
class CurateOptions(JudgeOnlyOptions):
    """What `tools curate` may be given."""

    input: tuple[str, ...] = of_data(
        metavar="DIR|GLOB",
        help="output folders of `tools harvest` and `tools evolve`, or Parquet or JSONL files with such rows",
    )


def job(options: CurateOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: there is no such embedding model.
    """
    chosen = curation(options)
    return Job(
        name="tools curate",
        title="Tool specifications of several runs, each tool once",
        step=LookAtTool(chosen.judge),
        parser=ToolParser(),
        roles=chosen.roles,
        dag=partial(build, chosen, options.seed),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, chosen),
        prompts=chosen.prompts,
        config=chosen.config,
    )


COMMAND = Command("tools curate", CurateOptions, one(job))


def build(chosen: Curation, seed: int, flow: Flow) -> None:
    """The whole job."""
    tools, unreadable = flow.read()
    count(tools, DATA)  # every tool read is one task of the run, whatever becomes of it
    valid = tools | "Validate" >> ValidateTools()
    curated = valid[DATA] | "Curate" >> CurateTools(flow.models, chosen.judge, seed, likeness=chosen.likeness)
    refused, failed = [valid[REJECTED], curated[REJECTED]], [unreadable, curated[FAILED]]
    flow.write(ToolSpec, RefusedTool, curated[DATA], refused, failed)


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

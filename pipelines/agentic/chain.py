"""The whole chain of figure 8: agents, their tasks, trajectories; each stage a run of its own in `OUT/stages`, the
trajectories in `OUT` itself. A stage that is finished is not repeated, and one token budget holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenmill.pipelines.agentic import chain_estimate
from tokenmill.pipelines.agentic.agents import job as agents_job
from tokenmill.pipelines.agentic.agents.options import AgentsOptions, tools_read
from tokenmill.pipelines.agentic.tasks import job as tasks_job
from tokenmill.pipelines.agentic.tasks.job import TasksOptions
from tokenmill.pipelines.agentic.trajectories import job as trajectory_job
from tokenmill.pipelines.agentic.trajectories.job import TrajectoriesOptions
from tokenmill.pipelines.report.html import write_report
from tokenmill.pipelines.report.stages import stage_entry
from tokenmill.pipelines.report.survey import survey_run
from tokenmill.pipelines.runs.exit import FAILED, OK, say
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.launch import Command, launch
from tokenmill.pipelines.transforms.files import whole_path
from tokenmill.schemas.manifest import Manifest

STAGES = "stages"


@dataclass(frozen=True, kw_only=True)
class ChainOptions(TrajectoriesOptions, TasksOptions, AgentsOptions):
    """What the whole chain may be given: all that its stages may."""

    input: tuple[str, ...] = tools_read()


@dataclass(frozen=True)
class Stage:
    """One run of the chain."""

    name: str
    make: Callable[[Any], Job]
    folder: str
    """Below the output; empty for the output itself."""


CHAIN = (
    Stage("agents", agents_job.job, f"{STAGES}/agents"),
    Stage("tasks", tasks_job.job, f"{STAGES}/tasks"),
    Stage("trajectories", trajectory_job.job, ""),
)


def run(options: ChainOptions, beam_args: Sequence[str]) -> int:
    """Run the stages one after another; the exit code, that of the stage that ended the chain.

    Raises:
        UsageError: there is nothing to read, or the output is another's.
    """
    if options.estimate:
        return chain_estimate.show(options)
    if options.preview:
        return chain_estimate.preview(options)
    for stage in CHAIN[1:]:  # what is wrong with a later stage is told before the first one has cost anything
        stage.make(options)
    output, produced = options.folder, options.input
    done: list[dict[str, Any]] = []
    options = replace(options, account=f"agentic {whole_path(output)}")
    OutputFolder(output).check_ours()
    for number, stage in enumerate(CHAIN, 1):
        folder = OutputFolder(f"{output}/{stage.folder}".rstrip("/"))
        print(f"── {number}/{len(CHAIN)} {stage.name}: {folder.path}", flush=True)
        limit = options.limit if number == 1 else None  # the limit is of what the chain reads
        its = replace(options, input=produced, output=folder.path, limit=limit, stages=tuple(done))
        code = launch(stage.make(its), its, beam_args)
        manifest = folder.manifest() if code in (OK, FAILED) else None
        if manifest is None:
            return code
        if not manifest["counts"]["accepted"]:
            return _nothing(stage, folder, manifest, done, OutputFolder(output))
        done.append(stage_entry(stage.name, stage.folder, manifest))
        produced = (folder.path,)
    return OK


COMMAND = Command("agentic", ChainOptions, run)


def _nothing(
    stage: Stage, folder: OutputFolder, manifest: dict[str, Any], before: list[dict[str, Any]], out: OutputFolder
) -> int:
    """End a chain of which a stage kept nothing: say why, and show it in the output's report. Rows that were all honestly
    refused are a result, in whatever stage; rows that failed are not."""
    counts, shown = manifest["counts"], folder.at("report.html")
    if stage.folder and out.local:  # the output has no rows, and no manifest: it is not finished
        out.claim()
        ended = Manifest(**{**manifest, "stages": before})
        shown = str(write_report(Path(out.path), ended, survey_run(Path(folder.path))))
    why = {**manifest["reasons"], **manifest["errors"]}
    told = ", ".join(f"{reason} {n:,}" for reason, n in sorted(why.items(), key=lambda item: -item[1])[:5])
    line = (
        f"the chain ends at its stage {stage.name}, which kept nothing: {counts['rejected']:,} refused, "
        f"{counts['failed']:,} failed ({told}); see {shown}"
    )
    return say(line, OK if counts["rejected"] and not counts["failed"] else FAILED)

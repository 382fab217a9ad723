"""The whole chain of figure 8: agents, their tasks, trajectories; each stage a run of its own in `OUT/stages`, the
trajectories in `OUT` itself. A stage that is finished is not repeated, and one token budget holds for all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.pipelines.agentic import chain_estimate
from tokenmill.pipelines.agentic.agents import job as agents_job
from tokenmill.pipelines.agentic.flags import add_run_flags
from tokenmill.pipelines.agentic.tasks import job as tasks_job
from tokenmill.pipelines.agentic.trajectories import job as trajectory_job
from tokenmill.pipelines.report.html import write_report
from tokenmill.pipelines.report.stages import stage_entry
from tokenmill.pipelines.report.survey import survey_run
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import FAILED, OK, ended, say
from tokenmill.pipelines.runs.folder import WORK, OutputFolder
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.launch import launch
from tokenmill.pipelines.transforms.files import whole_path
from tokenmill.schemas.manifest import Manifest

STAGES = "stages"


@dataclass(frozen=True)
class Stage:
    """One run of the chain."""

    name: str
    make: Callable[[argparse.Namespace], Job]
    folder: str
    """Below the output; empty for the output itself."""
    flag: str
    """Flag that names the stage's input when it is run alone."""


CHAIN = (
    Stage("agents", agents_job.job, f"{STAGES}/agents", "--tools"),
    Stage("tasks", tasks_job.job, f"{STAGES}/tasks", "--agents"),
    Stage("trajectories", trajectory_job.job, "", "--tasks"),
)


def add_chain(kinds: argparse._SubParsersAction, name: str) -> None:
    """The subcommand of the whole chain, with the flags of all stages."""
    parser = kinds.add_parser(
        name,
        help="the whole chain (the default)",
        description=__doc__.split("\n\n", 1)[0],
        allow_abbrev=False,
    )
    add_run_flags(
        parser,
        reads="--tools",
        what="runs of `tools harvest`, `evolve` or `curate`, or files of such rows",
        roles=trajectory_job.ROLES,
    )
    agents_job.add_agent_flags(parser)
    tasks_job.add_task_flags(parser)
    trajectory_job.add_flags(parser)
    parser.set_defaults(chain=run)


def run(args: argparse.Namespace, beam_args: Sequence[str]) -> int:
    """Run the stages one after another; the exit code, that of the stage that ended the chain."""
    return ended(lambda: _run(args, beam_args))


def _run(args: argparse.Namespace, beam_args: Sequence[str]) -> int:
    if not args.input:
        raise UsageError("--tools DIR is required")
    if args.estimate:
        return chain_estimate.show(args)
    if args.preview:
        return chain_estimate.preview(args)
    if not args.output:
        raise UsageError("--output DIR is required (or --preview N, or --estimate)")
    for stage in CHAIN[1:]:  # what is wrong with a later stage's flags is told before the first one has cost anything
        stage.make(argparse.Namespace(**vars(args)))
    output = args.output.rstrip("/")
    args.account = f"agentic {whole_path(output)}"
    produced, args.stages = args.input, []
    OutputFolder(output).check_ours()
    for number, stage in enumerate(CHAIN, 1):
        folder = OutputFolder(f"{output}/{stage.folder}".rstrip("/"))
        print(f"── {number}/{len(CHAIN)} {stage.name}: {folder.path}", flush=True)
        stage_args = argparse.Namespace(**{**vars(args), "input": list(produced), "output": folder.path})
        if number > 1:
            stage_args.limit = None  # the limit is of what the chain reads
        code = launch(stage.make(stage_args), stage_args, beam_args)
        manifest = folder.manifest() if code in (OK, FAILED) else None
        if manifest is None:
            return code
        if not manifest["counts"]["accepted"]:
            return _nothing(stage, folder, manifest, args.stages, OutputFolder(output))
        args.stages.append(stage_entry(stage.name, stage.folder, manifest))
        produced = [folder.path]
    return OK


def _nothing(
    stage: Stage, folder: OutputFolder, manifest: dict[str, Any], before: list[dict[str, Any]], out: OutputFolder
) -> int:
    """End a chain of which a stage kept nothing: say why, and show it in the output's report. Rows that were all honestly
    refused are a result, in whatever stage; rows that failed are not."""
    counts, shown = manifest["counts"], folder.at("report.html")
    if stage.folder and out.local:  # the output has no rows, and no manifest: it is not finished
        Path(out.path, WORK).mkdir(exist_ok=True)
        ended = Manifest(**{**manifest, "stages": before})
        shown = str(write_report(Path(out.path), ended, survey_run(Path(folder.path))))
    why = {**manifest["reasons"], **manifest["errors"]}
    told = ", ".join(f"{reason} {n:,}" for reason, n in sorted(why.items(), key=lambda item: -item[1])[:5])
    line = (
        f"the chain ends at its stage {stage.name}, which kept nothing: {counts['rejected']:,} refused, "
        f"{counts['failed']:,} failed ({told}); see {shown}"
    )
    return say(line, OK if counts["rejected"] and not counts["failed"] else FAILED)

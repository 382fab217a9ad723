"""`tools implement`: executable tools for domains, so that trajectories need no model to run them.

    python beam_runner.py tools implement --domains OUT/stages/domains --tools OUT --output ENGINES --llm SPEC

Domains are joined with their tools here, before the run: that is its input, kept in the output folder.
"""

from __future__ import annotations

import argparse
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.flags import add_run_flags, roles_of
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs import inputs, options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.prepared_input import made_input
from tokenmill.pipelines.runs.read_rows import parsed_rows
from tokenmill.pipelines.tools.implement.dag import ImplementTools, build
from tokenmill.pipelines.tools.parse import ToolParser, validated
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES, RecordParser
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.engines import EngineTask
from tokenmill.schemas.tools import RefusedTool, ToolSpec
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.world.programs.write import BATCH, PROMPTS, WRITE
from tokenmill.tools_repo.world.simulator import describe

from tokenmill import prompts

FOLDER = "tasks"
"""Folder within the output in which the joined domains are kept."""


def add_implement(kinds: argparse._SubParsersAction) -> None:
    """The subcommand `implement` and its flags."""
    parser = kinds.add_parser(
        "implement",
        help="write Python for the tools of domains, checked in a sandbox",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_run_flags(parser, reads="--tools", what="runs of `tools evolve` or `curate`, or files of such rows")
    parser.add_argument(
        "--domains",
        nargs="+",
        required=True,
        metavar="DIR|GLOB",
        help="the domains stage of `tools evolve` (OUT/stages/domains), or files of such rows",
    )
    parser.add_argument(
        "--tools-per-module", type=options.positive, default=BATCH, metavar="N", help=f"default {BATCH}"
    )
    parser.add_argument(
        "--repairs",
        type=int,
        default=2,
        metavar="N",
        help="further answers for a module that is not accepted (default 2)",
    )
    parser.set_defaults(make=job)


def job(args: argparse.Namespace) -> Job:
    """The configured job; joins domains with their tools and makes them its input.

    Raises:
        UsageError: a flag's value makes no sense, nothing to read, or there is no sandbox here.
    """
    roles = roles_of(args, "writer")
    if args.repairs < 0:
        raise UsageError("--repairs must be 0 or more")
    try:
        Bubblewrap().check()
    except SandboxUnavailable as error:
        raise UsageError(f"generated code is run in a sandbox only: {error}") from None
    spec = parse_spec(args.llm)
    stamps, notes = _join(args)
    step = ImplementTools(
        model=spec.model, seed=args.seed, tries=args.repairs + 1, batch=args.tools_per_module, max_tokens=_room(args)
    )
    return Job(
        name="tools implement",
        title="Executable tools: Python written by a model, checked in a sandbox",
        step=step,
        parser=RecordParser(EngineTask),
        roles=roles,
        build=partial(build, step),
        estimate=partial(estimate, step),
        prompts=PROMPTS,
        config={
            "input": stamps,
            **{name: getattr(step, name) for name in ("tries", "batch", "temperature", "top_p", "max_tokens")},
        },
        max_row_bytes=MAX_ROW_BYTES,
        notes=(*notes, *options.too_small(args.llm, "write tools")),
    )


def _room(args: argparse.Namespace) -> int:
    """Tokens of an answer: less where the context of the server that we start is small."""
    return 1024 if parse_spec(args.llm).kind in ("embedded", "llamacpp") else ImplementTools.max_tokens


def _join(args: argparse.Namespace) -> tuple[list[list[str]], list[str]]:
    """Make the domains with their tools the run's input, see `made_input`; [name, stamp] of the files that they come from,
    and notes for the user."""
    given, worlds = inputs.find(args.input), inputs.find(args.domains)
    inputs.check_columns(given, ToolParser())
    inputs.check_columns(worlds, RecordParser(Domain))
    stamps = [[file.name, file.stamp] for file in (*given.files, *worlds.files)]
    notes: list[str] = []

    def tasks() -> list[EngineTask]:
        tools: dict[str, dict[str, ToolSpec]] = {}
        for tool in parsed_rows(given.pieces, ToolParser(), MAX_ROW_BYTES):
            if not isinstance(checked := validated(tool), RefusedTool):
                tools.setdefault(checked.toolset, {}).setdefault(checked.id, checked)
        domains = parsed_rows(worlds.pieces, RecordParser(Domain), MAX_ROW_BYTES)
        joined = [_task(number, domain, tools) for number, domain in enumerate(domains)]
        if not joined:
            raise UsageError("--domains: there is no readable domain in it")
        if not any(task.tools for task in joined):
            raise UsageError("--tools: none of them belongs to a domain of --domains")
        homeless = sum(map(len, tools.values())) - sum(len(task.tools) for task in joined)
        if homeless > 0:
            notes.append(f"{homeless:,} tools belong to none of the domains and are left out")
        return sorted(joined, key=lambda task: task.id)

    made_input(args, FOLDER, stamps, tasks, EngineTask)
    return stamps, notes


def _task(number: int, domain: Domain, tools: dict[str, dict[str, ToolSpec]]) -> EngineTask:
    return EngineTask(
        id=domain.id,
        number=number,
        title=" / ".join(domain.path),
        description=domain.description,
        entities=domain.entities,
        state=domain.state,
        tools=list(tools.get("/".join(domain.path), {}).values()),
    )


CODE_TOKENS = 500
"""Answer tokens of one tool, its code and its tests, as strong models write them."""


def estimate(step: ImplementTools, task: EngineTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one domain, when every module is accepted and when every one uses all its tries."""
    if not task.tools or not task.entities:
        return {"writer": Plan()}, {"writer": Plan()}
    fixed = sum(count_tokens(text) for _, text in prompts.load(WRITE).parts)
    fixed += count_tokens(task.entities) + count_tokens(task.state) + count_tokens(task.description)
    one = Plan()
    for at in range(0, len(task.tools), step.batch):
        part = task.tools[at : at + step.batch]
        one += Plan(1, fixed + sum(count_tokens(describe(tool)) for tool in part), CODE_TOKENS * len(part))
    return {"writer": one}, {"writer": one.with_tries(step.tries)}

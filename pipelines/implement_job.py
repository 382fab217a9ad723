"""`tools implement`: executable tools for domains, so that trajectories need no model to run them.

    python beam_runner.py tools implement --domains OUT/stages/domains --tools OUT --output ENGINES --llm SPEC

Domains are joined with their tools here, before the run: that is its input, kept in the output folder.
"""

from __future__ import annotations

import argparse
import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from apache_beam.io.filesystems import FileSystems

import prompts
from llm.spec import parse_spec
from pipelines.agentic_flags import MAX_ROW_BYTES, add_run_flags, roles_of
from pipelines.chunking import count_tokens
from pipelines.implement import Implementation, ImplementTools, build
from pipelines.runs import inputs, options
from pipelines.runs.errors import UsageError
from pipelines.runs.job import Job, Plan
from pipelines.transforms.records import RecordParser
from pipelines.transforms.sinks import write_parquet
from pipelines.transforms.sources import Parser, RowUnreadable, raw_rows
from pipelines.transforms.tools import ToolParser, validated
from schemas.agentic import Domain
from schemas.columns import to_table
from schemas.documents import FailedRow
from schemas.engines import Engine, EngineTask, RefusedEngine
from schemas.tools import RefusedTool, ToolSpec
from tools_repo.bubblewrap import Bubblewrap
from tools_repo.sandbox import SandboxUnavailable
from tools_repo.world.engine import BATCH, PROMPTS, WRITE
from tools_repo.world.simulator import describe

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
    config = Implementation(step, max_row_bytes=args.max_document_bytes)
    if spec.kind == "embedded":
        notes.append("the embedded model is too small to write tools; take it to try the command, not to make data")
    return Job(
        name="tools implement",
        title="Executable tools: Python written by a model, checked in a sandbox",
        step=step,
        parser=config.parser,
        roles=roles,
        tasks=lambda task: (task,),
        tasks_per_row=1,
        build=partial(_build, config),
        estimate=partial(estimate, step),
        rows={"data": Engine, "rejected": RefusedEngine, "failed": FailedRow},
        prompts=PROMPTS,
        config={
            "input": stamps,
            **{name: getattr(step, name) for name in ("tries", "batch", "temperature", "top_p", "max_tokens")},
        },
        max_row_bytes=args.max_document_bytes,
        view=view,
        notes=tuple(notes),
    )


def _build(config, root, models, pieces, folder, shards) -> None:
    build(root, config, models, pieces, folder, shards)


def _room(args: argparse.Namespace) -> int:
    """Tokens of an answer: less where the context of the server that we start is small."""
    return 1024 if parse_spec(args.llm).kind in ("embedded", "llamacpp") else ImplementTools.max_tokens


def _join(args: argparse.Namespace) -> tuple[list[list[str]], list[str]]:
    """Write the domains with their tools where workers can read them, and make that the run's input; what they come
    from, and notes for the user. A file that stands there from an earlier try is taken as it is."""
    given, worlds = inputs.find(args.input), inputs.find(args.domains)
    inputs.check_columns(given, ToolParser())
    inputs.check_columns(worlds, RecordParser(Domain))
    stamps = [[file.name, file.stamp] for file in (*given.files, *worlds.files)]
    kept = args.output and not args.preview and not args.estimate
    folder = FileSystems.join(args.output.rstrip("/"), FOLDER) if kept else _temporary()
    path = FileSystems.join(folder, f"{hashlib.sha256(orjson.dumps(stamps)).hexdigest()[:16]}.parquet")
    notes: list[str] = []
    if not FileSystems.exists(path):
        tools: dict[str, dict[str, ToolSpec]] = {}
        for tool in _rows(given, ToolParser()):
            checked = validated(tool)
            if not isinstance(checked, RefusedTool):
                tools.setdefault(checked.toolset, {}).setdefault(checked.id, checked)
        tasks = [_task(number, domain, tools) for number, domain in enumerate(_rows(worlds, RecordParser(Domain)))]
        if not tasks:
            raise UsageError("--domains: there is no readable domain in it")
        if not any(task.tools for task in tasks):
            raise UsageError("--tools: none of them belongs to a domain of --domains")
        homeless = sum(map(len, tools.values())) - sum(len(task.tools) for task in tasks)
        if homeless > 0:
            notes.append(f"{homeless:,} tools belong to none of the domains and are left out")
        _write(tasks, folder, path)
    args.input = [path]
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


def _rows(found: inputs.Inputs, parser: Parser) -> Iterator[Any]:
    """All readable rows of an input, in order."""
    for piece in found.pieces:
        for number, values in raw_rows(piece, parser.columns, MAX_ROW_BYTES):
            if isinstance(values, RowUnreadable):
                continue
            try:
                yield parser(values, piece.name, number)
            except RowUnreadable:
                continue


def _write(tasks: list[EngineTask], folder: str, path: str) -> None:
    try:
        if "://" not in folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
        write_parquet(to_table(tasks, EngineTask), path)
    except OSError as error:
        raise UsageError(f"--output {folder}: {error.strerror or error}") from None


def _temporary() -> str:
    folder = tempfile.mkdtemp(prefix="tokenmill-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


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
    again = Plan(one.calls, one.prompt + one.completion, one.completion)
    return {"writer": one}, {"writer": one + again.scaled(step.tries - 1)}


def view(engine: Engine) -> Any:
    """An engine as a preview shows it."""
    from rich.console import Group
    from rich.syntax import Syntax
    from rich.text import Text

    shown: list[Any] = [Syntax(module.code, "python", word_wrap=True) for module in engine.modules]
    shown += [Text(f"{fault.tool}: {fault.detail}", "yellow") for fault in engine.missing]
    return Group(*shown)

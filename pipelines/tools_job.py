"""The `tools` subcommand: real tool specifications from MCP servers (`harvest`)."""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.harvest_card import write_harvest_card
from pipelines.runs import options
from pipelines.runs.errors import RunFailed, UsageError
from pipelines.runs.folder import KINDS, MANIFEST, WORK, OutputFolder, count_column
from pipelines.runs.masking import masked_command
from pipelines.runs.progress import Figures, Progress
from pipelines.runs.report import write_report
from pipelines.runs.survey import survey_run
from pipelines.tool_specs import Offer, ask, build
from pipelines.transforms import NAMESPACE
from schemas.manifest import Manifest
from tools_repo.bubblewrap import Bubblewrap
from tools_repo.harvest import Harvester
from tools_repo.sandbox import SandboxUnavailable
from tools_repo.servers import SHIPPED
from tools_repo.sources import Source, read_sources

OK, FAILED, USAGE = 0, 1, 2
PACKAGES = ("tokenmill", "apache-beam", "mcp", "uv", "jsonschema", "pyarrow")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    harvest = kinds.add_parser(
        "harvest",
        help="ask MCP servers from PyPI and npm for their tools",
        description=harvest_command.__doc__,
        allow_abbrev=False,
    )
    harvest.add_argument(
        "--servers",
        nargs="+",
        default=[str(SHIPPED)],
        metavar="FILE",
        help="lists of servers (JSONL), saved tools/list answers, server.json files, OpenAPI documents, or folders of "
        "them (default: the shipped list)",
    )
    harvest.add_argument("--output", metavar="DIR", help="a folder for this run alone; required unless previewing")
    harvest.add_argument("--only", nargs="+", metavar="NAME", help="only these servers")
    harvest.add_argument("--limit", type=options.positive, metavar="N", help="only the first N")
    harvest.add_argument("--preview", type=options.positive, metavar="N", help="ask N servers, print, write nothing")
    harvest.add_argument("--overwrite", action="store_true", help="replace a finished run in DIR")
    harvest.add_argument(
        "--store",
        metavar="DIR",
        help="where packages are installed and kept for further runs (default: ~/.cache/tokenmill/servers)",
    )
    harvest.add_argument(
        "--max-concurrency", type=options.positive, default=4, metavar="N", help="servers at a time (default 4)"
    )
    harvest.add_argument(
        "--timeout", type=options.seconds, default=60.0, metavar="S", help="for a server to start, and to list (60)"
    )
    harvest.add_argument(
        "--network", action="store_true", help="let servers use the network while they run (they are untrusted code)"
    )
    harvest.set_defaults(run=harvest_command)


def harvest_command(args: argparse.Namespace) -> int:
    """Harvest real tool specifications. Servers are installed from PyPI and npm without running their code, started in
    a sandbox without network, asked for their tools, and stopped."""
    try:
        return _harvest(args)
    except (UsageError, SandboxUnavailable) as error:
        return _say(str(error), USAGE)
    except RunFailed as error:
        return _say(str(error), FAILED)
    except KeyboardInterrupt:
        return _say("interrupted; repeat the command: what is installed by now is kept", 130)


def _say(line: str, code: int) -> int:
    print(f"tokenmill: {line}", file=sys.stderr, flush=True)
    return code


def _harvest(args: argparse.Namespace) -> int:
    sources, inputs = _sources(args)
    sandbox = Bubblewrap()
    if any(source.server and not source.server.url for source in sources):
        sandbox.check()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    harvester = Harvester(
        sandbox,
        Path(args.store) if args.store else cache / "tokenmill" / "servers",
        start_seconds=args.timeout,
        list_seconds=args.timeout,
        network=args.network,
    )
    if args.preview:
        return _preview(sources[: args.preview], harvester)
    if not args.output:
        raise UsageError("--output DIR is required (or --preview N)")
    out = OutputFolder(args.output.rstrip("/"))
    with out.locked():
        return _run(args, sources, inputs, harvester, out)


def _sources(args: argparse.Namespace) -> tuple[list[Source], list[dict[str, Any]]]:
    """What to harvest, and the files that say so.

    Raises:
        UsageError: a file cannot be read, or nothing is left to do.
    """
    paths = [Path(path) for path in args.servers]
    try:
        sources = list(read_sources(paths))
        files = [f for p in paths for f in (sorted(x for x in p.rglob("*") if x.is_file()) if p.is_dir() else [p])]
        stamps = [(f, f.read_bytes()) for f in files]
    except OSError as error:
        raise UsageError(f"--servers {error.filename}: {error.strerror}") from None
    if args.only:
        unknown = sorted(set(args.only) - {source.name for source in sources})
        if unknown:
            raise UsageError(f"--only {unknown[0]}: no such server in {' '.join(args.servers)}")
        sources = [source for source in sources if source.name in args.only]
    sources = sources[: args.limit]
    if not sources:
        raise UsageError(f"--servers {' '.join(args.servers)}: there are no servers")
    inputs = [
        {"file": f.name, "bytes": len(content), "rows": None, "stamp": hashlib.sha256(content).hexdigest()}
        for f, content in stamps
    ]
    return sources, inputs


def _run(
    args: argparse.Namespace,
    sources: Sequence[Source],
    inputs: list[dict[str, Any]],
    harvester: Harvester,
    out: OutputFolder,
) -> int:
    config = {
        "servers": [source.name for source in sources],
        "timeout": args.timeout,
        "network": args.network,
        "python": ".".join(platform.python_version_tuple()[:2]),
    }
    shape = orjson.dumps([config, [[i["file"], i["stamp"]] for i in inputs]], option=orjson.OPT_SORT_KEYS)
    fingerprint = hashlib.sha256(shape).hexdigest()
    earlier = out.manifest()
    if earlier is not None and not args.overwrite:
        if earlier.get("fingerprint") != fingerprint:
            raise UsageError(f"--output {out.path} holds a finished run of other settings; add --overwrite")
        print(f"{out.path} is finished already; --overwrite harvests again", file=sys.stderr)
        return OK
    started, clock = datetime.now(UTC), time.monotonic()
    out.begin()
    counters = _execute(sources, harvester, out.at(WORK), args.max_concurrency)
    paths = {kind: out.unfinished(kind) for kind in KINDS}
    counts = _counts(counters, paths, len(sources))
    manifest = Manifest(
        job="tools harvest",
        title="Tools of real MCP servers, as the servers themselves list them",
        command=masked_command(args.command_line),
        config=config,
        fingerprint=fingerprint,
        seed=0,
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - clock, 3),
        versions=_versions(),
        models=[],
        prompts=[],
        inputs=inputs,
        counts=counts,
        reasons=count_column(paths["rejected"], "reason"),
        errors=count_column(paths["failed"], "error"),
        languages={},
        licenses=count_column(paths["data"], "license"),
        calls={},
    )
    _finish(out, manifest)
    print(
        f"{counts['accepted']:,} tools of {counts['servers']:,} servers kept, {counts['rejected']:,} tools refused, "
        f"{counts['servers_failed']:,} of {counts['read']:,} servers failed, in {manifest.duration_s:.0f} s"
    )
    for what, found in (("refused for", manifest.reasons), ("failed with", manifest.errors)):
        if found:
            print(f"{what}: " + ", ".join(f"{reason} {n:,}" for reason, n in list(found.items())[:8]))
    print(f"report  {out.at('report.html')}\ndata    {out.at('data')}\ncard    {out.at('README.md')}")
    return OK if counts["accepted"] else FAILED


def _execute(sources: Sequence[Source], harvester: Harvester, folder: str, concurrency: int) -> dict[str, int]:
    """Run the pipeline in this process; its counters.

    Raises:
        SandboxUnavailable, RunFailed: it broke.
    """
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as state, _Harvesting(Path(state), len(sources)):
        build(pipeline, sources, harvester, folder, concurrency=concurrency, state=state)
        try:
            result = pipeline.run()
            result.wait_until_finish()
        except SandboxUnavailable:
            raise
        except Exception as error:
            line = next((li for li in reversed(str(error).splitlines()) if li.strip()), type(error).__name__)
            raise RunFailed(f"the pipeline broke: {line.strip()[:500]}") from error
    return {
        metric.key.metric.name: metric.committed or metric.attempted or 0
        for metric in result.metrics().query()["counters"]
        if metric.key.metric.namespace == NAMESPACE
    }


class _Harvesting(Progress):
    """The live line of a harvest."""

    def line(self, figures: Figures) -> str:
        return (
            f"{figures.done:,}/{self.total:,} servers · {figures.calls.get('tools', 0):,} tools · "
            f"failed {figures.rows.get('failed', 0):,}"
        )


def _counts(counters: dict[str, int], paths: dict[str, list[str]], sources: int) -> dict[str, int]:
    """Every server and every tool ends in exactly one place.

    Raises:
        RunFailed: one is missing or doubled.
    """
    failed = count_column(paths["failed"], "step")
    rows = {kind: sum(count_column(paths[kind], "id").values()) for kind in KINDS}
    servers, broken = counters.get("servers", 0), counters.get("servers failed", 0)
    listed, unusable = counters.get("tools listed", 0), failed.get("validate", 0)
    if servers + broken != sources or rows["failed"] != broken + unusable:
        raise RunFailed(
            f"the servers do not add up: {sources} read, {servers} with tools, {broken} failed, "
            f"{rows['failed']} rows in failed/"
        )
    if listed != rows["data"] + rows["rejected"] + unusable:
        raise RunFailed(
            f"the tools do not add up: {listed} listed, {rows['data']} kept, {rows['rejected']} refused, "
            f"{unusable} unusable"
        )
    return {
        "read": sources,
        "unreadable": failed.get("read", 0),
        "tasks": listed + broken - failed.get("read", 0),
        "accepted": rows["data"],
        "rejected": rows["rejected"],
        "failed": rows["failed"],
        "servers": servers,
        "servers_failed": broken,
    }


def _finish(out: OutputFolder, manifest: Manifest) -> None:
    """Final names, card, report, and last of all the manifest."""
    try:
        manifest.files = out.publish()
        folder = Path(out.path)
        survey = survey_run(folder)
        write_harvest_card(folder, manifest, survey)
        write_report(folder, manifest, survey)
        out.write(MANIFEST, orjson.dumps(manifest.as_dict(), option=orjson.OPT_INDENT_2))
        out.end()
    except OSError as error:
        raise RunFailed(f"{out.path}: {error.strerror or error}") from error


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _preview(sources: Sequence[Source], harvester: Harvester) -> int:
    """Ask a few servers and print what they offer."""
    from rich.console import Console
    from rich.text import Text

    console, offered = Console(), 0
    for source in sources:
        outcome = ask(source, harvester)
        if isinstance(outcome, Offer):
            offered += 1
            names = ", ".join(str(tool.get("name")) for tool in outcome.listed.tools)
            console.print(
                Text.assemble((f"{source.name}  ", "bold"), (f"{len(outcome.listed.tools)} tools: ", "green"), names)
            )
        else:
            console.print(Text.assemble((f"{source.name}  ", "bold"), (f"{outcome.error}: {outcome.message}", "red")))
            if outcome.excerpt:
                console.print(Text(f"  {outcome.excerpt}", style="dim"))
    console.print(f"{offered} of {len(sources)} servers offer tools. Nothing was written.")
    return OK if offered else FAILED

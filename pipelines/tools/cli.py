"""The `tools` subcommand: real tool specifications from MCP servers (`harvest`), and runs merged (`curate`)."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import FAILED, OK, ended
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.tools.curate.job import add_curate
from tokenmill.pipelines.tools.curation import add_curation
from tokenmill.pipelines.tools.evolve.job import add_evolve
from tokenmill.pipelines.tools.harvest.dag import Offer, ask
from tokenmill.pipelines.tools.harvest.job import harvest_run
from tokenmill.pipelines.tools.implement.job import add_implement
from tokenmill.tools_repo.harvest.harvester import Harvester
from tokenmill.tools_repo.harvest.server_lists import Source, read_sources
from tokenmill.tools_repo.harvest.servers import SHIPPED
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    add_harvest(kinds)
    add_curate(kinds)
    add_evolve(kinds)
    add_implement(kinds)


def add_harvest(kinds: argparse._SubParsersAction) -> None:
    """The subcommand `harvest` and its flags."""
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
        help="where packages are installed and kept for further runs (default: ~/.cache/tokenmill/servers; "
        "about 60 MB a server)",
    )
    harvest.add_argument(
        "--max-concurrency", type=options.positive, default=4, metavar="N", help="servers at a time (default 4)"
    )
    harvest.add_argument(
        "--timeout",
        type=options.seconds,
        default=120.0,
        metavar="S",
        help="for a server to start, and to list (default 120)",
    )
    harvest.add_argument(
        "--network", action="store_true", help="let servers use the network while they run (they are untrusted code)"
    )
    add_curation(harvest)
    harvest.add_argument(
        "--max-tokens", type=options.positive, metavar="N", help="tokens the judge may cost in all; then a clean stop"
    )
    harvest.add_argument("--cache", metavar="PATH|URL", help="where answers are kept (default: ~/.cache/tokenmill)")
    harvest.add_argument("--seed", type=options.seed, default=0, metavar="N", help="of every draw (default 0)")
    harvest.set_defaults(run=harvest_command)


def harvest_command(args: argparse.Namespace) -> int:
    """Harvest real tool specifications. Servers are installed from PyPI and npm without running their code, started in
    a sandbox without network, asked for their tools, and stopped."""
    return ended(lambda: _sandboxed(args), kept="what is installed by now is kept")


def _sandboxed(args: argparse.Namespace) -> int:
    try:
        return _harvest(args)
    except SandboxUnavailable as error:
        raise UsageError(str(error)) from None


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
        return harvest_run(args, sources, inputs, harvester, out)


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


def _preview(sources: Sequence[Source], harvester: Harvester) -> int:
    """Ask a few servers and print what they offer."""
    from rich.text import Text
    from tokenmill.pipelines.runs.terminal import Terminal

    console, offered = Terminal(), 0
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

"""Harvest real tool specifications: servers are installed from PyPI and npm without running their code, started in a sandbox
without network, asked for their tools, and stopped.

    python beam_runner.py tools harvest --output OUT
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.inputs import InputFile, Inputs
from tokenmill.pipelines.runs.job import Counted, Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import of_data, server_store
from tokenmill.pipelines.tools.curation import Curation, JudgeOnlyOptions, curation
from tokenmill.pipelines.tools.harvest.dag import HarvestTools, build
from tokenmill.schemas.flags import flag, more_than_zero, positive, shaping
from tokenmill.tools_repo.harvest.harvester import Harvester
from tokenmill.tools_repo.harvest.server_lists import Source, read_sources
from tokenmill.tools_repo.harvest.servers import SHIPPED
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.choose import named, sandbox_flag

from tokenmill import prompts

TOOLS, JUDGED = 12, 400
"""Tools of an ordinary server, and tokens of a tool as the judge reads it."""

_how = partial(flag, group="how servers are asked")


@dataclass(frozen=True, kw_only=True)
class HarvestOptions(JudgeOnlyOptions):
    """What `tools harvest` may be given."""

    input: tuple[str, ...] = of_data(
        (str(SHIPPED),),
        name="--servers",
        metavar="FILE",
        help="lists of servers (JSONL), mcpServers configurations, OpenAI function specifications, OpenAPI documents, saved "
        "tools/list answers, server.json files, or folders of them (default: the shipped list)",
    )
    only: tuple[str, ...] = of_data((), metavar="NAME", help="only these servers")
    store: str | None = of_data(
        None,
        metavar="DIR",
        help="where packages are installed and kept for further runs (default: ~/.cache/tokenmill/servers; "
        "about 60 MB a server)",
    )
    servers_at_once: int = _how(
        4, name="--max-concurrency", metavar="N", parse=positive, help="servers at a time per worker process"
    )
    server_seconds: float = _how(
        120.0,
        name="--timeout",
        metavar="S",
        parse=more_than_zero,
        shapes="timeout",
        help="for a server to start, and to list",
    )
    network: bool = _how(
        False, shapes=True, help="let servers use the network while they run (they are untrusted code)"
    )
    try_: bool = _how(
        False,
        name="--try",
        shapes=True,
        help="call what was listed with arguments drawn from its schema, and keep the answers: every tool in a sandbox without "
        "network, only read-only ones otherwise",
    )
    sandbox: str = sandbox_flag(group="how servers are asked")
    max_concurrency: int = 64
    """Calls of the judge in flight; its flag is that of the servers here."""
    timeout: float = 600.0
    """Seconds to wait for one answer of the judge."""


def job(options: HarvestOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: there is nothing to harvest, no sandbox here, or no such embedding model.
    """
    sources, found = _sources(options)
    sandbox = named(options.sandbox)
    if not options.estimate and any(source.server and not source.server.url for source in sources):
        try:
            sandbox.check()
        except SandboxUnavailable as error:
            raise UsageError(str(error)) from None
    harvester = Harvester(
        sandbox,
        Path(options.store or server_store()),
        start_seconds=options.server_seconds,
        list_seconds=options.server_seconds,
        network=options.network,
        try_seconds=options.server_seconds if options.try_ else 0.0,
    )
    chosen = curation(options)
    step = HarvestTools(harvester, options.servers_at_once)
    return Job(
        name="tools harvest",
        title="Tools of real MCP servers, as the servers themselves list them",
        step=step,
        parser=None,
        given=sources,
        found=found,
        reads="servers",
        roles=chosen.roles,
        rows_per_task=TOOLS,
        dag=partial(build, step, sources, chosen, options.seed),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, chosen),
        prompts=chosen.prompts,
        config={
            **shaping(options),
            **chosen.config,
            "servers": [source.name for source in sources],
            "python": ".".join(platform.python_version_tuple()[:2]),
        },
        packages=("tokenmill", "apache-beam", "mcp", "uv", "jsonschema", "pyarrow"),
        counts=counts,
    )


COMMAND = Command("tools harvest", HarvestOptions, one(job))


def _sources(options: HarvestOptions) -> tuple[list[Source], Inputs]:
    """What to harvest, and the files that say so.

    Raises:
        UsageError: a file cannot be read, or nothing is left to do.
    """
    paths, named = [Path(path) for path in options.input], " ".join(options.input)
    try:
        sources = list(read_sources(paths))
        inside = [f for p in paths for f in (sorted(x for x in p.rglob("*") if x.is_file()) if p.is_dir() else [p])]
        contents = [(f, f.read_bytes()) for f in inside]
    except OSError as error:
        raise UsageError(f"--servers {error.filename}: {error.strerror}") from None
    if options.only:
        unknown = sorted(set(options.only) - {source.name for source in sources})
        if unknown:
            raise UsageError(f"--only {unknown[0]}: no such server in {named}")
        sources = [source for source in sources if source.name in options.only]
    sources = sources[: options.limit]
    if not sources:
        raise UsageError(f"--servers {named}: there are no servers")
    files = tuple(InputFile(str(f), f.name, len(text), hashlib.sha256(text).hexdigest()) for f, text in contents)
    return sources, Inputs(files, (), len(sources))


def counts(counts: dict[str, int], column: Counted) -> dict[str, int]:
    """Servers and the tools that they list: a row of `failed/` is one or the other."""
    steps = column("failed", "step")
    tools_failed = steps.get("validate", 0) + steps.get("judge", 0)
    servers_failed = counts["failed"] - tools_failed
    return {
        "listed": counts["accepted"] + counts["rejected"] + tools_failed,
        "servers": counts["read"] - servers_failed,
        "servers_failed": servers_failed,
    }


def estimate(chosen: Curation, source: Source) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """The judge's calls for the tools of one source, were none a duplicate; and when every answer must be asked for again."""
    judge = chosen.judge
    if judge is None:
        return {}, {}
    tools = len(source.listed.tools) if source.listed else TOOLS if source.server else 0
    fixed = sum(count_tokens(text) for _, text in prompts.load(judge.prompt).parts)
    votes = Plan(1, fixed + JUDGED, 60).scaled(tools * judge.votes)
    return {"judge": votes}, {"judge": votes.scaled(judge.tries)}

"""One harvest, from its sources to a finished folder: run the pipeline, count everything, card, report, manifest."""

from __future__ import annotations

import argparse
import contextlib
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tokenmill.inference import runtime as runtimes
from tokenmill.inference.pricing import load_prices
from tokenmill.inference.roles import Models
from tokenmill.pipelines.runs.errors import RunFailed, UsageError
from tokenmill.pipelines.runs.exit import FAILED, OK
from tokenmill.pipelines.runs.finish import finish
from tokenmill.pipelines.runs.folder import KINDS, WORK, OutputFolder, count_column
from tokenmill.pipelines.runs.manifest import (
    Begun,
    check_utf8,
    described_calls,
    described_models,
    described_prompts,
    fingerprint_of,
    record,
    tell,
)
from tokenmill.pipelines.runs.options import default_cache
from tokenmill.pipelines.runs.preflight import check_models
from tokenmill.pipelines.runs.progress import Figures, Progress
from tokenmill.pipelines.runs.runner import run_through
from tokenmill.pipelines.tools.curate.dag import CurateTools
from tokenmill.pipelines.tools.curation import Curation, curation
from tokenmill.pipelines.tools.harvest.dag import build
from tokenmill.pipelines.transforms.files import whole_path
from tokenmill.tools_repo.harvest.harvester import Harvester
from tokenmill.tools_repo.harvest.server_lists import Source

JOB = "tools harvest"
PACKAGES = ("tokenmill", "apache-beam", "mcp", "uv", "jsonschema", "pyarrow")


def harvest_run(
    args: argparse.Namespace,
    sources: Sequence[Source],
    inputs: list[dict[str, Any]],
    harvester: Harvester,
    out: OutputFolder,
) -> int:
    """Harvest into a folder that is ours alone; the exit code, 0 if a tool was kept.

    Raises:
        UsageError: the folder holds something else.
        RunStopped, RunFailed: the run ended early.
    """
    if not out.local:
        raise UsageError(f"--output {out.path}: a harvest is written to a folder of this machine")
    check_utf8(args, [i["file"] for i in inputs])
    out.check_apart(args.servers)
    chosen = curation(args)
    config = {
        **chosen.config,
        "servers": [source.name for source in sources],
        "timeout": args.timeout,
        "network": args.network,
        "python": ".".join(platform.python_version_tuple()[:2]),
    }
    served, used = described_models(chosen.roles), described_prompts(chosen.prompts)
    shape = {"job": JOB, "config": config, "seed": args.seed, "inputs": [[i["file"], i["stamp"]] for i in inputs]}
    fingerprint = fingerprint_of(shape, served, used)
    earlier = out.manifest()
    if earlier is not None and not args.overwrite:
        if earlier.get("fingerprint") != fingerprint:
            raise UsageError(f"--output {out.path} holds a finished run of other settings; add --overwrite")
        with contextlib.suppress(OSError):  # one that was killed just before its end left it
            out.end()
        print(f"{out.path} is finished already; --overwrite harvests again", file=sys.stderr)
        return OK if earlier["counts"]["accepted"] else FAILED
    begun = Begun()
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as state:
        models = _models(args, chosen, out, state)
        with _answering(models) as runtime:
            out.begin()
            curate = CurateTools(models, chosen.judge, args.seed, likeness=chosen.likeness)
            pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
            folder, concurrency = out.at(WORK), args.max_concurrency
            build(pipeline, sources, harvester, folder, concurrency=concurrency, state=state, curate=curate)
            with _Harvesting(Path(state), len(sources)):
                counters = run_through(pipeline, models.state if models else "")
            spent = runtime and {"tokens": runtime.run(runtime.client.cache.spent()), "shared": False}
    paths = {kind: out.unfinished(kind) for kind in KINDS}
    counts = _counts(counters, paths, len(sources))
    manifest = record(
        begun,
        args,
        paths,
        packages=PACKAGES,
        models=served,
        used=used,
        job=JOB,
        title="Tools of real MCP servers, as the servers themselves list them",
        config=config,
        fingerprint=fingerprint,
        inputs=inputs,
        counts=counts,
        calls=described_calls(chosen.roles, counters, load_prices()),
        spent=spent or {},
    )
    finish(out, manifest)
    tell(
        manifest,
        out,
        f"{counts['accepted']:,} tools of {counts['servers']:,} servers kept, {counts['rejected']:,} tools refused, "
        f"{counts['servers_failed']:,} of {counts['read']:,} servers failed, in {manifest.duration_s:.0f} s",
    )
    return OK if counts["accepted"] else FAILED


def _models(args: argparse.Namespace, chosen: Curation, out: OutputFolder, state: str) -> Models | None:
    if chosen.judge is None:
        return None
    own = Path(state, "judge")  # the live figures of the servers are files of the same names
    own.mkdir()
    return Models(
        roles=chosen.roles,
        cache=args.cache or default_cache(),
        run=f"{JOB} {whole_path(out.path)}",
        budget=args.max_tokens,
        state=str(own),
    )


@contextlib.contextmanager
def _answering(models: Models | None) -> Iterator[runtimes.Runtime | None]:
    """The judge's endpoint, found to answer before a server is asked, and kept for the run.

    Raises:
        UsageError, EndpointRejects, ServerFailed: it does not.
    """
    if models is None:
        yield None
        return
    runtime = runtimes.obtain(models)
    try:
        check_models(runtime)
        yield runtime
    finally:
        runtimes.release(runtime)


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
    listed = counters.get("tools listed", 0)
    unusable = failed.get("validate", 0) + failed.get("judge", 0)
    if servers + broken != sources or rows["failed"] != broken + unusable:
        raise RunFailed(
            f"the servers do not add up: {sources} read, {servers} with tools, {broken} failed, "
            f"{rows['failed']} rows in failed/"
        )
    if listed != rows["data"] + rows["rejected"] + unusable:
        raise RunFailed(
            f"the tools do not add up: {listed} listed, {rows['data']} kept, {rows['rejected']} refused, "
            f"{unusable} failed"
        )
    return {
        "read": sources,
        "unreadable": failed.get("read", 0),
        "tasks": listed + broken - failed.get("read", 0),
        "accepted": rows["data"],
        "rejected": rows["rejected"],
        "failed": rows["failed"],
        "listed": listed,
        "servers": servers,
        "servers_failed": broken,
    }

"""One harvest, from its sources to a finished folder: run the pipeline, count everything, card, report, manifest."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.options.pipeline_options import PipelineOptions

from llm import runtime as runtimes
from llm.errors import RunStopped
from llm.models import Models
from llm.pricing import load_prices
from pipelines.runs.check import check_models
from pipelines.runs.errors import RunFailed, UsageError
from pipelines.runs.folder import KINDS, MANIFEST, WORK, OutputFolder, count_column
from pipelines.runs.masking import masked_command
from pipelines.runs.options import default_cache
from pipelines.runs.progress import Figures, Progress
from pipelines.runs.report import write_report
from pipelines.runs.survey import survey_run
from pipelines.runs.tool_card import write_tool_card
from pipelines.tool_flags import Curation, curation
from pipelines.tool_quality import CurateTools
from pipelines.tool_specs import build
from pipelines.transforms import NAMESPACE
from schemas.manifest import Manifest
from tools_repo.harvest import Harvester
from tools_repo.sandbox import SandboxUnavailable
from tools_repo.sources import Source

OK, FAILED = 0, 1
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
        SandboxUnavailable, RunFailed: the run broke.
    """
    if not out.local:
        raise UsageError(f"--output {out.path}: a harvest is written to a folder of this machine")
    chosen = curation(args)
    config = {
        **chosen.config,
        "servers": [source.name for source in sources],
        "timeout": args.timeout,
        "network": args.network,
        "python": ".".join(platform.python_version_tuple()[:2]),
    }
    used = [
        chosen.described_prompts(),
        [[m["role"], m["model"], m["params"]] for m in chosen.described_models()],
        args.seed,
    ]
    shape = orjson.dumps([config, [[i["file"], i["stamp"]] for i in inputs], used], option=orjson.OPT_SORT_KEYS)
    fingerprint = hashlib.sha256(shape).hexdigest()
    earlier = out.manifest()
    if earlier is not None and not args.overwrite:
        if earlier.get("fingerprint") != fingerprint:
            raise UsageError(f"--output {out.path} holds a finished run of other settings; add --overwrite")
        print(f"{out.path} is finished already; --overwrite harvests again", file=sys.stderr)
        return OK if earlier["counts"]["accepted"] else FAILED
    started, clock = datetime.now(UTC), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as state:
        models = _models(args, chosen, out, state)
        with _answering(models):
            out.begin()
            curate = CurateTools(models, chosen.judge, args.seed, likeness=chosen.likeness)
            counters = _execute(sources, harvester, out.at(WORK), args.max_concurrency, curate, Path(state))
    paths = {kind: out.unfinished(kind) for kind in KINDS}
    counts = _counts(counters, paths, len(sources))
    manifest = Manifest(
        job="tools harvest",
        title="Tools of real MCP servers, as the servers themselves list them",
        command=masked_command(args.command_line),
        config=config,
        fingerprint=fingerprint,
        seed=args.seed,
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - clock, 3),
        versions=_versions(),
        models=chosen.described_models(),
        prompts=chosen.described_prompts(),
        inputs=inputs,
        counts=counts,
        reasons=count_column(paths["rejected"], "reason"),
        errors=count_column(paths["failed"], "error"),
        languages={},
        licenses=count_column(paths["data"], "license"),
        calls=chosen.calls(counters, load_prices()),
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


def _models(args: argparse.Namespace, chosen: Curation, out: OutputFolder, state: str) -> Models | None:
    if chosen.judge is None:
        return None
    own = Path(state, "judge")  # the live figures of the servers are files of the same names
    own.mkdir()
    return Models(
        roles=chosen.roles,
        cache=args.cache or default_cache(),
        run=f"tools harvest {Path(out.path).resolve()}",
        budget=args.max_tokens,
        state=str(own),
    )


@contextlib.contextmanager
def _answering(models: Models | None) -> Iterator[None]:
    """The judge's endpoint, found to answer before a server is asked, and kept for the run.

    Raises:
        UsageError, EndpointRejects, ServerFailed: it does not.
    """
    if models is None:
        yield
        return
    runtime = runtimes.obtain(models)
    try:
        check_models(runtime)
        yield
    finally:
        runtimes.release(runtime)


def _execute(
    sources: Sequence[Source], harvester: Harvester, folder: str, concurrency: int, curate: CurateTools, state: Path
) -> dict[str, int]:
    """Run the pipeline in this process; its counters.

    Raises:
        SandboxUnavailable, RunStopped, RunFailed: it broke.
    """
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    with _Harvesting(state, len(sources)):
        build(pipeline, sources, harvester, folder, concurrency=concurrency, state=str(state), curate=curate)
        try:
            result = pipeline.run()
            result.wait_until_finish()
        except (SandboxUnavailable, RunStopped):
            raise
        except Exception as error:
            told = state / "judge" / "stopped.json"  # Beam hands exceptions on as text
            if told.exists():
                raise RunStopped(orjson.loads(told.read_bytes())[1]) from error
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


def _finish(out: OutputFolder, manifest: Manifest) -> None:
    """Final names, card, report, and last of all the manifest."""
    try:
        manifest.files = out.publish()
        folder = Path(out.path)
        survey = survey_run(folder)
        manifest.coverage = survey.tools and survey.tools.as_dict()
        write_tool_card(folder, manifest, survey)
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

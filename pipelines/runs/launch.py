"""One run of one job, from its flags to its exit code: check everything, estimate or preview, run, finish."""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

import prompts
from llm import runtime as runtimes
from llm.call import Usage
from llm.errors import EndpointRejects, RunStopped
from llm.models import Models
from llm.pricing import Prices, load_prices
from llm.servers import ServerFailed
from llm.spec import parse_spec
from llm.stats import RoleStats
from pipelines.runs import estimate, inputs, preview
from pipelines.runs.check import check_models
from pipelines.runs.errors import RunFailed, UsageError
from pipelines.runs.finish import finish
from pipelines.runs.folder import KINDS, OutputFolder, check_sum, count_column
from pipelines.runs.job import Job
from pipelines.runs.masking import masked_command
from pipelines.runs.options import default_cache
from pipelines.runs.progress import Progress
from pipelines.transforms import NAMESPACE
from schemas.manifest import Manifest

OK, FAILED, USAGE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 130
SHARD_BYTES = 64_000_000
"""Input bytes per output shard, all rephrasings counted."""
ONE_PROCESS_BYTES = 200_000
"""Input up to this size is not worth the seconds that further worker processes take to start."""
PACKAGES = ("tokenmill", "apache-beam", "openai", "pyarrow", "sentence-transformers", "torch", "sentencex", "py3langid")


def launch(job: Job, args: argparse.Namespace, beam_args: Sequence[str]) -> int:
    """Run a job and return the exit code; whatever goes wrong that a user can act on is one line on stderr."""
    try:
        return _launch(job, args, beam_args)
    except UsageError as error:
        return _say(str(error), USAGE)
    except EndpointRejects as error:
        return _say(str(error), USAGE)
    except RunStopped as error:
        return _say(f"stopped: {error}", STOPPED)
    except (RunFailed, ServerFailed) as error:
        return _say(str(error), FAILED)
    except KeyboardInterrupt:
        return _say("interrupted; repeat the command to go on: every answer received so far is kept", INTERRUPTED)


def _say(line: str, code: int) -> int:
    print(f"tokenmill: {line}", file=sys.stderr, flush=True)
    return code


def _launch(job: Job, args: argparse.Namespace, beam_args: Sequence[str]) -> int:
    try:
        prices = load_prices(args.prices)
    except ValueError as error:
        raise UsageError(f"--prices {error}") from None
    found = inputs.find(args.input, limit=args.limit)
    inputs.check_columns(found, job.parser)
    if not found.pieces or found.rows == 0:
        raise UsageError(f"--input {' '.join(args.input)}: there are no rows")
    for note in job.notes:
        _say(note, OK)
    if args.estimate:
        estimate.show(job, found, prices, args)
        return OK
    if not args.output and not args.preview:
        raise UsageError("--output DIR is required (or --preview N, or --estimate)")
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as state:
        models = _models(job, args, state)
        if args.preview:
            return preview.show(job, found, models, args.preview)
        out = OutputFolder(args.output.rstrip("/"))
        with out.locked():
            return _run(job, args, beam_args, found, models, out, prices)


def _models(job: Job, args: argparse.Namespace, state: str) -> Models:
    target = args.output or "preview"
    return Models(
        roles=job.roles,
        cache=args.cache or default_cache(),
        run=f"{job.name} {target if '://' in target else Path(target).resolve()}",
        budget=args.max_tokens,
        max_concurrency=args.max_concurrency,
        timeout=args.timeout,
        patience=args.patience,
        retry_refused=args.retry_failed,
        state=state,
        worker_of=os.getpid(),
    )


def _run(
    job: Job,
    args: argparse.Namespace,
    beam_args: Sequence[str],
    found: inputs.Inputs,
    models: Models,
    out: OutputFolder,
    prices: Prices,
) -> int:
    config, used = _config(job, args), [prompts.load(name) for name in job.prompts]
    fingerprint = _fingerprint(job, config, used, found)
    earlier = out.manifest()
    if earlier is not None and not _to_be_replaced(earlier, fingerprint, args, out):
        _say(f"{out.path} is finished already: {_counted(earlier['counts'])}. Nothing was done", OK)
        return _verdict(earlier["counts"])
    started, clock = datetime.now(UTC), time.monotonic()
    options, local = _options(beam_args, found, job)
    if not local:
        models = _elsewhere(models)
    runtime = runtimes.obtain(models)
    try:
        check_models(runtime)
        out.begin()
        shards = max(1, -(-found.size * job.tasks_per_row // SHARD_BYTES))
        total = found.rows and found.rows * job.tasks_per_row
        with Progress(Path(models.state or "/nonexistent"), total):
            counters = _execute(job, models, found, out, shards, options, local)
        calls = _calls(job, counters, prices)
    finally:
        runtimes.release(runtime)
    paths = {kind: out.unfinished(kind) for kind in KINDS}
    counts = {
        "read": counters.get("read", 0),
        "unreadable": counters.get("unreadable", 0),
        "tasks": sum(counters.get(kind, 0) for kind in KINDS),
        **{
            name: _rows(paths[kind])
            for name, kind in (("accepted", "data"), ("rejected", "rejected"), ("failed", "failed"))
        },
    }
    check_sum(counts, job.tasks_per_row)
    manifest = Manifest(
        job=job.name,
        title=job.title,
        command=masked_command(args.command_line),
        config=config,
        fingerprint=fingerprint,
        seed=args.seed,
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - clock, 3),
        versions=_versions(),
        models=_described_models(job),
        prompts=[{"name": p.name, "version": p.version, "sha256": p.sha256, "text": _template(p)} for p in used],
        inputs=found.manifest(counters),
        counts=counts,
        reasons=count_column(paths["rejected"], "reason"),
        errors=count_column(paths["failed"], "error"),
        languages=count_column(paths["data"], "language"),
        licenses=count_column(paths["data"], "license"),
        calls=calls,
    )
    finish(out, manifest)
    _report(out, manifest)
    return _verdict(counts)


def _to_be_replaced(earlier: dict[str, Any], fingerprint: str, args: argparse.Namespace, out: OutputFolder) -> bool:
    """Whether a finished run in the folder gives way to this one.

    Raises:
        UsageError: it was made with other settings and --overwrite is not given.
    """
    if earlier.get("fingerprint") == fingerprint:
        return args.overwrite or (args.retry_failed and earlier["counts"]["failed"] > 0)
    if not args.overwrite:
        raise UsageError(
            f"--output {out.path} holds a finished run of other settings or input; choose another folder or add --overwrite"
        )
    return True


def _config(job: Job, args: argparse.Namespace) -> dict[str, Any]:
    return {**job.config, "seed": args.seed, "limit": args.limit, "max_document_bytes": args.max_document_bytes}


def _described_models(job: Job) -> list[dict[str, Any]]:
    described = []
    for name, role in job.roles.items():
        spec = parse_spec(role.spec)
        described.append({"role": name, "spec": spec.text, "model": spec.model, "params": role.params})
    return described


def _fingerprint(job: Job, config: dict[str, Any], used: Sequence[prompts.Prompt], found: inputs.Inputs) -> str:
    """Hash of all that shapes the rows. Where a model is served does not."""
    shape = {
        "job": job.name,
        "config": config,
        "models": {m["role"]: [m["model"], m["params"]] for m in _described_models(job)},
        "prompts": {p.id: p.sha256 for p in used},
        "inputs": [[f.name, f.stamp] for f in found.files],
    }
    return hashlib.sha256(orjson.dumps(shape, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _elsewhere(models: Models) -> Models:
    """The models as workers on other machines need them: no local state, no parent to follow.

    Raises:
        UsageError: the cache is a file, which they cannot share.
    """
    import dataclasses

    if "://" not in models.cache:
        raise UsageError("workers on other machines need a shared cache: --cache redis://host:6379/0")
    return dataclasses.replace(models, state="", worker_of=0)


def _options(beam_args: Sequence[str], found: inputs.Inputs, job: Job) -> tuple[PipelineOptions, bool]:
    """Beam's options, and whether the pipeline runs on this machine.

    On this machine Beam's portable runner is used directly (the default runner would download a Go binary), with a worker
    process per core once the input is worth it and the model is not itself bound to these cores.
    """
    options = PipelineOptions(list(beam_args))
    unknown = _unknown_flags(beam_args)
    if unknown:
        raise UsageError(f"unknown flag {unknown[0]}; --help lists ours, and Beam's own are accepted too")
    runner = (options.view_as(StandardOptions).runner or "DirectRunner").rsplit(".")[-1]
    if runner not in ("DirectRunner", "FnApiRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner"):
        return options, False
    named = " ".join(beam_args)
    if "direct_running_mode" not in named and "direct_num_workers" not in named:
        embedded = all(parse_spec(role.spec).kind in ("embedded", "llamacpp") for role in job.roles.values())
        if (os.cpu_count() or 1) > 1 and found.size > ONE_PROCESS_BYTES and not embedded:
            options = PipelineOptions([*beam_args, "--direct_running_mode=multi_processing", "--direct_num_workers=0"])
    return options, True


def _unknown_flags(beam_args: Sequence[str]) -> list[str]:
    """Flags that neither we nor Beam know; Beam itself would drop them with a warning."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for group in {str(cls): cls for cls in PipelineOptions.__subclasses__()}.values():
        group._add_argparse_args(parser)
    try:
        return parser.parse_known_args(list(beam_args))[1]
    except SystemExit:
        raise UsageError("a flag of Beam's has a wrong value, see above") from None


def _execute(
    job: Job,
    models: Models,
    found: inputs.Inputs,
    out: OutputFolder,
    shards: int,
    options: PipelineOptions,
    local: bool,
) -> dict[str, int]:
    """Run the pipeline; its counters.

    Raises:
        RunStopped: the budget is spent, an endpoint is gone, ...
        RunFailed: anything else that ended the pipeline.
    """
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    from pipelines.runs.folder import WORK

    # Worker processes are started by Beam and must find our packages wherever the command was given.
    root = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    pipeline = beam.Pipeline(runner=FnApiRunner() if local else None, options=options)
    job.build(pipeline, models, found.pieces, out.at(WORK), shards)
    try:
        result = pipeline.run()
        result.wait_until_finish()
    except RunStopped:
        raise
    except Exception as error:
        raise _stopped(error, models) from error
    counters: dict[str, int] = {}
    for metric in result.metrics().query()["counters"]:
        if metric.key.metric.namespace == NAMESPACE:
            value = metric.committed if metric.committed is not None else metric.attempted
            counters[metric.key.metric.name] = counters.get(metric.key.metric.name, 0) + (value or 0)
    return counters


_RAISED = re.compile(r"llm\.errors\.(\w+): (.*?)(?: \[while running |\\n|\n|$)")


def _stopped(error: Exception, models: Models) -> Exception:
    """What ended a pipeline, as the workers meant it: runners hand their exceptions on as text, or as themselves with more
    text, and a worker leaves its reason in the state folder."""
    import llm.errors

    told = Path(models.state, "stopped.json")
    if models.state and told.exists():
        kind, message = orjson.loads(told.read_bytes())
    else:
        chain, seen = error, []
        while chain is not None:
            seen.append(f"llm.errors.{type(chain).__name__}: {chain}" if isinstance(chain, RunStopped) else str(chain))
            chain = chain.__cause__ or chain.__context__  # type: ignore[assignment]
        match = next((m for text in seen for m in [_RAISED.search(text)] if m), None)
        if match is None:
            line = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
            return RunFailed(f"the pipeline broke: {line.strip()[:500]} (TOKENMILL_DEBUG=1 shows the whole traceback)")
        kind, message = match.groups()
    raised = getattr(llm.errors, kind, RunStopped)
    return raised(message) if isinstance(raised, type) and issubclass(raised, RunStopped) else RunStopped(message)


def _calls(job: Job, counters: dict[str, int], prices: Prices) -> dict[str, Any]:
    """What the calls of this invocation came to, by role, with their cost where the price is known."""
    calls: dict[str, Any] = {}
    for name, role in job.roles.items():
        stats = {key: counters.get(f"{name}/{key}", 0) for key in RoleStats().as_dict()}
        spec = parse_spec(role.spec)
        usage = Usage(stats["prompt_tokens"], stats["completion_tokens"], stats["cached_tokens"])
        calls[name] = {**stats, "usd": 0.0 if spec.local else prices.cost(spec.model, usage)}
    return calls


def _rows(paths: Sequence[str]) -> int:
    import pyarrow.parquet as pq
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    total = 0
    for path in paths:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            total += pq.ParquetFile(file).metadata.num_rows
    return total


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _template(prompt: prompts.Prompt) -> str:
    return "\n\n".join(f"# {role}\n{text}" for role, text in prompt.parts)


def _counted(counts: dict[str, int]) -> str:
    return f"{counts['accepted']:,} kept, {counts['rejected']:,} refused, {counts['failed']:,} failed"


def _verdict(counts: dict[str, int]) -> int:
    """0 if something was kept, or if all that was not was honestly refused."""
    return OK if counts["accepted"] or (counts["rejected"] and not counts["failed"]) else FAILED


def _report(out: OutputFolder, manifest: Manifest) -> None:
    calls = manifest.calls.values()
    paid, cached = sum(c["paid"] for c in calls), sum(c["cached"] for c in calls)
    tokens = sum(c["prompt_tokens"] + c["completion_tokens"] for c in calls)
    costs = [c["usd"] for c in calls]
    cost = "cost unknown" if None in costs else f"${sum(costs):.4f}" if any(costs) else "free"
    print(
        f"{_counted(manifest.counts)} of {manifest.counts['read']:,} rows read\n"
        f"{paid:,} calls paid, {cached:,} from the cache; {tokens:,} tokens ({cost}) in {manifest.duration_s:.0f} s"
    )
    if manifest.reasons:
        print("refused for: " + ", ".join(f"{reason} {n:,}" for reason, n in list(manifest.reasons.items())[:8]))
    if manifest.errors:
        print("failed with: " + ", ".join(f"{error} {n:,}" for error, n in list(manifest.errors.items())[:8]))
    print(f"report  {out.at('report.html')}\ndata    {out.at('data')}\ncard    {out.at('README.md')}")

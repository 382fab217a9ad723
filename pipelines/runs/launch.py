"""One run of one job, from its flags to its exit code: check everything, estimate or preview, run, finish."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenmill.inference import runtime as runtimes
from tokenmill.inference.pricing import Prices, load_prices
from tokenmill.inference.roles import Models
from tokenmill.pipelines.runs import inputs
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import FAILED, OK, ended, say
from tokenmill.pipelines.runs.folder import KINDS, OutputFolder, check_sum
from tokenmill.pipelines.runs.job import Job
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
from tokenmill.pipelines.runs.prepare import prepared
from tokenmill.pipelines.runs.progress import Progress
from tokenmill.pipelines.runs.runner import choose
from tokenmill.pipelines.transforms.files import whole_path
from tokenmill.pipelines.transforms.rollout import EXTRA
from tokenmill.pipelines.transforms.sources import COUNTED_FILES, PARQUET, ends_with
from tokenmill.schemas.manifest import Manifest

SHARD_BYTES = 64_000_000
"""Input bytes per output shard, all rephrasings counted."""
FEW, SMALL_SHARD_BYTES = 16, 1_000_000
"""A smaller job makes a few files all the same, since each is written by one worker."""
PACKAGES = ("tokenmill", "apache-beam", "openai", "pyarrow", "sentence-transformers", "torch", "sentencex", "py3langid")


def launch(job: Job, args: argparse.Namespace, beam_args: Sequence[str]) -> int:
    """Run a job and return the exit code; whatever goes wrong that a user can act on is one line on stderr."""
    return ended(lambda: _launch(job, args, beam_args))


def _launch(job: Job, args: argparse.Namespace, beam_args: Sequence[str]) -> int:
    try:
        prices = load_prices(args.prices)
    except ValueError as error:
        raise UsageError(f"--prices {error}") from None
    found = inputs.find(args.input, limit=args.limit)
    check_utf8(args, (file.path for file in found.files))
    inputs.check_columns(found, job.parser)
    if not found.pieces or found.rows == 0:
        raise UsageError(f"--input {' '.join(args.input)}: there are no rows")
    for note in job.notes:
        say(note, OK)
    if args.estimate:
        from tokenmill.pipelines.runs import estimate

        estimate.show(job, found, prices, args)
        return OK
    if not args.output and not args.preview:
        raise UsageError("--output DIR is required (or --preview N, or --estimate)")
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as state:
        models = models_of(job, args, state)
        if args.preview:
            from tokenmill.pipelines.runs import preview

            return preview.show(job, found, models, args.preview)
        out = OutputFolder(args.output.rstrip("/"))
        with out.locked():
            return _run(job, args, beam_args, found, models, out, prices)


def models_of(job: Job, args: argparse.Namespace, state: str) -> Models:
    """What workers need to make a job's calls. `args.account` names the ledger where several runs share one budget."""
    return Models(
        roles=job.roles,
        cache=args.cache or default_cache(),
        run=getattr(args, "account", "") or f"{job.name} {whole_path(args.output or 'preview')}",
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
    config, served, used = _config(job, args), described_models(job.roles), described_prompts(job.prompts)
    shape = {"job": job.name, "config": config, "inputs": [[f.name, f.stamp] for f in found.files]}
    fingerprint = fingerprint_of(shape, served, used)
    earlier = out.manifest()
    out.check_apart(file.path for file in found.files)
    if earlier is not None and not _to_be_replaced(earlier, fingerprint, args, out):
        with contextlib.suppress(OSError):  # one that was killed just before its end left it
            out.end()
        say(f"{out.path} is finished already: {_counted(earlier['counts'])}. Nothing was done", OK)
        return _verdict(earlier["counts"])
    begun = Begun()
    runner = choose(beam_args, found, job)
    if not runner.local:
        models = _elsewhere(models)
    zygote = runner.zygote(job, models)  # before this process has threads
    try:
        runtime = runtimes.obtain(models)
        try:
            check_models(runtime)
            out.begin()
            total = found.rows and found.rows * job.tasks_per_row * job.rows_per_task
            with Progress(Path(models.state or "/nonexistent"), total), prepared():
                counters = runner.execute(job, models, found, out, _shards(job, found), zygote)
            calls = described_calls(job.roles, counters, prices)
            spent = runtime.run(runtime.client.cache.spent())
        finally:
            runtimes.release(runtime)
    finally:
        if zygote is not None:
            zygote.close()
    paths = {kind: out.unfinished(kind) for kind in KINDS}
    counts = {
        "read": counters.get("read", 0),
        "unreadable": counters.get("unreadable", 0),
        "tasks": sum(counters.get(kind, 0) for kind in KINDS) - counters.get(EXTRA, 0),
        **({"extra": counters[EXTRA]} if counters.get(EXTRA) else {}),
        **{
            name: _rows(paths[kind])
            for name, kind in (("accepted", "data"), ("rejected", "rejected"), ("failed", "failed"))
        },
    }
    check_sum(counts, job.tasks_per_row)
    lost = _lost(found, counters)
    if lost:
        counts["lost"] = sum(lost.values())
    manifest = record(
        begun,
        args,
        paths,
        packages=PACKAGES,
        models=served,
        used=used,
        job=job.name,
        title=job.title,
        config=config,
        fingerprint=fingerprint,
        inputs=found.manifest(counters),
        counts=counts,
        calls=calls,
        spent={"tokens": spent, "shared": bool(getattr(args, "account", ""))},
        stages=getattr(args, "stages", []),
    )
    from tokenmill.pipelines.runs.finish import finish  # what it needs takes a while to import

    finish(out, manifest)
    _report(out, manifest)
    for name, rows in lost.items():
        say(f"{name}: {rows:,} of the rows that it says it has could not be read; see failed/ for the reason", FAILED)
    return _verdict(counts)


def _shards(job: Job, found: inputs.Inputs) -> int:
    """How many files the rows are spread over: by the input's size alone, so that it is the same on every machine."""
    made = found.size * job.tasks_per_row
    return max(1, -(-made // SHARD_BYTES), min(FEW, made // SMALL_SHARD_BYTES))


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


def _elsewhere(models: Models) -> Models:
    """The models as workers on other machines need them: no local state, no parent to follow.

    Raises:
        UsageError: the cache is a file, which they cannot share.
    """
    import dataclasses

    if "://" not in models.cache:
        raise UsageError("workers on other machines need a shared cache: --cache redis://host:6379/0")
    return dataclasses.replace(models, state="", worker_of=0)


def _lost(found: inputs.Inputs, counters: dict[str, int]) -> dict[str, int]:
    """Rows by file that Parquet footers tell of and that ended nowhere. Where a file breaks off, one row says so in `failed/`
    and stands for the row at which it does."""
    told: dict[str, int] = {}
    for piece in found.pieces:
        if ends_with(piece.path, PARQUET):
            told[piece.name] = told.get(piece.name, 0) + piece.rows
    if len({piece.name for piece in found.pieces}) > COUNTED_FILES:  # not counted by file
        if len(told) < len(found.files) or found.rows is None:
            return {}
        missing = {"the input": found.rows - counters.get("read", 0)}
    else:
        missing = {name: rows - counters.get(f"read from {name}", 0) for name, rows in told.items()}
    return {name: rows for name, rows in missing.items() if rows > 0}


def _rows(paths: Sequence[str]) -> int:
    import pyarrow.parquet as pq
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    total = 0
    for path in paths:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            total += pq.ParquetFile(file).metadata.num_rows
    return total


def _counted(counts: dict[str, int]) -> str:
    return f"{counts['accepted']:,} kept, {counts['rejected']:,} refused, {counts['failed']:,} failed" + (
        f", {counts['lost']:,} lost" if counts.get("lost") else ""
    )


def _verdict(counts: dict[str, int]) -> int:
    """0 if something was kept, or if all that was not was honestly refused; and no input row was lost."""
    if counts.get("lost"):
        return FAILED
    return OK if counts["accepted"] or (counts["rejected"] and not counts["failed"]) else FAILED


def _report(out: OutputFolder, manifest: Manifest) -> None:
    calls = manifest.calls.values()
    paid, cached = sum(c["paid"] for c in calls), sum(c["cached"] for c in calls)
    tokens = sum(c["prompt_tokens"] + c["completion_tokens"] for c in calls)
    costs = [c["usd"] for c in calls]
    cost = "cost unknown" if None in costs else f"${sum(costs):.4f}" if any(costs) else "free"
    spent = manifest.spent["tokens"]
    who = "all stages and invocations" if manifest.spent["shared"] else "all invocations"
    told = f"; {spent:,} tokens over {who}" if spent > tokens else ""
    tell(
        manifest,
        out,
        f"{_counted(manifest.counts)} of {manifest.counts['read']:,} rows read",
        f"{paid:,} calls paid, {cached:,} from the cache; {tokens:,} tokens ({cost}) in {manifest.duration_s:.0f} s{told}",
    )

"""The end of a run: what its rows add up to, its manifest, card and report, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmill.inference.pricing import load_prices
from tokenmill.pipelines.runs.exit import FAILED, OK, say
from tokenmill.pipelines.runs.folder import KINDS, OutputFolder, check_sum, count_column, describe_all
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.manifest import Begun, described_calls, record, tell
from tokenmill.pipelines.runs.options import RunOptions
from tokenmill.pipelines.transforms.rollout import EXTRA
from tokenmill.pipelines.transforms.sources import COUNTED_FILES, PARQUET, ends_with
from tokenmill.schemas.manifest import Manifest


def conclude(
    job: Job,
    options: RunOptions,
    begun: Begun,
    found: Inputs,
    out: OutputFolder,
    counters: dict[str, int],
    spent: int,
    described: Mapping[str, Any],
) -> int:
    """Make a finished folder of the shards that the pipeline has written; the exit code.

    Args:
        counters: what the pipeline has counted, see `pipelines.transforms.counts`.
        spent: tokens billed over all invocations.
        described: `config`, `fingerprint`, `models` and `prompts` of the manifest.

    Raises:
        RunFailed: the rows do not add up, or a file cannot be written.
    """
    paths = {kind: out.unfinished(kind) for kind in KINDS}
    counts = {
        "read": counters.get("read", 0),
        "unreadable": counters.get("unreadable", 0),
        "tasks": sum(counters.get(kind, 0) for kind in KINDS) - counters.get(EXTRA, 0),
        **({"extra": counters[EXTRA]} if counters.get(EXTRA) else {}),
        **{
            name: sum(shard.rows for shard in describe_all(paths[kind]))
            for name, kind in (("accepted", "data"), ("rejected", "rejected"), ("failed", "failed"))
        },
    }
    check_sum(counts, job.tasks_per_row)
    lost = _lost(found, counters)
    if lost:
        counts["lost"] = sum(lost.values())
    counts |= job.counts(counts, lambda kind, column: count_column(paths[kind], column))
    counts = {name: rows for name, rows in counts.items() if rows or name != "extra"}
    manifest = record(
        job,
        options,
        begun,
        paths,
        **described,
        inputs=found.manifest(counters),
        counts=counts,
        calls=described_calls(job.roles, counters, load_prices(options.prices)),
        spent={"tokens": spent, "shared": bool(options.account)},
        benchmarks=None if job.benchmarks is None else job.benchmarks.found(counters),
        **job.measured(counters),
    )
    from tokenmill.pipelines.runs.finish import finish  # what it needs takes a while to import

    finish(out, manifest)
    _report(job, out, manifest)
    for name, rows in lost.items():
        say(f"{name}: {rows:,} of the rows that it says it has could not be read; see failed/ for the reason", FAILED)
    return verdict(counts)


def _lost(found: Inputs, counters: dict[str, int]) -> dict[str, int]:
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


def counted(counts: dict[str, int]) -> str:
    return f"{counts['accepted']:,} kept, {counts['rejected']:,} refused, {counts['failed']:,} failed" + (
        f", {counts['lost']:,} lost" if counts.get("lost") else ""
    )


def verdict(counts: dict[str, int]) -> int:
    """0 if something was kept, or if all that was not was honestly refused; and no input row was lost."""
    if counts.get("lost"):
        return FAILED
    return OK if counts["accepted"] or (counts["rejected"] and not counts["failed"]) else FAILED


def _report(job: Job, out: OutputFolder, manifest: Manifest) -> None:
    calls = manifest.calls.values()
    paid, cached, recorded = (sum(c[kind] for c in calls) for kind in ("paid", "cached", "recorded"))
    replayed = f", {recorded:,} from a recording" if recorded else ""
    tokens = sum(c["prompt_tokens"] + c["completion_tokens"] for c in calls)
    costs = [c["usd"] for c in calls]
    cost = "cost unknown" if None in costs else f"${sum(costs):.4f}" if any(costs) else "free"
    spent = manifest.spent["tokens"]
    who = "all stages and invocations" if manifest.spent["shared"] else "all invocations"
    over_all = f"; {spent:,} tokens over {who}" if spent > tokens else ""
    tell(
        manifest,
        out,
        f"{counted(manifest.counts)} of {manifest.counts['read']:,} {job.reads} read",
        f"{paid:,} calls paid, {cached:,} from the cache{replayed}; {tokens:,} tokens ({cost}) in {manifest.duration_s:.0f} s"
        + over_all,
    )

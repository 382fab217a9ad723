"""What the manifest of a run says, and how it is told on the terminal."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from tokenmill.inference.call import Usage
from tokenmill.inference.pricing import BATCH_SHARE, Prices
from tokenmill.inference.recording import Recording
from tokenmill.inference.roles import Role
from tokenmill.inference.spec import parse_spec
from tokenmill.inference.stats import RoleStats
from tokenmill.pipelines.report.formatting import one_line
from tokenmill.pipelines.report.masking import masked_command, masked_text
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.folder import OutputFolder, an_example, count_column
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.options import RunOptions
from tokenmill.pipelines.runs.terminal import harmless
from tokenmill.pipelines.transforms import FAILED
from tokenmill.schemas.manifest import Manifest

from tokenmill import prompts


@dataclass(frozen=True)
class Begun:
    """When a run began."""

    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)


def check_utf8(command: Iterable[str], inputs: Iterable[str]) -> None:
    """
    Raises:
        UsageError: a word of the command or an input's name is not UTF-8, and no manifest could name it.
    """
    for text in (*command, *inputs):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{text!a} is not UTF-8; rename the file") from None


def record(job: Job, options: RunOptions, begun: Begun, paths: Mapping[str, list[str]], **particulars: Any) -> Manifest:
    """The manifest of a run whose rows are written.

    Args:
        paths: the shards of `data`, `rejected` and `failed`.
        particulars: the other fields of `Manifest`.
    """
    return Manifest(
        job=job.name,
        title=job.title,
        command=masked_command(list(options.command)),
        seed=options.seed,
        started=begun.at.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - begun.clock, 3),
        versions=_versions(job.packages),
        reasons=count_column(paths["rejected"], "reason"),
        errors=count_column(paths["failed"], "error"),
        languages=count_column(paths["data"], "language"),
        licenses=count_column(paths["data"], "license"),
        stages=list(options.stages),
        **particulars,
    )


def described_models(roles: Mapping[str, Role], sampling: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Who wrote and who judged, for the manifest.

    Args:
        sampling: the parameters that a job sends by itself, by role; those of the roles are laid over them, as for each call.
    """
    specs = {name: (parse_spec(role.spec), {**sampling.get(name, {}), **role.params}) for name, role in roles.items()}
    return [
        {"role": n, "spec": s.text, "model": s.model, "params": p}
        | ({"recording": Recording(s.path or "").described(n)} if s.kind == "recorded" else {})
        for n, (s, p) in specs.items()
    ]


def described_prompts(names: Iterable[str]) -> list[dict[str, Any]]:
    """Prompts with their versions and templates, for the manifest."""
    return [
        {"name": p.name, "version": p.version, "sha256": p.sha256, "text": _template(p)}
        for p in map(prompts.load, names)
    ]


def described_calls(roles: Mapping[str, Role], counters: Mapping[str, int], prices: Prices) -> dict[str, Any]:
    """What the calls of this invocation came to, by role, with their cost where the price is known."""
    calls: dict[str, Any] = {}
    for name, role in roles.items():
        stats = {key: counters.get(f"{name}/{key}", 0) for key in RoleStats().as_dict()}
        spec = parse_spec(role.spec)
        in_batches = Usage(stats["batched_prompt_tokens"], stats["batched_completion_tokens"])
        directly = Usage(
            stats["prompt_tokens"] - in_batches.prompt,
            stats["completion_tokens"] - in_batches.completion,
            stats["cached_tokens"],
        )
        costs = [prices.charged(spec.model, usage, local=spec.local) for usage in (directly, in_batches)]
        usd = None if costs[0] is None or costs[1] is None else costs[0] + costs[1] * BATCH_SHARE
        calls[name] = {**stats, "usd": usd}
    return calls


def fingerprint_of(shape: Mapping[str, Any], models: list[dict[str, Any]], used: list[dict[str, Any]]) -> str:
    """Hash of all that shapes the rows. Where a model is served does not; what a recording holds does."""
    replayed = {m["role"]: m["recording"]["sha256"] for m in models if "recording" in m}
    whole = {
        **shape,
        **({"recordings": replayed} if replayed else {}),
        "models": {m["role"]: [m["model"], m["params"]] for m in models},
        "prompts": {f"{p['name']}@{p['version']}": p["sha256"] for p in used},
    }
    return hashlib.sha256(orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)).hexdigest()


def tell(manifest: Manifest, out: OutputFolder, *lines: str) -> None:
    """Print how a run came out, why rows were refused or failed, and where everything is."""
    print(*map(harmless, lines), sep="\n")
    for what, found in (("refused for", manifest.reasons), ("failed with", manifest.errors)):
        if found:
            print(f"{what}: " + harmless(", ".join(f"{reason} {n:,}" for reason, n in list(found.items())[:8])))
    if manifest.errors:
        error = next(iter(manifest.errors))
        shards = [out.at(file["file"]) for file in manifest.files if file["file"].startswith(f"{FAILED}/")]
        message = an_example(shards, error)
        print(f"  {error}, such as: {harmless(one_line(masked_text(message), 300))}")
    print(f"report  {out.at('report.html')}\ndata    {out.at('data')}\ncard    {out.at('README.md')}")
    for role, calls in manifest.calls.items():
        if isinstance(calls, dict) and calls.get("estimated"):
            print(f"{role}: the endpoint does not report usage; tokens of {calls['estimated']:,} answers are estimates")


def _versions(packages: Sequence[str]) -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _template(prompt: prompts.Prompt) -> str:
    return "\n\n".join(f"# {role}\n{text}" for role, text in prompt.parts)

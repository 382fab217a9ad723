"""`manifest.json`: what a run was, what it made and what it cost. Its presence marks an output folder as finished."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Manifest:
    job: str
    """Name of the subcommand, such as `knowledge`."""
    title: str
    """One line on what the rows are."""
    command: list[str]
    """The command line, credentials removed."""
    config: dict[str, Any]
    """Every setting that shapes the rows."""
    fingerprint: str
    """Hash of `config`, prompts, inputs and seed: equal fingerprints make equal shards, given equal answers."""
    seed: int
    """Of every draw."""
    started: str
    """When the last invocation began, ISO 8601, UTC."""
    finished: str
    """When it was done."""
    duration_s: float
    """Seconds between the two."""
    versions: dict[str, str]
    """Package versions that shape the rows, with `python`."""
    models: list[dict[str, Any]]
    """`{"role": "writer", "spec": "vllm:Qwen/Qwen3-8B", "model": "Qwen/Qwen3-8B", "params": {...}}`, ..."""
    prompts: list[dict[str, Any]]
    """`{"name": ..., "version": 1, "sha256": ..., "text": the template}`, ..."""
    inputs: list[dict[str, Any]]
    """`{"file": relative path, "bytes": n, "rows": n or None when not counted, "stamp": SHA-256 or size and time}`, ..."""
    counts: dict[str, int]
    """`read`, `unreadable` (read rows that ended in `failed/` before any work), `tasks`, `accepted`, `rejected`, `failed`
    (all rows of `failed/`), and where tasks made several rows `extra`, those beyond one for each; where
    an input file is broken `lost`, the rows that it says it has and that ended nowhere. Invariants: rows in =
    unreadable + processed; accepted + rejected + failed = tasks + extra + unreadable."""
    reasons: dict[str, int]
    """Refused rows by reason."""
    errors: dict[str, int]
    """Failed rows by error."""
    languages: dict[str, int]
    """Accepted rows by language."""
    licenses: dict[str, int]
    """Accepted rows by licence (empty string: not stated)."""
    calls: dict[str, Any]
    """`{"writer": {"paid": n, "cached": n, "retries": n, "refused": n, "prompt_tokens": n, "completion_tokens": n,
    "cached_tokens": n, "wasted_tokens": n, "estimated": n, "usd": float or None}, "judge": {...}}`: what this invocation
    did. Tokens are all that were billed; `wasted_tokens` of them for answers that could not be used. `estimated` answers
    came without their tokens, which are estimates."""
    files: list[dict[str, Any]] = field(default_factory=list)
    """`{"file": "data/train-00000-of-00001.parquet", "rows": n, "bytes": n, "sha256": ...}`, ..."""
    pages: list[dict[str, Any]] = field(default_factory=list)
    """`{"file": "README.md", "bytes": n, "sha256": ...}`, ...: what else is published, as it was written."""
    coverage: dict[str, Any] | None = None
    """What the rows cover of tool space, where they are tool specifications: tools by origin, entropies, distances, use of
    schema features, pictures; None for other rows."""
    trajectories: dict[str, Any] | None = None
    """Pass rates by level, pass@k, pass^k, endings and cost per kept one, where the rows are trajectories; None for others."""
    spent: dict[str, Any] = field(default_factory=dict)
    """`{"tokens": n, "shared": bool}`: tokens billed over all invocations, interrupted ones too, as the ledger beside the
    answers has it; where `shared`, by all stages of a chain up to this one. Empty where no ledger was kept."""
    corpus: dict[str, Any] | None = None
    """Where the rows are a corpus, by domain `{"read": n, "failed": n, "refused": {check: n}, "kept": n, "tokens": n}`, and
    pieces of personal data `masked` by kind; None for other rows."""
    benchmarks: dict[str, dict[str, int]] | None = None
    """By benchmark that `--decontaminate` names, `{"items": n, "too_short": n, "refused": n}`: its items, those of them that are
    too short to be looked for, and the rows refused for holding one; None where none was named."""
    strata: list[dict[str, Any]] | None = None
    """Of a corpus, `{"domain": ..., "source_rows": n, "least_tokens": n, "rows": n, "tokens": n}`, ...: what is in `data/` by
    domain, rows of one source, and length; None for other rows."""
    stages: list[dict[str, Any]] = field(default_factory=list)
    """Where the run ends a chain of several, the runs before it: `{"name": "agents", "folder": ..., "counts": {...},
    "reasons": {...}, "errors": {...}, "calls": {...}}`, ..."""
    version: int = 1

    @property
    def attempted(self) -> int | None:
        """Rows that could have been kept: one for each task, and those that a task made beyond one (`extra`)."""
        tasks = self.counts.get("tasks")
        return None if tasks is None else tasks + self.counts.get("extra", 0)

    def called(self, kind: str) -> int:
        """One of the numbers of `calls`, of all roles together."""
        return sum(role.get(kind, 0) for role in self.calls.values())

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

"""What the calls of one process came to, per role."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields


@dataclass
class RoleStats:
    """Counters of one role; all only ever grow."""

    paid: int = 0
    """Answers received from the endpoint."""
    cached: int = 0
    """Answers taken from the cache."""
    recorded: int = 0
    """Answers taken from a recording."""
    retries: int = 0
    """Requests repeated after an error, a timeout or a malformed body."""
    congested: int = 0
    """Answers 429 and 503 among what was retried."""
    refused: int = 0
    """Calls that the endpoint will never answer."""
    prompt_tokens: int = 0
    """Tokens billed, also for answers that could not be used."""
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the endpoint had in its prefix cache (part of `prompt_tokens`)."""
    wasted_tokens: int = 0
    """Tokens of malformed answers and of probes (part of `prompt_tokens` and `completion_tokens`)."""
    batched: int = 0
    """Answers that came in batches (part of `paid`), and their tokens (part of those above)."""
    batched_prompt_tokens: int = 0
    batched_completion_tokens: int = 0
    estimated: int = 0
    """Paid answers whose tokens are estimated, because the endpoint does not report them."""

    def minus(self, earlier: RoleStats) -> RoleStats:
        return RoleStats(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))

    def plus(self, other: RoleStats) -> RoleStats:
        return RoleStats(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, int]:
        return asdict(self)

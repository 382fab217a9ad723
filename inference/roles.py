"""Which models play which roles in a run, and how they may be called. Plain values that travel to every worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Role:
    """One model playing one role (`writer`, `judge`, ...)."""

    spec: str
    """A model SPEC, see `inference.spec`."""
    params: dict[str, Any] = field(default_factory=dict)
    """Sampling parameters sent with every call of the role, in place of what a step gives."""


@dataclass(frozen=True)
class Models:
    """Everything a worker needs to make calls. Holds no secret: keys are read from the environment where they are used."""

    roles: dict[str, Role]
    cache: str
    """Where answers are kept: a path or `redis://...`."""
    run: str
    """Name of the job whose budget is drawn on."""
    budget: int | None = None
    """Tokens that the job may be billed for in all, over all its invocations."""
    max_concurrency: int = 64
    """Calls in flight per worker process and endpoint."""
    max_concurrency_total: int = 0
    """Calls in flight of all workers together, which share them out in Redis; 0 for no such limit."""
    timeout: float = 600.0
    """Seconds to wait for one answer."""
    patience: float = 300.0
    """Seconds that an endpoint may stay silent before the run stops."""
    tries: int = 8
    """Requests for one call while the endpoint answers others, before the call is given up."""
    retry_refused: bool = False
    """Ask again what the endpoint refused in an earlier run."""
    state: str = ""
    """Folder for live figures of this run, on this machine; empty for none."""
    record: bool = False
    """Whether every answer is also written down in `state`, see `inference.recording`."""
    filing: str = ""
    """Folder into which calls to models with `?batch` are put instead of being made; empty for making them."""
    worker_of: int = 0
    """Process whose death ends this worker too; 0 for none."""
    attempt: str = ""
    """Of a run on other machines, the token of the command that leads it: see `inference.runtime.Runtime.lead`."""
    code: str = ""
    """Of such a run, what `inference.identity.installed` must give in every worker; empty for whatever it is."""

    def __post_init__(self) -> None:
        for name in ("max_concurrency", "timeout", "patience", "tries"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.budget is not None and self.budget <= 0:
            raise ValueError(f"the token budget must be positive, not {self.budget}")

"""Whether a run asks in batches, and whether it may. What it then needs is in `waves`, which takes longer to import."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tokenmill.inference.roles import Models
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job


def batched(job: Job) -> bool:
    """Whether any of a job's models is asked in batches."""
    return any(parse_spec(role.spec).batch for role in job.roles.values())


def check_batches(job: Job, *, local: bool) -> None:
    """
    Raises:
        UsageError: the job, or the runner, cannot wait for batches.
    """
    if not batched(job):
        return
    if not job.batches:
        raise UsageError(f"{job.name} makes rows of other rows' answers, and cannot ask in batches; leave out ?batch")
    if not local:
        raise UsageError("batches are sent from this machine: leave out --runner, or ?batch")


def at_the_driver(models: Models) -> Models:
    """The models as the driver's own process needs them: it files nothing and has no live figures beside the workers'."""
    return dataclasses.replace(models, filing=str(Path(models.state, "driver")), state="")

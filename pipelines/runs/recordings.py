"""Recordings in a run: looked at before it, told of, and written when it ends, however it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tokenmill.inference.recording import NoRecording, Recording, check_writable, merge, told
from tokenmill.inference.roles import Models
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import OK, say
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.options import RunOptions


def check(job: Job, options: RunOptions) -> list[str]:
    """Where answers are to come from a recording, a line that says so for each role.

    Raises:
        UsageError: a recording cannot be read or written, or there is nothing to record.
    """
    lines, replayed = [], 0
    try:
        for name, role in job.roles.items():
            spec = parse_spec(role.spec)
            if spec.kind != "recorded":
                continue
            described = Recording(spec.path or "").described(name)
            if role.params:
                raise UsageError(
                    f"{spec.text} gives the answers that it has: leave out sampling parameters for the {name}"
                )
            if described["answers"]:  # a role may have nothing to say in a run
                lines.append(f"{name}: no model is asked; {described['answers']:,} answers are {told(described)}")
            replayed += 1
        if options.record and not (options.estimate or replayed < len(job.roles)):
            raise UsageError("--record: no model is asked, so that there is nothing to record")
        if options.record:
            check_writable(options.record)
    except NoRecording as error:
        raise UsageError(str(error)) from None
    return lines


@contextlib.contextmanager
def kept(models: Models, options: RunOptions) -> Iterator[None]:
    """Afterwards, write what the run's processes recorded to `--record`, even if the run was stopped.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        yield
    finally:
        if options.record:
            try:
                answers = merge(models.state, options.record)
            except NoRecording as error:
                raise UsageError(str(error)) from None
            say(f"{options.record} holds {answers:,} answers; --llm recorded:{options.record} gives them again", OK)

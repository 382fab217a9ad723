"""What ends a run with one line for the user."""

from __future__ import annotations

from tokenmill.schemas.flags import UsageError as UsageError


class RunFailed(Exception):
    """The run ended early or its result does not add up; nothing half-made looks finished."""


class RowsMissing(RunFailed):
    """The rows that were written are not those that were read."""


def line_of(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__

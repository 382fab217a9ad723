"""What users bring to several jobs."""

from __future__ import annotations

from typing import Any

from tokenmill.judges.own import CheckUnusable, OwnCheck, find_check
from tokenmill.pipelines.runs.options import of_checking
from tokenmill.schemas.flags import UsageError


def own_check() -> Any:
    """The field of options that names a user's checks."""
    return of_checking(
        (), metavar="CHECK", help="a check of yours: module:Class, FILE.py:Class, or the name of an installed one"
    )


def own_checks(names: tuple[str, ...]) -> tuple[OwnCheck, ...]:
    """The checks that `--check` names.

    Raises:
        UsageError: one cannot be loaded.
    """
    try:
        return tuple(map(find_check, names))
    except CheckUnusable as error:
        raise UsageError(f"--check {error}") from None

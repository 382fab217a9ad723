"""What users bring to several jobs."""

from __future__ import annotations

from typing import Any

from tokenmill.judges.own import CheckUnusable, OwnCheck, find_check
from tokenmill.pipelines.runs.options import of_checking, of_writing
from tokenmill.schemas.flags import UsageError, positive


def own_check() -> Any:
    """The field of options that names a user's checks."""
    return of_checking(
        (), metavar="CHECK", help="a check of yours: module:Class, FILE.py:Class, or the name of an installed one"
    )


def own_candidates() -> Any:
    """The field of options that says how many answers are drawn."""
    return of_writing(
        1,
        metavar="N",
        parse=positive,
        shapes=True,
        help="draw N answers where the first is refused, and go on with the one that the checks find best",
    )


def own_candidates_always() -> Any:
    """The field of options that says whether they are drawn in any case."""
    return of_writing(False, shapes=True, help="draw the N answers of --candidates also where the first passes")


def own_checks(names: tuple[str, ...]) -> tuple[OwnCheck, ...]:
    """The checks that `--check` names.

    Raises:
        UsageError: one cannot be loaded.
    """
    try:
        return tuple(map(find_check, names))
    except CheckUnusable as error:
        raise UsageError(f"--check {error}") from None

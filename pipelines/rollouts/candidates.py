"""Several answers to one request, of which the best is kept by what the checks say (rejection sampling)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tokenmill.inference.gather import together
from tokenmill.inference.structured import StructuredAnswerInvalid
from tokenmill.schemas.verdicts import Verdict, first_refusal

T = TypeVar("T")

APART = 10_000
"""Between the attempt numbers, and the seeds, of candidates: repairs count theirs in ones."""


@dataclass(frozen=True)
class Candidates:
    """How many answers are drawn for a text before any is repaired."""

    number: int = 1
    always: bool = False
    """Whether all are drawn even where the first passes."""

    def calls(self, *, refused: bool) -> int:
        """Answers drawn for a text whose first one is, or is not, refused."""
        return self.number if refused or self.always else 1


ONE = Candidates()


async def best(
    draw: Callable[[dict[str, Any]], Awaitable[T]],
    verify: Callable[[T], Awaitable[list[Verdict]]],
    first: T,
    verdicts: list[Verdict],
    params: dict[str, Any],
    candidates: Candidates,
) -> tuple[int, T, list[Verdict]]:
    """The best of the candidates with its number and the verdicts on it; the first, where no others are wanted.

    The others are drawn at once, with seeds of their own. Those that pass every check go before those that do not, higher
    scores before lower, fewer findings before more, and the earlier before the later.

    Args:
        draw: asks with these sampling parameters.
        params: those of the first.
    """
    refused = first_refusal(verdicts) is not None
    numbers = range(1, candidates.calls(refused=refused))
    drawn = await together([_drawn(draw, _varied(params, number)) for number in numbers])
    found = [(0, first, verdicts)]
    for number, candidate in zip(numbers, drawn, strict=True):
        if candidate is not None:
            found.append((number, candidate[0], await verify(candidate[0])))
    return max(found, key=lambda one: (*_worth(one[2]), -one[0]))


async def _drawn(draw: Callable[[dict[str, Any]], Awaitable[T]], params: dict[str, Any]) -> tuple[T] | None:
    """An answer; None where it could not be read."""
    try:
        return (await draw(params),)
    except StructuredAnswerInvalid:
        return None


def _varied(params: dict[str, Any], number: int) -> dict[str, Any]:
    return {**params, "attempt": params["attempt"] + APART * number, "seed": params["seed"] + APART * number}


def _worth(verdicts: Sequence[Verdict]) -> tuple[bool, float, int]:
    refused = [verdict for verdict in verdicts if not verdict.passed]
    # A check that is spared after a refusal gives no score, so refused texts are told apart by their findings.
    score = 0.0 if refused else sum(v.score for v in verdicts) / max(1, len(verdicts))
    return not refused, score, -sum(max(1, len(verdict.findings)) for verdict in refused)

"""What becomes of a tool call that is valid: a seeded draw, and what each outcome does to the result and the state.

| outcome | state | result |
|---|---|---|
| success | as the tool changes it | as the tool gives it |
| timeout, rate_limit, permission | unchanged: the tool does not run | an error |
| partial | only the first of several changed records | an error that names what was done and what was not |
| empty | unchanged | the tool's result without the elements of its lists |
| truncated | unchanged | the first half of its longest list or of its text, marked as such |
| stale | unchanged | the tool's result over the state before the last change |

The last three happen to calls that only read, `partial` to calls that change two records or more; drawn for another
call they are a success. A permission that is refused once stays refused for that tool, and is refused
for tools alone that the task's reference solution does without: the others time out instead, or are asked too often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenmill.schemas import draws
from tokenmill.schemas.agentic import OUTCOMES, PERMISSION, RATE_LIMIT, SUCCESS, TIMEOUT
from tokenmill.schemas.tools import dump
from tokenmill.tools_repo.world.entities import EntityModel, State
from tokenmill.tools_repo.world.patch import changed_records

REFUSALS = (TIMEOUT, RATE_LIMIT, PERMISSION)
"""Outcomes for which the tool does not run at all."""
RECOVERABLE = (TIMEOUT, RATE_LIMIT)
"""Outcomes that a later try of the same call gets over."""
_MARKED_PARTIAL = "partial_failure"
_SAID: dict[str, tuple[str, ...]] = {
    TIMEOUT: (
        "The request timed out after {seconds} seconds. No changes were made.",
        "Upstream did not respond within {seconds} s; the operation was not carried out.",
        "Gateway timeout: no response in {seconds} s. Nothing was changed. Please try again.",
    ),
    RATE_LIMIT: (
        "Too many requests. Retry after {seconds} seconds.",
        "Rate limit exceeded for this operation. Try again in {seconds} s.",
        "Request quota reached; the limit resets in {seconds} seconds.",
    ),
    PERMISSION: (
        "You are not authorized to perform {tool}.",
        "Access denied: the current credentials lack the permission required by {tool}.",
        "Permission denied for operation {tool}. Contact an administrator to request access.",
    ),
}
_SECONDS = {TIMEOUT: (10, 15, 30, 60), RATE_LIMIT: (2, 5, 10, 30)}


def _default() -> dict[str, float]:
    edges = dict.fromkeys(OUTCOMES, 0.02)
    return {**edges, SUCCESS: 1 - 0.02 * (len(OUTCOMES) - 1)}


@dataclass(frozen=True)
class Odds:
    """Probability of each outcome; they sum to 1. By default 86 % success and 2 % of each other."""

    of: dict[str, float] = field(default_factory=_default)

    def __post_init__(self) -> None:
        for name, share in self.of.items():
            if name not in OUTCOMES:
                raise ValueError(f"{name!r} is no outcome; outcomes are {', '.join(OUTCOMES)}")
            if not 0 <= share <= 1:
                raise ValueError(f"the probability of {name} is between 0 and 1, not {share}")
        if abs(sum(self.of.values()) - 1) > 1e-6:
            raise ValueError(f"the probabilities of outcomes sum to {sum(self.of.values()):g}, not 1")

    @classmethod
    def parse(cls, text: str) -> Odds:
        """From a flag: `timeout=0.05,partial=0.1`; success has the rest unless given. Empty: the default.

        Raises:
            ValueError: not of that form, or the sum is not 1.
        """
        if not text.strip():
            return cls()
        of: dict[str, float] = {}
        for part in text.split(","):
            name, separator, share = part.partition("=")
            try:
                if not separator or name.strip() in of:
                    raise ValueError
                of[name.strip()] = float(share)
            except ValueError:
                raise ValueError(f"{part.strip()!r}: write outcomes as success=0.9,timeout=0.1") from None
        of.setdefault(SUCCESS, max(0.0, round(1 - sum(of.values()), 9)))
        return cls(of)

    @classmethod
    def certain(cls, outcome: str = SUCCESS) -> Odds:
        """Always the same outcome."""
        return cls({outcome: 1.0})


CERTAIN = Odds.certain()
"""Every call succeeds."""


def draw(odds: Odds, *parts: object) -> str:
    """An outcome, which depends on the odds and the parts alone."""
    place = draws.uniform(*parts, "outcome")
    for outcome in OUTCOMES:
        place -= odds.of.get(outcome, 0.0)
        if place < 0:
            return outcome
    return max(odds.of, key=odds.of.__getitem__)  # the sum fell short of 1 by rounding


def recoverable(*parts: object) -> str:
    """An outcome for the first call of a task about recovering from an error."""
    return draws.pick(RECOVERABLE, *parts, "recoverable")


def error(kind: str, message: str, **details: Any) -> str:
    """An error as tools tell it."""
    return dump({"error": {"code": kind, "message": message, **details}})


def refusal(outcome: str, tool: str, *parts: object) -> str:
    """What the agent is shown when a tool does not run, for one of `REFUSALS`."""
    if outcome == PERMISSION:
        return error(outcome, draws.pick(_SAID[outcome], *parts, outcome, "words").format(tool=tool))
    seconds = draws.pick(_SECONDS[outcome], *parts, outcome, "seconds")
    message = draws.pick(_SAID[outcome], *parts, outcome, "words").format(seconds=seconds)
    details = {"retry_after_seconds": seconds} if outcome == RATE_LIMIT else {}
    return error(outcome, message, retryable=True, **details)


def emptied(result: Any) -> Any | None:
    """The result without the elements of its lists, and their counts at 0; None when it has no list with elements."""
    if isinstance(result, list):
        return [] if result else None
    if not isinstance(result, dict) or not any(isinstance(value, list) and value for value in result.values()):
        return None
    lengths = {len(value) for value in result.values() if isinstance(value, list)}
    return {
        key: [] if isinstance(value, list) else 0 if type(value) is int and value in lengths else value
        for key, value in result.items()
    }


def shortened(result: Any) -> Any | None:
    """The first half of the longest list in the result, marked; None when there is none of two elements or more."""
    if isinstance(result, list):
        cut = _half(result)
        return None if cut is None else {"items": cut, "truncated": True, "omitted": len(result) - len(cut)}
    if not isinstance(result, dict):
        return None
    lists = [key for key, value in result.items() if isinstance(value, list) and len(value) > 1]
    if not lists:
        return None
    key = max(lists, key=lambda name: len(result[name]))
    kept = result[key][: len(result[key]) // 2]
    return {**result, key: kept, "truncated": True, "omitted": len(result[key]) - len(kept)}


def _half(items: Sequence[Any]) -> list[Any] | None:
    return list(items[: len(items) // 2]) if len(items) > 1 else None


def partly(before: State, after: State, model: EntityModel | None) -> tuple[State, str] | None:
    """The state after only the first of the changed records, and the error that tells so; None when no such state is
    valid, or fewer than two records changed."""
    records = changed_records(before, after)
    for count in range((len(records) + 1) // 2, 0, -1):
        if count == len(records):
            continue
        state = {kind: dict(held) for kind, held in before.items()}
        for kind, identifier in records[:count]:
            held = state.setdefault(kind, {})
            if identifier in after.get(kind, {}):
                held[identifier] = after[kind][identifier]
            else:
                held.pop(identifier, None)
        if model is None or not model.check(state, before=before):
            done, left = (
                [f"{kind} {identifier}" for kind, identifier in part] for part in (records[:count], records[count:])
            )
            message = f"Only {count} of {len(records)} changes were applied. Not applied: {', '.join(left)}."
            return state, error(_MARKED_PARTIAL, message, applied=done, not_applied=left)
    return None

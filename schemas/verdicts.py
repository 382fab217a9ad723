"""Evidence in, verdict out: the record every judge returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

V = TypeVar("V")

WHOLE = -1
"""Chunk index of a verdict on the whole stitched passage."""


@dataclass(frozen=True)
class Finding:
    """One concrete fault, phrased so that a person can check it and a model can act on it.

    `source` and `rewrite` are verbatim quotations (possibly empty) from the text before and after.
    """

    kind: str
    """What sort of fault: `number_added`, `name_added`, `unsupported_claim`, ..."""
    detail: str
    """One sentence, imperative where a repair is possible: "Keep the number 1,204 (number of seats)."."""
    source: str = ""
    rewrite: str = ""


@dataclass(frozen=True)
class Question:
    """Something that code found unmatched between two texts, for a judge to decide."""

    kind: str
    text: str
    """One line."""
    source: str
    """Quotation from the source; may be empty."""
    rewrite: str


@dataclass(frozen=True)
class Verdict:
    """What one check says of one text. A judge that could not decide raises; it never scores 0 instead."""

    check: str
    """Name of the check: `facts`, `similarity`, `copying`, `faithfulness`, ..."""
    passed: bool
    score: float
    """In [0, 1], 1 is best, whatever the check measures."""
    reason: str = ""
    """Machine-readable reject reason (`number_added`, `copies_source`, ...); empty exactly when `passed`."""
    findings: tuple[Finding, ...] = ()
    minor: tuple[Finding, ...] = ()
    """Those of the findings that are minor: tolerated where it passed."""

    def __post_init__(self) -> None:
        if self.passed == bool(self.reason):
            raise ValueError(f"check {self.check!r}: a reason is given exactly when the verdict is a refusal")


def first_refusal(verdicts: Iterable[V]) -> V | None:
    """The first verdict, of whatever kind, that refuses; None when all passed."""
    return next((verdict for verdict in verdicts if not verdict.passed), None)  # type: ignore[attr-defined]  # all have it


@dataclass(frozen=True)
class Judgement:
    """A verdict and where in a rollout it fell, flat, as rows carry it."""

    check: str
    chunk: int
    """Index of the chunk judged, or `WHOLE`."""
    attempt: int
    """0 for the first answer, 1 for the first repair, ..."""
    passed: bool
    score: float
    reason: str
    findings: list[Finding]

    @classmethod
    def of(cls, verdict: Verdict, chunk: int, attempt: int) -> Judgement:
        return cls(verdict.check, chunk, attempt, verdict.passed, verdict.score, verdict.reason, list(verdict.findings))

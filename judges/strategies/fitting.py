"""Checks that fit the form of a strategy: named by `check` in its front matter, they go beside the checks that every rewrite
has.

A fitting check also says which passages have what the form needs (`fits`), which part of a text must stand in its source
(`stated`: the solution of a word problem is worked out), and which other checks make no sense (`spares`).
"""

from __future__ import annotations

from typing import Protocol

from tokenmill.judges.strategies.cleaning import Cleaned
from tokenmill.judges.strategies.pairs import Pairs
from tokenmill.judges.strategies.tables import Tables
from tokenmill.judges.strategies.verbatim import Verbatim
from tokenmill.judges.strategies.word_problems import WordProblems
from tokenmill.schemas.verdicts import Verdict


class Fitting(Protocol):
    """A check of one form, deterministic and without a model."""

    @property
    def spares(self) -> frozenset[str]:
        """Names of the checks that do not apply to the form."""

    def fits(self, source: str, language: str) -> bool:
        """Whether a passage has what the form needs; where not, nothing is written of it."""

    def stated(self, text: str) -> str:
        """The part of a text whose facts its source must have."""

    def __call__(self, source: str, text: str, context: str, language: str) -> Verdict:
        """Judge a text made of a passage; `context` is what it may say besides."""


CHECKS: dict[str, Fitting] = {
    "cleaned": Cleaned(),
    "pairs": Pairs(),
    "tables": Tables(),
    "verbatim": Verbatim(),
    "word_problems": WordProblems(),
}
"""By the names under which styles ask for them."""

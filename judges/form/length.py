"""Has the rewrite collapsed or ballooned?"""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.judges.form.words import words
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "length"


@dataclass(frozen=True)
class Length:
    """Refuses with `collapses` or `balloons`, by the ratio of words and by the ratio of characters.

    A few words either way are allowed on top, which leaves very short texts free.
    """

    minimum: float = 0.4
    """Least length, as a share of the source's."""
    maximum: float = 3.0
    """Greatest length, as a multiple of the source's."""
    slack: int = 6
    """Words a rewrite may fall short of `minimum`; eight times as many may exceed `maximum` (a style's frame:
    questions, speakers, headings)."""

    def __post_init__(self) -> None:
        if not 0 <= self.minimum < 1 < self.maximum:
            raise ValueError(f"Length needs 0 <= minimum < 1 < maximum, not {self.minimum} and {self.maximum}")

    def __call__(self, source: str, rewrite: str) -> Verdict:
        before, after = len(words(source)), len(words(rewrite))
        width = max(1.0, len(source) / max(1, before))  # characters a word: 1 in unspaced scripts
        fit = round(min(_fit(before, after), _fit(len(source), len(rewrite))), 4)
        if after < self.minimum * before - self.slack or (
            len(rewrite) < self.minimum * len(source) - self.slack * width
        ):
            detail = f"Keep every fact: {after} words are too few for the {before} words of the source."
            return Verdict(CHECK, False, fit, "collapses", (Finding("too_short", detail),))
        if after > self.maximum * before + 8 * self.slack or (
            len(rewrite) > self.maximum * len(source) + 8 * self.slack * width
        ):
            detail = f"Add nothing: {after} words are too many for the {before} words of the source."
            return Verdict(CHECK, False, fit, "balloons", (Finding("too_long", detail),))
        return Verdict(CHECK, True, fit)


def _fit(before: int, after: int) -> float:
    """1 for equal lengths, towards 0 the further apart they are."""
    return before / after if before < after else after / before if before else 1.0

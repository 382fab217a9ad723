"""What a rollout gathers on its way: calls and their cost, verdicts, and what it was refused for in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.schemas.verdicts import Judgement, Verdict


@dataclass
class Progress(Meter):
    """Grows while a rollout runs; belongs to it alone. It is the `ask` of all that is paid for the row."""

    attempts: int = 0
    """Texts asked for."""
    judgements: list[Judgement] = field(default_factory=list)

    def add(self, verdicts: Sequence[Verdict], chunk: int, attempt: int) -> None:
        self.judgements += [Judgement.of(v, chunk, attempt) for v in verdicts]


@dataclass(frozen=True)
class Refusal:
    """What ended a rollout: `text`, made of `source`, failed `verdict`."""

    stage: str
    """`source`, `translation`, `note` or `rewrite`."""
    chunk: int
    source: str
    text: str
    verdict: Verdict


def summary(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Every refusal in order, then for each check its lowest-scoring passed verdict."""
    lowest: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.passed and (judgement.check not in lowest or judgement.score < lowest[judgement.check].score):
            lowest[judgement.check] = judgement
    return [j for j in judgements if not j.passed] + list(lowest.values())

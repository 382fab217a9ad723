"""What a rollout gathers on its way: calls and their cost, verdicts, and what it was refused for in the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.schemas.documents import Document
from tokenmill.schemas.math import Problem
from tokenmill.schemas.verdicts import Judgement, Verdict

from tokenmill import prompts


@dataclass
class Progress(Meter):
    """Grows while a rollout runs; belongs to it alone. It is the `ask` of all that is paid for the row."""

    attempts: int = 0
    """Texts asked for."""
    judgements: list[Judgement] = field(default_factory=list)

    def add(self, verdicts: Sequence[Verdict], chunk: int, attempt: int) -> None:
        self.judgements += [Judgement.of(v, chunk, attempt) for v in verdicts]

    def columns(
        self, source: Document | Problem, model: str, used: Iterable[str], seed: int, chunks: int
    ) -> dict[str, Any]:
        """The columns that say what a row was made of, by whom, and what it took; `used` are names of prompts."""
        return {
            "license": source.license,
            "source_id": source.id,
            "source_file": source.source_file,
            "source_row": source.source_row,
            "source_text": source.text,
            **self.provenance(model, (), seed),
            "prompts": [prompts.load(name).id for name in used],
            "chunks": chunks,
            "attempts": self.attempts,
            "verdicts": summary(self.judgements),
        }


@dataclass(frozen=True)
class Refusal:
    """What ended a rollout: `text`, made of `source`, failed `verdict`."""

    stage: str
    """`source`, `translation`, `note` or `rewrite`."""
    chunk: int
    source: str
    text: str
    verdict: Verdict

    @property
    def columns(self) -> dict[str, Any]:
        """What a row of `rejected/` says of it."""
        return {
            "reason": self.verdict.reason,
            "refused_chunk": self.chunk,
            "refused_source": self.source,
            "refused_text": self.text,
        }


def summary(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Every refusal in order, then for each check its lowest-scoring passed verdict."""
    lowest: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.passed and (judgement.check not in lowest or judgement.score < lowest[judgement.check].score):
            lowest[judgement.check] = judgement
    return [j for j in judgements if not j.passed] + list(lowest.values())

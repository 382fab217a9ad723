"""What a rollout gathers on its way: calls and their cost, verdicts, and what it was refused for in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenmill.inference.call import Usage
from tokenmill.prompts.fence import fence
from tokenmill.schemas.verdicts import Judgement, Verdict

_SHOWN = 12
"""Findings shown to the writer at once."""


@dataclass
class Progress:
    """Grows while a rollout runs; belongs to it alone."""

    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
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


def corrections(verdicts: Sequence[Verdict]) -> str:
    """What the refusing verdicts found, as a fenced list for the writer; empty when nothing was refused."""
    found = [f.detail or f.kind for v in verdicts if not v.passed for f in v.findings]
    found += [v.reason.replace("_", " ") for v in verdicts if not v.passed and not v.findings]
    return fence("\n".join(f"- {line}" for line in found[:_SHOWN]), "corrections") if found else ""


def summary(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Every refusal in order, then for each check its lowest-scoring passed verdict."""
    lowest: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.passed and (judgement.check not in lowest or judgement.score < lowest[judgement.check].score):
            lowest[judgement.check] = judgement
    return [j for j in judgements if not j.passed] + list(lowest.values())

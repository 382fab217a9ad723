"""What is done with one document by itself, in order: its text is extracted and checked; it stays, or says why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from apache_beam.metrics import Metrics
from tokenmill.inference.call import Ask
from tokenmill.judges.corpus.words import Words
from tokenmill.judges.form.language import UNDETERMINED, code, detect
from tokenmill.pipelines.corpus.apply import refused
from tokenmill.pipelines.corpus.parse import FoundDocument
from tokenmill.pipelines.corpus.portions import Candidate
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.benchmarks import Benchmarks
from tokenmill.pipelines.transforms import NAMESPACE
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.corpus import CorpusDocument, RefusedDocument, Screening
from tokenmill.schemas.documents import FailedRow
from tokenmill.schemas.verdicts import Verdict


class Check(Protocol):
    """What says of one document, by its text and words, whether it stays. Picklable."""

    def __call__(self, document: CorpusDocument, words: Words, /) -> Verdict: ...


@dataclass(frozen=True)
class Screen:
    """The checks of one document, in order; the first that refuses ends it."""

    checks: tuple[Check, ...] = ()
    benchmarks: Benchmarks | None = None
    """None of whose items may stand in a document, or in the text that it was written from."""

    row_type: ClassVar[type] = CorpusDocument
    rejected_type: ClassVar[type] = RefusedDocument

    def __call__(self, found: FoundDocument) -> Candidate | RefusedDocument | FailedRow:
        text = found.document.text
        language = code(found.document.language)
        document = dataclasses.replace(
            found.document, tokens=count_tokens(text), language=detect(text) if language == UNDETERMINED else language
        )
        words, said = Words(document.text), list[Screening]()
        for verdict in self._verdicts(document, words, found.source_text):
            if not verdict.passed:
                return refused(dataclasses.replace(document, verdicts=said), screening(verdict))
            said.append(screening(verdict))
        return Candidate(dataclasses.replace(document, verdicts=said), words, found.source_text)

    def _verdicts(self, document: CorpusDocument, words: Words, source_text: str) -> Iterable[Verdict]:
        yield from (check(document, words) for check in self.checks)
        if self.benchmarks is not None:
            verdict, hit = self.benchmarks.verdict(words, source_text)
            if hit is not None:
                Metrics.counter(NAMESPACE, hit.counter).inc()
            yield verdict


@dataclass(frozen=True)
class LookAtDocument:
    """The screen as a preview runs it."""

    screen: Screen

    async def __call__(self, found: FoundDocument, ask: Ask) -> Accepted | Rejected | Any:
        outcome = self.screen(found)
        if isinstance(outcome, Candidate):
            return Accepted(outcome.document)
        return Rejected(outcome, outcome.reason) if isinstance(outcome, RefusedDocument) else outcome


def screening(verdict: Verdict) -> Screening:
    """A verdict as rows carry it: with its first finding."""
    found = next(iter(verdict.findings), None)
    detail, quote = (found.detail, found.rewrite or found.source) if found else ("", "")
    return Screening(verdict.check, verdict.passed, round(verdict.score, 4), verdict.reason, detail, quote)

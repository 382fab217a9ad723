"""What is done with one document by itself, in order: its text is extracted, checked and masked; it stays, or says why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from tokenmill.inference.call import Ask
from tokenmill.judges.corpus.c4 import C4
from tokenmill.judges.corpus.code import CodeFile
from tokenmill.judges.corpus.fineweb import FineWeb
from tokenmill.judges.corpus.gopher import GopherQuality, GopherRepetition
from tokenmill.judges.corpus.learnt import CHECK as LEARNT
from tokenmill.judges.corpus.learnt import LearntQuality
from tokenmill.judges.corpus.personal import Personal
from tokenmill.judges.corpus.plain import Languages, Mathematics, Toxicity
from tokenmill.judges.corpus.words import Words
from tokenmill.judges.form.language import UNDETERMINED, code, detect
from tokenmill.pipelines.corpus.apply import refused
from tokenmill.pipelines.corpus.extraction import SECONDS, NotExtracted, extract
from tokenmill.pipelines.corpus.funnel import count_masked
from tokenmill.pipelines.corpus.licences import Licenses
from tokenmill.pipelines.corpus.parse import FoundDocument, with_text
from tokenmill.pipelines.corpus.portions import Candidate
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.benchmarks import Benchmarks
from tokenmill.pipelines.transforms.counts import tally
from tokenmill.pipelines.transforms.documents import clean
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.corpus import CorpusDocument, RefusedDocument, Screening
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.verdicts import Verdict


class Check(Protocol):
    """What says of one document, by its text and words, whether it stays. Picklable."""

    def __call__(self, document: CorpusDocument, words: Words, /) -> Verdict: ...


def checks_by_domain() -> dict[str, tuple[Check, ...]]:
    """What the documents of each domain are asked."""
    return {
        "web": (GopherRepetition(), GopherQuality(), C4(), FineWeb()),
        "knowledge": (GopherRepetition(), GopherQuality()),
        "math": (Mathematics(),),
        "code": (CodeFile(),),
    }


@dataclass(frozen=True)
class Screen:
    """The checks of one document, in order; the first that refuses ends it."""

    licenses: Licenses = field(default_factory=lambda: Licenses("any"))
    languages: Languages | None = None
    """Of all domains but code."""
    checks: dict[str, tuple[Check, ...]] = field(default_factory=checks_by_domain)
    """By domain."""
    quality: LearntQuality | None = None
    """Of all domains but code."""
    toxicity: Toxicity | None = None
    """Of all domains but code."""
    benchmarks: Benchmarks | None = None
    """None of whose items may stand in a document, or in the text that it was written from."""
    personal: Personal | None = field(default_factory=Personal)
    """Masks what passed; None leaves everything as it is."""
    page_seconds: float = SECONDS
    """For the extraction of one page."""

    row_type: ClassVar[type] = CorpusDocument
    rejected_type: ClassVar[type] = RefusedDocument

    def __call__(self, found: FoundDocument) -> Candidate | RefusedDocument | FailedRow:
        try:
            found = self._extracted(found)
        except (NotExtracted, RowUnreadable) as error:
            excerpt = found.html[:2000].decode("utf-8", "replace")
            return failed_row(found.id, "extract", error.error, str(error), excerpt, found.document)
        document = found.document
        language = UNDETERMINED
        if document.domain != "code":
            language = code(document.language)
            language = detect(document.text) if language == UNDETERMINED else language
        words = Words(document.text)
        document = dataclasses.replace(document, language=language, tokens=count_tokens(document.text))
        said: list[Screening] = []
        for verdict in self._verdicts(document, words, found.source_text):
            if not verdict.passed:
                return refused(dataclasses.replace(document, verdicts=said), screening(verdict))
            said.append(screening(verdict))
            if verdict.check == LEARNT:
                document = dataclasses.replace(document, quality=round(verdict.score, 4))
        return self._masked(dataclasses.replace(document, verdicts=said), words, found.source_text)

    def _extracted(self, found: FoundDocument) -> FoundDocument:
        """
        Raises:
            NotExtracted, RowUnreadable: the page gives no text.
        """
        if not found.html:
            return found
        title, text = extract(found.html, found.charset, self.page_seconds)
        if not text.strip():
            raise NotExtracted("no_main_text", "the page has no main text")
        return with_text(found, clean(text, "html", found.id).strip(), title)

    def _verdicts(self, document: CorpusDocument, words: Words, source_text: str) -> Iterator[Verdict]:
        yield from (check(document, words) for check in self._checks(document))
        if self.benchmarks is not None:
            verdict, hit = self.benchmarks.verdict(words, source_text)
            if hit is not None:
                tally(hit.counter)
            yield verdict

    def _checks(self, document: CorpusDocument) -> Iterator[Check]:
        yield self.licenses
        prose = document.domain != "code"
        if self.languages and prose:
            yield self.languages
        yield from self.checks[document.domain]
        if self.toxicity and prose:
            yield self.toxicity
        if self.quality and prose:
            yield self.quality

    def _masked(self, document: CorpusDocument, words: Words, source_text: str) -> Candidate:
        text, counts = self.personal(document.text) if self.personal else (document.text, {})
        if not counts:
            return Candidate(document, words, source_text)
        count_masked(counts)
        masked = dataclasses.replace(document, text=text, masked=sum(counts.values()), tokens=count_tokens(text))
        return Candidate(masked, Words(text), source_text)


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

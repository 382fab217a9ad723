"""Sentence by sentence: does a text say only what its source supports? (Kimi K2 report, section 3.2.1, after FACTS Grounding.)

The same code and the same judge as for rewrites: facts are compared by `judges/facts`, everything else is asked of
`Faithfulness`, whose quotations say which sentence is meant. A reward for answers, and a filter for rewrites.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tokenmill.inference.call import Ask
from tokenmill.judges.facts.check import differing_spans, questions
from tokenmill.judges.facts.compare import sentences
from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.judges.model.quotes import stands_in
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "grounding"
UNSUPPORTED = "unsupported_sentence"
CODE, JUDGE = "code", "judge"


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text and whether its source supports it."""

    text: str
    fault: str = ""
    """What it says that the source does not; empty where it is supported."""
    decided_by: str = CODE

    @property
    def supported(self) -> bool:
        return not self.fault


def by_code(source: str, text: str, context: str = "", language: str = "en") -> list[Sentence]:
    """The sentences of a text; one with a number, date, unit, name or piece of code that the source does not have is not
    supported. `context` is what a reader knows besides, such as the question."""
    _, added = differing_spans(source, text, context, language)
    found = []
    for start, end in sentences(text):
        inside = [f"{kind.replace('_', ' ')}: {text[a:b]}" for a, b, kind in added if a < end and b > start]
        found.append(Sentence(text[start:end].strip(), "; ".join(inside)))
    return [one for one in found if any(c.isalnum() for c in one.text)]


@dataclass(frozen=True)
class Grounding:
    """Code first; where it finds nothing, the judge of faithfulness reads the text."""

    judge: Faithfulness = field(default_factory=lambda: Faithfulness(tolerated_minor=0))

    async def __call__(
        self, source: str, text: str, ask: Ask, *, context: str = "", language: str = "en"
    ) -> list[Sentence]:
        """Every sentence with its verdict. The text may leave out what it likes.

        Raises:
            JudgeUndecided: the judge gave no usable answer.
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        """
        found = by_code(source, text, context, language)
        if not all(one.supported for one in found):
            return found
        doubts = [question for question in questions(source, text, context, language) if question.rewrite]
        verdict = await self.judge(source, text, context, ask, questions=doubts, partial=True)
        return found if verdict.passed else _blamed(found, verdict)


def _blamed(found: list[Sentence], verdict: Verdict) -> list[Sentence]:
    """The sentences that a refusal's quotations stand in; all of them for one that points at none."""
    marked = []
    for one in found:
        faults = [finding for finding in verdict.findings if _concerns(finding, one.text)]
        marked.append(Sentence(one.text, "; ".join(f.detail for f in faults), JUDGE))
    if any(not one.supported for one in marked):
        return marked
    return [Sentence(one.text, verdict.reason.replace("_", " "), JUDGE) for one in found]


def _concerns(finding: Finding, sentence: str) -> bool:
    return bool(finding.rewrite) and (stands_in(finding.rewrite, sentence) or stands_in(sentence, finding.rewrite))


@dataclass(frozen=True)
class Supported:
    """`by_code` as a check of one's own: `--check tokenmill.judges.model.grounding:Supported`. Stricter than the facts check of
    `knowledge`: what that asks a judge about is refused here."""

    def __call__(self, source: str, text: str, *, title: str = "", language: str = "en") -> Verdict:
        found = by_code(source, text, title, language)
        wrong = [one for one in found if not one.supported]
        if not wrong:
            return Verdict(CHECK, True, 1.0)
        findings = tuple(
            Finding(UNSUPPORTED, f"Say only what the source says ({one.fault}).", "", one.text) for one in wrong[:12]
        )
        return Verdict(CHECK, False, round(1 - len(wrong) / len(found), 4), UNSUPPORTED, findings)

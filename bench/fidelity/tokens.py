"""What judging costs: tokens that a judge reads and writes for each token of a rewrite that is kept.

The honest versions of the foreign set, alone and joined to documents of several passages, as the pipeline has them judged: in
windows of so many source tokens, each with the questions of code. The judge is taken to find nothing and to answer as shortly
as its schema allows; tokens are estimated as the pipeline estimates them (`count_tokens`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tokenmill.bench.fidelity.cases import Case
from tokenmill.judges.facts.check import questions
from tokenmill.judges.model import voting
from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.pipelines.knowledge.rephrase import Rephrase
from tokenmill.pipelines.knowledge.writing import CHUNKS_BEFORE
from tokenmill.pipelines.rollouts.chunking import count_tokens, tail

LENGTHS = (1, 5, 10)
"""Passages in a document."""


@dataclass(frozen=True)
class Spent:
    """Tokens: of the judge's instructions, of both texts and what stands around them, of questions, of answers; and kept."""

    instructions: int = 0
    texts: int = 0
    questions: int = 0
    answers: int = 0
    kept: int = 0

    def __add__(self, other: Spent) -> Spent:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Spent(*(a + b for a, b in pairs))

    def per_kept(self) -> list[float]:
        """Each kind of tokens for one kept, and all of them."""
        parts = (self.instructions, self.texts, self.questions, self.answers)
        return [part / max(1, self.kept) for part in (*parts, sum(parts))]


def documents(cases: Iterable[Case], length: int) -> Iterator[list[Case]]:
    """Honest cases of one language, `length` to a document; the last ones of a language may be fewer."""
    by_language: dict[str, list[Case]] = {}
    for case in cases:
        if not case.faulty:
            by_language.setdefault(case.language, []).append(case)
    for found in by_language.values():
        yield from (found[at : at + length] for at in range(0, len(found), length))


def spent(document: Sequence[Case]) -> Spent:
    """What judging one document costs."""
    return sum((_judged(window, before) for window, before in _windows(document)), Spent())


def _windows(document: Sequence[Case]) -> Iterator[tuple[list[Case], str]]:
    """Consecutive passages that are judged at a time, and the source before them."""
    window: list[Case] = []
    done = size = 0
    for case in document:
        more = count_tokens(case.source)
        if window and size + more > Rephrase.judged_tokens:
            yield window, _joined(document[max(0, done - CHUNKS_BEFORE) : done])
            done, size, window = done + len(window), 0, []
        window.append(case)
        size += more
    yield window, _joined(document[max(0, done - CHUNKS_BEFORE) : done])


def _joined(cases: Sequence[Case]) -> str:
    return "\n\n".join(case.source for case in cases)


def _judged(window: Sequence[Case], before: str) -> Spent:
    source, rewrite = _joined(window), "\n\n".join(case.rewrite for case in window)
    title, form, language = window[0].title, window[0].form, window[0].language
    asked = tuple(questions(source, rewrite, f"{title}\n{before}", language))
    told = voting.Case(source, rewrite, tail(before, Rephrase.before_tokens), title, form, asked)
    system, user = (count_tokens(message["content"]) for message in Faithfulness().render(told))
    lines = sum(count_tokens(question.text) for question in asked)
    answers = [{"question": number, "verdict": "same"} for number in range(1, len(asked) + 1)]
    answer = {"answers": answers, "unsupported": [], "missing": [], "form_kept": True, "form_fault": ""}
    return Spent(system, user - lines, lines, count_tokens(json.dumps(answer)), count_tokens(rewrite))


def table(cases: Sequence[Case]) -> str:
    """Tokens of judging per kept token, by the length of documents, as Markdown."""
    lines = [
        "| passages in a document | instructions | texts | questions | answers | tokens of judging per kept token |",
        f"|{'---|' * 6}",
    ]
    for length in LENGTHS:
        costs = sum(map(spent, documents(cases, length)), Spent()).per_kept()
        lines.append(f"| {length} | {' | '.join(f'{cost:.2f}' for cost in costs)} |")
    return "\n".join(lines)

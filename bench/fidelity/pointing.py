"""Do the questions that code puts to the judge point at the fault?

The fault is where the faulty version's sentences differ from the honest one's. A question points at it when the words that it
is about stand in such a sentence, or, words of the source, in a sentence of the source with much the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tokenmill.bench.fidelity.cases import Case
from tokenmill.judges.facts.compare import aligned, sentences
from tokenmill.schemas.verdicts import Question

Span = tuple[int, int]


def pointing(questions: Sequence[Question], case: Case) -> list[Question]:
    """The questions that point at the fault of a faulty case."""
    old, new = _sentences(case.honest), _sentences(case.rewrite)
    changed = [sentence for sentence in new if sentence not in old]
    theirs = {
        _flat(case.source[start:end])
        for sentence in (*changed, *(sentence for sentence in old if sentence not in new))
        for start, end in aligned(sentence, case.source)
    }
    return [
        question
        for question in questions
        if _stands_in(question, question.rewrite, case.rewrite, set(changed))
        or _stands_in(question, question.source, case.source, theirs)
    ]


def raised_by_fault(questions: Sequence[Question], of_honest: Sequence[Question], case: Case) -> list[Question]:
    """Those among them that code does not ask of the honest version as well."""
    before, after = (Counter((q.kind, _marked(q)) for q in asked) for asked in (of_honest, questions))
    return [q for q in pointing(questions, case) if after[q.kind, _marked(q)] > before[q.kind, _marked(q)]]


def _stands_in(question: Question, quotation: str, text: str, wanted: Iterable[str]) -> bool:
    """Whether the words that a question is about, quoted with those around them, stand in one of the wanted sentences."""
    quotation, text = _flat(quotation).removesuffix(" …"), _flat(text)
    start = text.find(quotation)
    if not quotation or start < 0:
        return False
    middle, marked = len(quotation) // 2, _marked(question)
    places = [at for at in range(len(quotation)) if marked and quotation.startswith(marked, at)]
    at = start + min(places, key=lambda place: abs(place + len(marked) // 2 - middle), default=middle)
    return any(low <= at < high for low, high in _spans(text, wanted))


def _spans(text: str, wanted: Iterable[str]) -> list[Span]:
    return [(text.find(sentence), text.find(sentence) + len(sentence)) for sentence in wanted if sentence in text]


def _marked(question: Question) -> str:
    """The words that a question is about: those that it puts in quotation marks first."""
    return _flat(question.text.partition('"')[2].partition('"')[0])


def _sentences(text: str) -> list[str]:
    return [_flat(text[start:end]) for start, end in sentences(text)]


def _flat(text: str) -> str:
    return " ".join(text.split())

"""The checks of the mathematics pipeline that need no model, put together: of a source, and of a note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenmill.judges.form.language import UNDETERMINED
from tokenmill.judges.math import Equalities, FinalAnswer, NumbersUsed, SourceConsistent
from tokenmill.judges.math.answer_forms import Words, final_answer, read_answer
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.notation import hide, prose
from tokenmill.judges.notes.form import NoteForm
from tokenmill.schemas.math import OPTIONAL, Note, NoteTask, Problem
from tokenmill.schemas.verdicts import Finding, Verdict

_READ = 40_000
"""Characters of a long document's notes whose language is looked at; each passage was looked at before."""


@dataclass(frozen=True)
class SourceChecks:
    """What can be known of a source before anything is paid for: its language, and whether it contradicts itself."""

    languages: tuple[str, ...] = ()
    """Languages to take, ISO 639-1; empty for all. What is undetermined, little but formulas, counts as English."""
    consistent: SourceConsistent = field(default_factory=SourceConsistent)

    def __call__(self, task: NoteTask, passages: Sequence[str]) -> list[Verdict]:
        """Judge a source, cut into `passages`: reasons `language_not_selected` and `source_wrong`."""
        problem = task.problem
        language = "en" if problem.language == UNDETERMINED else problem.language
        if self.languages and language not in self.languages:
            detail = f"The source is in {problem.language}; selected are {', '.join(self.languages)}."
            finding = Finding("other_language", detail, problem.text[:200])
            return [Verdict("selection", False, 0.0, "language_not_selected", (finding,))]
        if task.is_pair:
            return [self.consistent(problem.answer, "", language)]
        return [self._document(passages, language)]

    def _document(self, passages: Sequence[str], language: str) -> Verdict:
        """A document is wrong where it states a false equality; it need not arrive at any one answer."""
        verdicts = [self.consistent.equalities(passage, language) for passage in passages]
        findings = tuple(
            Finding("source_wrong", f.detail.replace("Correct ", "The source states ", 1), f.rewrite)
            for verdict in verdicts
            for f in verdict.findings
        )
        score = min((verdict.score for verdict in verdicts), default=1.0)
        return Verdict("source", not findings, score, "source_wrong" if findings else "", findings)


@dataclass(frozen=True)
class NoteChecks:
    """Every check of a note that needs no model, cheapest first."""

    form: NoteForm = field(default_factory=NoteForm)
    numbers: NumbersUsed = field(default_factory=NumbersUsed)
    equalities: Equalities = field(default_factory=Equalities)
    answer: FinalAnswer = field(default_factory=FinalAnswer)
    derivation: SourceConsistent = field(default_factory=SourceConsistent)

    def __call__(
        self,
        task: NoteTask,
        source: str,
        answer: str,
        note: Note,
        text: str,
        *,
        system: str = "",
        judged: bool = False,
        fields: Sequence[str] = OPTIONAL,
    ) -> list[Verdict]:
        """Judge `note`, rendered as `text`, made of the English `source`: a question with its `answer`, or a passage.

        `fields` are those to be filled of the ones that a note may leave out. Where a judge follows (`judged`), numbers of the
        source that the note lacks are for him to weigh (`questions.evidence`).

        Raises:
            ValueError: the note is longer than the symbolic checks read.
        """
        if not text:
            return [self._nothing(source)]
        verdicts = self.form(f"{source}\n\n{answer}" if answer else source, note, text, system, fields)
        if not judged:
            verdicts.append(self.numbers(source, text, note.unused))
        equalities = self.equalities(text)
        verdicts.append(equalities)
        if task.is_pair:
            verdicts += self._answer(task.problem, source, note)
            if note.answer and equalities.passed:
                verdicts.append(self._derivation(note))
        return verdicts

    def whole(self, source: str, notes: Sequence[Note], text: str) -> list[Verdict]:
        """Judge the notes of a document put together."""
        if not notes:
            finding = Finding("no_mathematics", "No passage holds mathematics.", source[:200])
            return [Verdict("content", False, 0.0, "no_mathematics", (finding,))]
        circles = self.form.truncation(source, text)
        checked = [self.form.injection(source, text), self.form.language("", prose(text[:_READ]), "en")]
        return checked + ([circles] if circles.passed or circles.reason == "repeats_itself" else [])

    def _answer(self, problem: Problem, question: str, note: Note) -> list[Verdict]:
        """The final answer is the source's, in the unit that the English `question` asks for. An answer in words (a proof, a
        sentence with several numbers) that is not plainly the same is left to the judge."""
        gold = final_answer(problem.answer)
        if not gold:
            return []
        verdict = self.answer(problem.answer, note.answer, problem.language, question=question)
        in_words = bool(note.answer) and isinstance(read_answer(gold, problem.language), Words)
        return [] if in_words and not verdict.passed else [verdict]

    def _derivation(self, note: Note) -> Verdict:
        """The note's own steps arrive at its answer; its equalities are known to be true."""
        worked = "\n\n".join((*(step.work for step in note.steps), note.result))
        verdict = self.derivation(worked, note.answer)
        if verdict.passed:
            return Verdict("derivation", True, verdict.score)
        detail = f"The steps never arrive at the answer {note.answer}; correct them or the answer."
        finding = Finding("answer_not_derived", detail, "", note.answer)
        return Verdict("derivation", False, verdict.score, "answer_not_derived", (finding,))

    def _nothing(self, source: str) -> Verdict:
        """Of a passage without any formula a note may make nothing; whether it does so rightly the judge says."""
        found = self.equalities.statements(from_mathml(source), "en")
        if not found and not hide(from_mathml(source))[1]:
            return Verdict("content", True, 1.0)
        finding = Finding("content_lost", "Make a note of the passage: it holds mathematics.", source[:200])
        return Verdict("content", False, 0.0, "content_lost", (finding,))

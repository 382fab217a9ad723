"""One source made into a learning note, verified and repaired (Kimi K2 report, section 2.2, after SwallowMath).

The source is checked first, before anything is paid for; then it is translated where it is not English; then the note
is written: in one call for a problem with its answer, passage by passage for a document. Plain coroutines over `ask`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tokenmill.inference.call import Ask
from tokenmill.inference.structured import ask_json
from tokenmill.judges.form.language import UNDETERMINED, detect
from tokenmill.judges.math import Algebra
from tokenmill.judges.model import disputes
from tokenmill.judges.model.argument import Gaps
from tokenmill.judges.model.disputes import Dispute
from tokenmill.judges.model.voting import REPAIR
from tokenmill.judges.notes.checks import NoteChecks, SourceChecks
from tokenmill.judges.notes.questions import evidence
from tokenmill.judges.own import OwnCheck
from tokenmill.pipelines.math.note_request import NOTE, PASSAGE, NoteRequest, Part, system_part
from tokenmill.pipelines.math.note_text import Form, render, tidied, to_json
from tokenmill.pipelines.math.translate import Translate
from tokenmill.pipelines.rollouts.candidates import ONE, Candidates
from tokenmill.pipelines.rollouts.chunking import Chunk, chunk, count_tokens, tail
from tokenmill.pipelines.rollouts.progress import Progress, Refusal
from tokenmill.pipelines.rollouts.repair import write_and_repair
from tokenmill.pipelines.runs.benchmarks import Benchmarks
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.math import NOTE_SCHEMA, LearningNote, Note, NoteTask, Problem, RefusedNote
from tokenmill.schemas.verdicts import WHOLE, Verdict, first_refusal

NO_NOTE = "(No note: nothing in this passage was taken for mathematics.)"
"""What the judge sees for a passage of which no note was made."""
_WORDS = re.compile(r"(?<!\\)\b[^\W\d_]{2,}")


@dataclass
class _Written(Progress):
    notes: list[Note] = field(default_factory=list)
    text: str = ""
    """The notes so far, rendered."""
    translation: str = ""

    def take(self, note: Note, text: str) -> None:
        self.notes.append(note)
        self.text = "\n\n".join(filter(None, (self.text, text)))


@dataclass(frozen=True)
class WriteNote:
    """Writes one learning note in one style: the step of the mathematics pipeline."""

    model: str
    judge_model: str = ""
    seed: int = 0
    chunk_tokens: int = 512
    """Target size of a passage of a document."""
    repairs: int = 2
    """Further attempts at a note that a check refused."""
    request: NoteRequest = field(default_factory=NoteRequest)
    temperature: float = 0.4
    top_p: float = 0.95
    source_checks: SourceChecks = field(default_factory=SourceChecks)
    translate: Translate = field(default_factory=Translate)
    checks: NoteChecks = field(default_factory=NoteChecks)
    own: tuple[OwnCheck, ...] = ()
    """The user's, which see a note as it is rendered."""
    candidates: Candidates = ONE
    """Of each note's first writing."""
    judge: Gaps | None = field(default_factory=Gaps)
    dispute: Dispute | None = field(default_factory=Dispute)
    """Settles which is wrong when notes keep finding another answer than the source; None leaves it open."""
    benchmarks: Benchmarks | None = None
    """No note is made of a source that holds an item of these."""

    row_type = LearningNote
    rejected_type = RefusedNote

    async def __call__(self, task: NoteTask, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when a model cannot be brought to answer."""
        problem, progress = task.problem, _Written(ask)
        chunks = self.chunks(task)
        verdicts = await asyncio.to_thread(self.source_checks, task, [piece.text for piece in chunks])
        hit = None
        if self.benchmarks is not None:
            verdict, hit = self.benchmarks.verdict(problem.text)
            verdicts = [verdict, *verdicts]
        progress.add(verdicts, WHOLE, 0)
        refusal = _refused(verdicts, "source", problem.text, "")
        if refusal is None:
            if task.is_pair:
                refusal = await self._problem(task, progress)
            else:
                refusal = await self._document(task, chunks, progress)
        if refusal is not None:
            refused = self._rejected(task, progress, refusal, len(chunks))
            return refused if hit is None else replace(refused, counted=hit.counter)
        return Accepted(LearningNote(**self._columns(task, progress, len(chunks))))

    def warm(self) -> None:
        """Start what is slow to start, so that no rollout waits for it in the middle of others."""
        Algebra().warm()
        detect("Tento text je napsán česky, aby se načetl model.")

    def failed(self, task: NoteTask, error: str, message: str) -> FailedRow:
        return failed_row(task.id, "rollout", error, message, task.problem.text, task.problem)

    def chunks(self, task: NoteTask) -> list[Chunk]:
        """The passages of a document; a problem with its answer is one."""
        problem = task.problem
        if task.is_pair:
            return [Chunk(problem.text, count_tokens(problem.text))]
        return chunk(problem.text, self.chunk_tokens, problem.language)

    async def _problem(self, task: NoteTask, progress: _Written) -> Refusal | None:
        problem = task.problem
        part = Part(problem.question, problem.answer)
        if foreign(problem):
            words = [text for text in (part.source, part.answer) if _WORDS.search(text)]
            english = {}
            for text in words:
                english[text], refusal = await self.translate(problem, text, WHOLE, progress)
                if refusal is not None:
                    return refusal
            part = Part(english.get(part.source, part.source), english.get(part.answer, part.answer))
            progress.translation = part.text
        return await self._note(task, part, progress)

    async def _document(self, task: NoteTask, chunks: Sequence[Chunk], progress: _Written) -> Refusal | None:
        problem, before = task.problem, ""
        for index, piece in enumerate(chunks):
            passage = piece.body
            if foreign(problem):
                passage, refusal = await self.translate(problem, passage, index, progress)
                if refusal is not None:
                    return refusal
                progress.translation += passage + piece.text[len(piece.text.rstrip()) :]
            part = Part(passage, index=index, position=f"{index + 1} / {len(chunks)}", before=before)
            refusal = await self._note(task, part, progress)
            if refusal is not None:
                return refusal
            before = passage
        verdicts = self.checks.whole(progress.translation or problem.text, progress.notes, progress.text)
        progress.add(verdicts, WHOLE, 0)
        return _refused(verdicts, "note", problem.text, progress.text)

    async def _note(self, task: NoteTask, part: Part, progress: _Written) -> Refusal | None:
        """Write the note of one part so that every check passes, or say what the last attempt was refused for."""
        answers: list[str] = []

        async def write(earlier: Note | None, verdicts: Sequence[Verdict], params: dict[str, Any]) -> Note:
            answer = await ask_json(
                progress,
                self.request(task, part, progress.text, earlier, verdicts),
                NOTE_SCHEMA,
                to="writer",
                tries=2,
                max_tokens=count_tokens(part.text) * 3 + 1000,
                **params,
            )
            progress.attempts += len(answer.answers)
            return tidied(Note.of(answer.value), self._form(task).fields)

        async def verify(note: Note) -> list[Verdict]:
            verdicts = await self._verdicts(task, part, note, self._rendered(task, note, progress), progress)
            if self.dispute and note.answer and {v.reason for v in verdicts if not v.passed} == {"wrong_answer"}:
                # The same answer again after the correction: a further attempt would bring it once more.
                if answers and self.dispute.same.same(answers[-1], note.answer):
                    verdicts.append(await self.dispute(part.source, part.answer, note.answer, progress))
                answers.append(note.answer)
            return verdicts

        note, verdicts = await write_and_repair(
            self, write, verify, progress, part.index, unrepairable, candidates=self.candidates
        )
        text = self._rendered(task, note, progress)
        refused = next((v for v in verdicts if v.reason == "source_wrong"), first_refusal(verdicts))
        if text or refused:
            progress.take(note, text)
        return Refusal("note", part.index, part.text, text, refused) if refused else None

    async def _verdicts(self, task: NoteTask, part: Part, note: Note, text: str, progress: _Written) -> list[Verdict]:
        """Verdicts on one note, cheapest checks first; a refusal spares the judge."""
        # In a thread: a question to the algebra process may take half a second.
        verdicts = await asyncio.to_thread(
            self.checks,
            task,
            part.source,
            part.answer,
            note,
            text,
            system=system_part(part.prompt),
            judged=self.judge is not None,
            fields=self._form(task).fields,
        )
        for own in self.own if text else ():
            verdicts += await asyncio.to_thread(own, part.text, text, title=task.problem.title)
        if self.judge is not None and first_refusal(verdicts) is None:
            told = await asyncio.to_thread(evidence, part.source, part.answer, note, part.before)
            left_out = "\n".join(("The note says that it left out:", *note.unused)) if note.unused else ""
            context = "\n\n".join(filter(None, (part.before, tail(progress.text, self.request.tail_tokens), left_out)))
            title = task.problem.title
            verdicts.append(
                await self.judge(
                    part.text,
                    text or NO_NOTE,
                    context,
                    progress,
                    title=title,
                    questions=told.questions,
                    checked=told.checked,
                )
            )
        return verdicts

    def _rendered(self, task: NoteTask, note: Note, progress: _Written) -> str:
        """A note in its place: the first stands under the document's title, the others after it. Empty for no note."""
        title = task.problem.title
        if task.is_pair:
            return render(note, self._form(task), title=title)
        if not note.steps:
            return ""
        text = render(note, self._form(task, len(progress.notes)), level=2)
        return f"# {title}\n\n{text}" if title and not progress.notes else text

    def _form(self, task: NoteTask, place: int = 0) -> Form:
        """Shape and style of the task, labels drawn for its note in this place."""
        return Form(task.shape, task.style, (self.seed, task.id, place))

    def prompt_names(self, task: NoteTask) -> list[str]:
        """Names of the prompts that a task may use."""
        names = [NOTE if task.is_pair else PASSAGE, task.style, task.shape, REPAIR]
        if foreign(task.problem):
            names += self.translate.prompt_names
        if self.judge is not None:
            names += self.judge.prompt_names
        if self.dispute is not None and task.is_pair:
            names.append(disputes.PROMPT)
        return list(dict.fromkeys(names))

    def _columns(self, task: NoteTask, progress: _Written, chunks: int) -> dict[str, Any]:
        problem, notes = task.problem, progress.notes
        return {
            "id": task.id,
            "text": progress.text,
            "note": to_json(*notes),
            "kind": "problem" if task.is_pair else "document",
            "title": problem.title or (notes[0].title if notes else ""),
            "answer": notes[0].answer if task.is_pair and notes else "",
            "language": "en",
            "source_language": problem.language,
            "translation": progress.translation.strip(),
            "style": task.style.rpartition("/")[2],
            "shape": task.shape.rpartition("/")[2],
            "judge_model": self.judge_model,
            **progress.columns(problem, self.model, self.prompt_names(task), self.seed, chunks),
        }

    def _rejected(self, task: NoteTask, progress: _Written, refusal: Refusal, chunks: int) -> Rejected:
        stage = "source" if refusal.verdict.reason == "source_wrong" else refusal.stage
        row = RefusedNote(**self._columns(task, progress, chunks), **refusal.columns, stage=stage)
        return Rejected(row, row.reason)


def foreign(problem: Problem) -> bool:
    """Whether a source must be translated. What is little but formulas need not be."""
    return problem.language not in ("en", UNDETERMINED)


def unrepairable(verdicts: Sequence[Verdict]) -> bool:
    """Whether no further note can pass: the source is wrong, or its answer was disputed and stands."""
    return any(v.reason == "source_wrong" or v.check == disputes.CHECK for v in verdicts)


def _refused(verdicts: Sequence[Verdict], stage: str, source: str, text: str) -> Refusal | None:
    verdict = first_refusal(verdicts)
    return Refusal(stage, WHOLE, source, text, verdict) if verdict else None

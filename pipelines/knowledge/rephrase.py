"""Chunk-wise autoregressive rephrasing of one document, verified and repaired chunk by chunk.

Kimi K2 report, section 2.2 and figure 4: each chunk is rewritten with what was already rewritten in view, and the
rewritten chunks are put together as one passage. Then a judge reads them, several at a time, with the seams between them;
last, the passage is checked as a whole. What is found wrong is mended where it stands. Plain coroutines over `ask`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tokenmill.inference.call import Ask
from tokenmill.judges.facts.check import questions
from tokenmill.judges.facts.names import ordinary
from tokenmill.judges.facts.quantities import read
from tokenmill.judges.form.language import detect
from tokenmill.judges.model.faithfulness import BROKEN_SEAM, OTHER_FORM
from tokenmill.judges.model.quotes import stands_in
from tokenmill.judges.model.voting import DROPPED, Seam
from tokenmill.pipelines.knowledge.contracts import SOURCE, before_it, check_of, keeps_all
from tokenmill.pipelines.knowledge.row_figures import figures_of
from tokenmill.pipelines.knowledge.writing import STAGE, Writing, Written, before, known
from tokenmill.pipelines.rollouts.chunking import Chunk, chunk, join, tail
from tokenmill.pipelines.rollouts.progress import Refusal
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.knowledge import RefusedRephrasing, Rephrasing, RephrasingTask
from tokenmill.schemas.verdicts import WHOLE, Finding, Question, Verdict, first_refusal

from tokenmill import prompts

_SEAM_CHARACTERS = 140
"""Of either part that a judge is shown at a seam."""


@dataclass(frozen=True)
class Rephrase(Writing):
    """Rewrites one document in one style and perspective: the step of the knowledge pipeline."""

    row_type = Rephrasing
    rejected_type = RefusedRephrasing

    async def __call__(self, task: RephrasingTask, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when a model cannot be brought to answer."""
        progress = Written(ask)
        chunks = chunk(task.document.text, self.chunk_tokens, task.document.language, task.tokens)
        if self.benchmarks is not None:
            verdict, hit = self.benchmarks.verdict(task.document.text)
            progress.add([verdict], WHOLE, 0)
            if hit is not None:
                refusal = Refusal("source", WHOLE, task.document.text, "", verdict)
                return replace(self._rejected(task, progress, refusal, chunks), counted=hit.counter)
        if before_it(task.style) == SOURCE:
            progress.go_on(task.document.text)
        for stage in self.stages(task):
            if progress.parts:
                progress.go_on(progress.text(chunks), tuple(progress.parts))
            if missed := await self._stage(stage, chunks, progress):
                return self._rejected(task, progress, missed, chunks)
        return Accepted(Rephrasing(**self._columns(task, progress, progress.whole(chunks), len(chunks))))

    async def _stage(self, task: RephrasingTask, chunks: Sequence[Chunk], progress: Written) -> Refusal | None:
        """Write and check the document in the task's style, or say what it was refused for."""
        for index, part in enumerate(chunks):
            rewrite = ""
            if self.suits(task, part):
                rewrite, refusal = await self.write(task, chunks, index, progress)
                if refusal is not None:
                    return refusal
            progress.parts.append(rewrite)
        if not any(progress.parts):
            return self._unsuited(task, progress)
        for start, end in self._windows(chunks) if self.checks.judge is not None else ():
            if any(progress.parts[start:end]) and (refusal := await self._judge(task, chunks, start, end, progress)):
                return refusal
        return await self._whole(task, chunks, progress) if len(chunks) > 1 else None

    def _unsuited(self, task: RephrasingTask, progress: Written) -> Refusal:
        """Nothing was written, and nothing paid for: no passage has what the form needs."""
        quote = task.document.text[:200]
        finding = Finding("form_unsuited", "No passage of the document has what the form needs.", quote)
        verdict = Verdict("suits", False, 0.0, "form_unsuited", (finding,))
        progress.add([verdict], WHOLE, 0)
        return Refusal(STAGE, WHOLE, task.document.text, "", verdict)

    def warm(self) -> None:
        """Load what the checks need, so that no rollout waits for it in the middle of others."""
        self.preload()

    def preload(self) -> None:
        """Load plain data, which worker processes may share when they are forked."""
        detect("Tento text je napsán česky, aby se načetl model.")
        ordinary("unusualness")
        read("twelve km")
        if self.checks.similarity is not None:
            self.checks.similarity.preload()

    def failed(self, task: RephrasingTask, error: str, message: str) -> FailedRow:
        return failed_row(task.id, "rollout", error, message, task.document.text, task.document)

    async def _judge(
        self,
        task: RephrasingTask,
        chunks: Sequence[Chunk],
        start: int,
        end: int,
        progress: Written,
        *,
        mended: bool = False,
    ) -> Refusal | None:
        """Have the judge read chunks `start` to `end`; what it finds is mended where it stands, and that is read again.

        Args:
            mended: whether they were mended since the chunk after them was read.
        """
        for reading in count():
            source = "".join(part.text for part in chunks[start:end]).strip()
            rewrite = progress.text(chunks, start, end)
            reach = min(end + (mended or reading > 0), len(chunks))
            seams = range(max(1, start), reach)
            verdict = await self._reading(task, chunks, start, end, seams, progress, reading)
            progress.add([verdict], start, reading)
            for index in range(start, end):
                progress.tolerated.pop(index, None)
            if verdict.passed:
                for finding in verdict.minor:
                    place = (_places([finding], chunks, progress, start, end) or [start])[0]
                    progress.tolerated.setdefault(place, []).append(finding)
                return None
            refusal = Refusal(STAGE, start if end - start == 1 else WHOLE, source, rewrite, verdict)
            span = start, end, reach
            faulty = _places(verdict.findings, chunks, progress, *span)
            if not faulty or any(finding.kind == OTHER_FORM for finding in verdict.findings):
                faulty = [index for index in range(start, end) if progress.parts[index]]
            if refused := await self._mend_all(task, chunks, faulty, refusal, span, progress):
                return refused
            start, end = faulty[0], faulty[-1] + 1
        raise AssertionError("unreachable")

    async def _reading(
        self,
        task: RephrasingTask,
        chunks: Sequence[Chunk],
        start: int,
        end: int,
        seams: Iterable[int],
        progress: Written,
        reading: int,
    ) -> Verdict:
        """The judge's verdict on chunks `start` to `end`, and on the seams before the chunks of these numbers."""
        judge, document = self.checks.judge, task.document
        assert judge is not None
        source = "".join(part.text for part in chunks[start:end]).strip()
        rewrite, context = progress.text(chunks, start, end), known(task, chunks, start)
        asked: list[Question] = []
        if self.checks.entailment is not None:
            doubts = await self.checks.entailment(source, rewrite, context)
            # The judge decides; the score is kept.
            progress.add([Verdict(doubts.verdict.check, True, doubts.verdict.score)], start, reading)
            asked += doubts.questions
        if self.checks.facts is not None:
            fitting = check_of(task.style)
            stated = rewrite if fitting is None else fitting.stated(rewrite)
            asked += questions(source, stated, context, document.language)
        partial = not keeps_all(task.style)
        if partial:  # what stands in the source alone is no matter of doubt
            asked = [question for question in asked if question.rewrite]
        parts = progress.parts
        return await judge(
            source,
            rewrite,
            tail(before(chunks, start), self.before_tokens),
            progress,
            title=document.title,
            form=self._form(task),
            questions=asked,
            before=tail(parts[start - 1], self.before_tokens) if start else "",
            seams=[_seam(parts[i - 1], parts[i]) for i in seams if parts[i - 1] and parts[i]],
            partial=partial,
        )

    async def _whole(self, task: RephrasingTask, chunks: Sequence[Chunk], progress: Written) -> Refusal | None:
        """Check the passage as a whole without a judge; the chunks in which something is wrong are mended and judged again."""
        for reading in count():
            text = progress.text(chunks)
            verdicts = await self.without_judge(task, task.document.text, text, task.document.title, entailed=False)
            progress.add(verdicts, WHOLE, reading)
            refused = first_refusal(verdicts)
            if refused is None:
                return None
            refusal = Refusal(STAGE, WHOLE, task.document.text, text, refused)
            weakest = [_weakest(refused.check, progress)]
            faulty = [
                i for i in _places(refused.findings, chunks, progress, 0, len(chunks)) if progress.parts[i]
            ] or weakest
            if missed := await self._mend_all(task, chunks, faulty, refusal, (0, len(chunks)), progress):
                return missed
            for index in faulty if self.checks.judge is not None else ():
                if missed := await self._judge(task, chunks, index, index + 1, progress, mended=True):
                    return missed
        raise AssertionError("unreachable")

    async def _mend_all(
        self,
        task: RephrasingTask,
        chunks: Sequence[Chunk],
        faulty: Sequence[int],
        refusal: Refusal,
        span: tuple[int, ...],
        progress: Written,
    ) -> Refusal | None:
        """Mend chunks that were refused together, each with the findings about it, and those that are about none alone; what
        one is refused for that cannot be mended any more.

        Args:
            span: what was read, as `_places` takes it.
        """
        if any(progress.mended[index] >= self.repairs for index in faulty):
            return refusal
        verdict = refusal.verdict
        placed = [(f, _places([f], chunks, progress, *span)) for f in verdict.findings if f.kind != DROPPED]
        shown = {index: tuple(f for f, places in placed if index in places or not places) for index in faulty}
        for index in faulty:
            mine = replace(refusal, verdict=replace(verdict, findings=shown[index]))
            if missed := await self.mend(task, chunks, index, mine, progress):
                return missed
        return None

    def _form(self, task: RephrasingTask) -> str:
        """Style and perspective in a few words, for the judge."""
        return "; ".join(str(prompts.load(name).meta["brief"]) for name in (task.style, task.perspective))

    def _windows(self, chunks: Sequence[Chunk]) -> Iterator[tuple[int, int]]:
        """Consecutive chunks of about `judged_tokens` that the judge reads at a time."""
        start, size = 0, 0
        for index, part in enumerate(chunks):
            if index > start and size + part.tokens > self.judged_tokens:
                yield start, index
                start, size = index, 0
            size += part.tokens
        yield start, len(chunks)

    def _columns(self, task: RephrasingTask, progress: Written, text: str, chunks: int) -> dict[str, Any]:
        document = task.document
        used = [name for stage in self.stages(task) for name in (self.template(stage.style), stage.style)]
        used.append(task.perspective)
        if self.checks.judge is not None:
            used += self.checks.judge.prompt_names
        if not self.brief:
            used.append(self.repair_template)
        return {
            "id": task.id,
            "text": text,
            "title": document.title,
            "language": document.language,
            "source": document.source,
            "url": document.url,
            "source_kind": task.kind,
            "rephrasing": task.rephrasing,
            "style": task.style.rpartition("/")[2],
            "perspective": task.perspective.rpartition("/")[2],
            "judge_model": self.judge_model if self.checks.judge is not None else "",
            "minor_faults": sum(map(len, progress.tolerated.values())),
            **figures_of(document.text, text, task.tokens),
            **progress.columns(document, self.model, used, self.seed, chunks),
        }

    def _rejected(self, task: RephrasingTask, progress: Written, refusal: Refusal, chunks: Sequence[Chunk]) -> Rejected:
        text = progress.whole(chunks)
        if len(progress.parts) < len(chunks):
            text = join(text, refusal.text, new_paragraph=True)
        row = RefusedRephrasing(**self._columns(task, progress, text, len(chunks)), **refusal.columns)
        return Rejected(row, row.reason)


def _places(
    findings: Sequence[Finding], chunks: Sequence[Chunk], progress: Written, start: int, end: int, reach: int = 0
) -> list[int]:
    """The chunks from `start` to `end` that the quotations of findings stand in. What is said twice at a seam is mended the
    second time: that may be in the chunk after them, where seams up to before `reach` were read."""
    found: set[int] = set()
    for finding in findings:
        seam = finding.kind == BROKEN_SEAM
        last = max(end, reach) if seam else end
        if finding.rewrite:
            there = _standing(finding.rewrite, progress.parts, progress.text(chunks), start, last)
        else:
            texts = [part.text for part in chunks]
            there = _standing(finding.source, texts, "".join(texts), start, last)
        found.update(there[-1:] if seam else there)
    return sorted(found)


def _standing(quote: str, parts: Sequence[str], stitched: str, start: int, end: int) -> list[int]:
    """Parts from `start` to `end` in which a quotation stands, or over which it goes in the text stitched of all parts."""
    there = [index for index in range(start, end) if stands_in(quote, parts[index])]
    at = stitched.find(quote) if quote and not there else -1
    if at < 0:
        return there
    position = 0
    for index, part in enumerate(parts):
        position = stitched.index(part, position) + len(part)
        if position > at and position - len(part) < at + len(quote) and start <= index < end:
            there.append(index)
    return there


def _weakest(check: str, progress: Written) -> int:
    """The chunk with the lowest last score of a check."""
    scores = {j.chunk: j.score for j in progress.judgements if j.check == check and j.chunk != WHOLE}
    return min(scores, key=lambda index: (scores[index], index), default=0)


def _seam(earlier: str, later: str) -> Seam:
    return Seam(" ".join(earlier[-_SEAM_CHARACTERS:].split()), " ".join(later[:_SEAM_CHARACTERS].split()))

"""Chunk-wise autoregressive rephrasing of one document, verified and repaired chunk by chunk.

Kimi K2 report, section 2.2 and figure 4: each chunk is rewritten with what was already rewritten in view, and the
rewritten chunks are put together as one passage. Everything here is a plain coroutine over `ask`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tokenmill.inference.call import Ask, Message
from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.facts.check import CHECK as FACTS
from tokenmill.judges.facts.check import FactCheck, questions
from tokenmill.judges.facts.names import ordinary
from tokenmill.judges.facts.quantities import read
from tokenmill.judges.form.checks import FormChecks
from tokenmill.judges.form.language import detect
from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.judges.model.quotes import stands_in
from tokenmill.pipelines.rollouts.chunking import Chunk, chunk, join, tail
from tokenmill.pipelines.rollouts.progress import Progress, Refusal
from tokenmill.pipelines.rollouts.repair import corrections, write_text
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.prompts.fence import fence
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.knowledge import RefusedRephrasing, Rephrasing, RephrasingTask
from tokenmill.schemas.verdicts import WHOLE, Verdict, first_refusal

from tokenmill import prompts

TEMPLATE = "knowledge/rephrase"
BRIEF_TEMPLATE = "knowledge/rephrase_brief"
"""For models of some hundred million parameters, which lose their way in long instructions."""
REPAIR_TEMPLATE = "knowledge/repair"
STAGE = "rewrite"
CHUNKS_BEFORE = 3
"""Chunks of the source before the one to be rewritten: the writer sees their end, and what stands in them is known to the
checks. What was written of them is not: an invention must not license the next."""


@dataclass(frozen=True)
class Checks:
    """The fidelity checks, cheapest first; None switches one off."""

    form: FormChecks = field(default_factory=FormChecks)
    facts: FactCheck | None = field(default_factory=FactCheck)
    similarity: Similarity | None = field(default_factory=Similarity)
    judge: Faithfulness | None = field(default_factory=Faithfulness)


@dataclass
class _Written(Progress):
    parts: list[str] = field(default_factory=list)
    """The rewrites of the chunks so far."""

    def text(self, chunks: Sequence[Chunk], start: int = 0, end: int | None = None) -> str:
        """The rewrites of chunks `start` to `end`, stitched."""
        stitched = ""
        for index, part in list(enumerate(self.parts))[start:end]:
            new_paragraph = index > start and chunks[index - 1].ends_paragraph
            stitched = join(stitched, part, new_paragraph=new_paragraph)
        return stitched


@dataclass(frozen=True)
class Rephrase:
    """Rewrites one document in one style and perspective: the step of the knowledge pipeline."""

    model: str
    judge_model: str = ""
    brief: bool = False
    """Whether to use the short prompt, for very small models."""
    seed: int = 0
    chunk_tokens: int = 256
    """Target size of a chunk."""
    repairs: int = 2
    """Further attempts at a chunk that a check refused."""
    tail_tokens: int = 160
    """How much of what was already rewritten the next call sees."""
    before_tokens: int = 96
    """How much of the source before the chunk it sees."""
    judged_tokens: int = 800
    """Source tokens that the judge compares at a time."""
    temperature: float = 0.7
    top_p: float = 0.95
    checks: Checks = field(default_factory=Checks)

    row_type = Rephrasing
    rejected_type = RefusedRephrasing

    async def __call__(self, task: RephrasingTask, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when a model cannot be brought to answer."""
        progress = _Written(ask)
        chunks = chunk(task.document.text, self.chunk_tokens, task.document.language)
        for index in range(len(chunks)):
            rewrite, refusal = await self._write(task, chunks, index, progress)
            if refusal is not None:
                return self._rejected(task, progress, refusal, chunks)
            progress.parts.append(rewrite)
        for start, end in self._windows(chunks) if self.checks.judge is not None else ():
            if refusal := await self._judge(task, chunks, start, end, progress):
                return self._rejected(task, progress, refusal, chunks)
        if len(chunks) > 1:
            text = progress.text(chunks)
            verdicts = await self._without_judge(task, task.document.text, text, task.document.title)
            progress.add(verdicts, WHOLE, 0)
            if refused := first_refusal(verdicts):
                return self._rejected(task, progress, Refusal(STAGE, WHOLE, task.document.text, text, refused), chunks)
        return Accepted(Rephrasing(**self._columns(task, progress, progress.text(chunks), len(chunks))))

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

    async def _write(
        self, task: RephrasingTask, chunks: Sequence[Chunk], index: int, progress: _Written
    ) -> tuple[str, Refusal | None]:
        """The chunk written so that every check without a model passes, or what the last attempt was refused for."""
        part = chunks[index]
        context = "\n".join((task.document.title, self._before(chunks, index)))

        async def verify(rewrite: str, finish_reason: str) -> list[Verdict]:
            return await self._without_judge(task, part.body, rewrite, context, finish_reason)

        def messages(verdicts: Sequence[Verdict], refused: str) -> list[Message]:
            if verdicts and not self.brief and all(v.passed or v.check == FACTS for v in verdicts):
                return self._corrected(task, chunks, index, refused, verdicts)
            return self.messages(task, chunks, index, self._before(chunks, index), progress.text(chunks), verdicts)

        return await write_text(
            self, messages, verify, progress, stage=STAGE, chunk=index, source=part.body, max_tokens=_room(part)
        )

    async def _judge(
        self, task: RephrasingTask, chunks: Sequence[Chunk], start: int, end: int, progress: _Written
    ) -> Refusal | None:
        """Have the judge read chunks `start` to `end`; what it finds is mended where it stands, and that is read again."""
        judge, document = self.checks.judge, task.document
        assert judge is not None
        for attempt in range(self.repairs + 1):
            source = "".join(part.text for part in chunks[start:end]).strip()
            rewrite, before = progress.text(chunks, start, end), self._before(chunks, start)
            context = "\n".join((document.title, before))
            verdict = await judge(
                source,
                rewrite,
                tail(before, self.before_tokens),
                progress,
                title=document.title,
                form=self._form(task),
                questions=questions(source, rewrite, context, document.language) if self.checks.facts else (),
            )
            progress.add([verdict], start, attempt)
            if verdict.passed:
                return None
            refusal = Refusal(STAGE, start if end - start == 1 else WHOLE, source, rewrite, verdict)
            if attempt == self.repairs:
                return refusal
            faulty = self._places(verdict, chunks, progress, start, end)
            for index in faulty:
                if refused := await self._mend(task, chunks, index, verdict, progress, attempt + 1):
                    return refused
            start, end = faulty[0], faulty[-1] + 1
        raise AssertionError("unreachable")

    def _places(self, verdict: Verdict, chunks: Sequence[Chunk], progress: _Written, start: int, end: int) -> list[int]:
        """The chunks that a verdict's quotations stand in; all of them where it quotes nothing that is in one."""
        found = {
            index
            for finding in verdict.findings
            for index in range(start, end)
            if stands_in(finding.rewrite, progress.parts[index])
            or (not finding.rewrite and stands_in(finding.source, chunks[index].text))
        }
        return sorted(found) or list(range(start, end))

    async def _mend(
        self,
        task: RephrasingTask,
        chunks: Sequence[Chunk],
        index: int,
        verdict: Verdict,
        progress: _Written,
        attempt: int,
    ) -> Refusal | None:
        """Write a chunk again with a verdict's findings in view; what it is refused for, where it no longer passes."""
        part, refused = chunks[index], progress.parts[index]
        mine = [
            finding
            for finding in verdict.findings
            if stands_in(finding.rewrite, refused) or not stands_in(finding.rewrite, progress.text(chunks))
        ]
        context = "\n".join((task.document.title, self._before(chunks, index)))
        verdicts = [replace(verdict, findings=tuple(mine) or verdict.findings)]
        text, failed = refused, verdicts[0]
        for again in range(attempt, self.repairs + 1):
            answer = await progress(
                self._corrected(task, chunks, index, text, verdicts),
                max_tokens=_room(part),
                attempt=self.repairs + again,  # those below are of the first writing
                seed=self.seed + again,
                temperature=self.temperature,
                top_p=self.top_p,
            )
            progress.attempts += 1
            text = answer.text.strip()
            verdicts = await self._without_judge(task, part.body, text, context, answer.finish_reason)
            progress.add(verdicts, index, self.repairs + again)
            if (missed := first_refusal(verdicts)) is None:
                progress.parts[index] = text
                return None
            failed = missed
        return Refusal(STAGE, index, part.body, text, failed)

    def _before(self, chunks: Sequence[Chunk], index: int) -> str:
        """The source just before a chunk."""
        return "".join(part.text for part in chunks[max(0, index - CHUNKS_BEFORE) : index])

    def _form(self, task: RephrasingTask) -> str:
        """Style and perspective in a few words, for the judge."""
        return "; ".join(str(prompts.load(name).meta["brief"]) for name in (task.style, task.perspective))

    def _corrected(
        self, task: RephrasingTask, chunks: Sequence[Chunk], index: int, refused: str, verdicts: Sequence[Verdict]
    ) -> list[Message]:
        """The messages that ask to mend a rewrite: its own text, and what is wrong with it in the words of both texts."""
        before = self._before(chunks, index)
        return prompts.load(REPAIR_TEMPLATE).render(
            **wording(task.style, task.perspective, self.brief),
            title=fence(task.document.title, "title") if task.document.title else "",
            source_before=fence(tail(before, self.before_tokens), "source-before") if before.strip() else "",
            passage=fence(chunks[index].body, "passage"),
            refused=fence(refused, "rewrite"),
            findings=corrections(verdicts, quoting=True),
        )

    def messages(
        self,
        task: RephrasingTask,
        chunks: Sequence[Chunk],
        index: int,
        before: str,
        written: str,
        refusals: Sequence[Verdict] = (),
    ) -> list[dict[str, str]]:
        """The messages of one call. The system part is the same for all chunks in one style and perspective, so that
        endpoints can keep its prefix; everything that comes from documents is fenced."""
        return prompts.load(self.template).render(
            **wording(task.style, task.perspective, self.brief),
            title=fence(task.document.title, "title") if task.document.title else "",
            position=f"{index + 1} / {len(chunks)}",
            source_before=fence(tail(before, self.before_tokens), "source-before") if before.strip() else "",
            rewritten_tail=fence(tail(written, self.tail_tokens), "rewritten-so-far") if written else "",
            chunk=fence(chunks[index].body, "passage"),
            findings=corrections(refusals),
        )

    @property
    def template(self) -> str:
        return BRIEF_TEMPLATE if self.brief else TEMPLATE

    def wording(self, task: RephrasingTask) -> str:
        """Our own words around the documents in one style and perspective."""
        return _wording(self.template, task.style, task.perspective, self.brief)

    async def _without_judge(
        self, task: RephrasingTask, source: str, rewrite: str, context: str, finish_reason: str = "stop"
    ) -> list[Verdict]:
        """What the checks that ask no model say."""
        checks, language = self.checks, task.document.language
        verdicts = checks.form(
            source,
            rewrite,
            finish_reason=finish_reason,
            language=language,
            context=context,
            prompt_text=self.wording(task),
        )
        if checks.facts is not None:
            verdicts.append(checks.facts(source, rewrite, context, language))
        similarity = checks.similarity
        if similarity is not None and first_refusal(verdicts) is None and similarity.reads(source):
            verdicts.append(await similarity(source, rewrite))
        return verdicts

    def _windows(self, chunks: Sequence[Chunk]) -> Iterator[tuple[int, int]]:
        """Consecutive chunks of about `judged_tokens` that the judge reads at a time, seams between them included."""
        start, size = 0, 0
        for index, part in enumerate(chunks):
            if index > start and size + part.tokens > self.judged_tokens:
                yield start, index
                start, size = index, 0
            size += part.tokens
        yield start, len(chunks)

    def _columns(self, task: RephrasingTask, progress: _Written, text: str, chunks: int) -> dict[str, Any]:
        document = task.document
        used = [self.template, task.style, task.perspective]
        if self.checks.judge is not None:
            used += self.checks.judge.prompt_names
        if not self.brief:
            used.append(REPAIR_TEMPLATE)
        return {
            "id": task.id,
            "text": text,
            "title": document.title,
            "language": document.language,
            "rephrasing": task.rephrasing,
            "style": task.style.removeprefix("styles/"),
            "perspective": task.perspective.removeprefix("perspectives/"),
            "judge_model": self.judge_model if self.checks.judge is not None else "",
            **progress.columns(document, self.model, used, self.seed, chunks),
        }

    def _rejected(
        self, task: RephrasingTask, progress: _Written, refusal: Refusal, chunks: Sequence[Chunk]
    ) -> Rejected:
        text = progress.text(chunks)
        if len(progress.parts) < len(chunks):
            text = join(text, refusal.text, new_paragraph=True)
        row = RefusedRephrasing(**self._columns(task, progress, text, len(chunks)), **refusal.columns)
        return Rejected(row, row.reason)


def _room(part: Chunk) -> int:
    """Tokens that a rewrite of a chunk may take."""
    return part.tokens * 2 + 192


def wording(style: str, perspective: str, brief: bool) -> dict[str, str]:
    """What a template says of style and perspective."""
    loaded = {"style": prompts.load(style), "perspective": prompts.load(perspective)}
    return {name: str(prompt.meta["brief"]) if brief else prompt.text for name, prompt in loaded.items()}


@lru_cache(maxsize=1024)
def _wording(template: str, style: str, perspective: str, brief: bool) -> str:
    documents = dict.fromkeys(("title", "position", "source_before", "rewritten_tail", "chunk", "findings"), "")
    messages = prompts.load(template).render(**wording(style, perspective, brief), **documents)
    return "\n\n".join(message["content"] for message in messages)

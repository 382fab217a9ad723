"""Chunk-wise autoregressive rephrasing of one document, verified and repaired chunk by chunk.

Kimi K2 report, section 2.2 and figure 4: each chunk is rewritten with what was already rewritten in view, and the
rewritten chunks are put together as one passage. Everything here is a plain coroutine over `ask`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tokenmill.inference.call import Ask
from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.facts.coverage import Coverage
from tokenmill.judges.facts.tables import ordinary
from tokenmill.judges.form.checks import FormChecks
from tokenmill.judges.form.language import detect
from tokenmill.judges.model.faithfulness import Faithfulness
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
STAGE = "rewrite"
CHUNKS_BEFORE = 3
"""Chunks of the source before the one to be rewritten: the writer sees their end, and what stands in them is known to the
checks."""
CHARACTERS_WRITTEN = 2000
"""Of the end of the rewrite so far, which is known to the checks, too."""


@dataclass(frozen=True)
class Checks:
    """The fidelity checks, cheapest first; None switches one off."""

    form: FormChecks = field(default_factory=FormChecks)
    coverage: Coverage | None = field(default_factory=Coverage)
    similarity: Similarity | None = field(default_factory=Similarity)
    judge: Faithfulness | None = field(default_factory=Faithfulness)


@dataclass
class _Written(Progress):
    text: str = ""
    """The rewrite so far."""


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
    judged_tokens: int = 1000
    """Source tokens that the judge compares at a time when it reads the whole passage again."""
    temperature: float = 0.7
    top_p: float = 0.95
    checks: Checks = field(default_factory=Checks)

    row_type = Rephrasing
    rejected_type = RefusedRephrasing

    async def __call__(self, task: RephrasingTask, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when a model cannot be brought to answer."""
        document, progress = task.document, _Written(ask)
        chunks = chunk(document.text, self.chunk_tokens, document.language)
        pairs: list[tuple[Chunk, str]] = []
        for index, part in enumerate(chunks):
            rewrite, refusal = await self._rewrite(task, chunks, index, progress)
            if refusal is not None:
                return self._rejected(task, progress, refusal, len(chunks))
            new_paragraph = index > 0 and chunks[index - 1].ends_paragraph
            progress.text = join(progress.text, rewrite, new_paragraph=new_paragraph)
            pairs.append((part, rewrite))
        if len(chunks) > 1:
            refusal = await self._judge_whole(task, pairs, progress)
            if refusal is not None:
                return self._rejected(task, progress, refusal, len(chunks))
        return Accepted(Rephrasing(**self._columns(task, progress, progress.text, len(chunks))))

    def warm(self) -> None:
        """Load what the checks need, so that no rollout waits for it in the middle of others."""
        self.preload()

    def preload(self) -> None:
        """Load plain data, which worker processes may share when they are forked."""
        detect("Tento text je napsán česky, aby se načetl model.")
        ordinary("unusualness")

    def failed(self, task: RephrasingTask, error: str, message: str) -> FailedRow:
        return failed_row(task.id, "rollout", error, message, task.document.text, task.document)

    async def _rewrite(
        self, task: RephrasingTask, chunks: Sequence[Chunk], index: int, progress: _Written
    ) -> tuple[str, Refusal | None]:
        """The chunk rewritten so that every check passes, or what the last attempt was refused for."""
        part, title = chunks[index], task.document.title
        before = "".join(c.text for c in chunks[max(0, index - CHUNKS_BEFORE) : index])
        context = "\n".join((title, before, progress.text[-CHARACTERS_WRITTEN:]))

        async def verify(rewrite: str, finish_reason: str) -> list[Verdict]:
            """Cheapest checks first; a refusal spares the dearer ones."""
            verdicts = await self._without_judge(task, part.body, rewrite, context, finish_reason)
            if self.checks.judge is not None and first_refusal(verdicts) is None:
                verdicts.append(await self.checks.judge(part.body, rewrite, context, progress, title=title))
            return verdicts

        return await write_text(
            self,
            lambda verdicts: self.messages(task, chunks, index, before, progress.text, verdicts),
            verify,
            progress,
            stage=STAGE,
            chunk=index,
            source=part.body,
            max_tokens=part.tokens * 2 + 192,
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
        if checks.coverage is not None:
            verdicts.append(checks.coverage(source, rewrite, context, language))
        if checks.similarity is not None and first_refusal(verdicts) is None:
            verdicts.append(await checks.similarity(source, rewrite))
        return verdicts

    async def _judge_whole(
        self, task: RephrasingTask, pairs: Sequence[tuple[Chunk, str]], progress: _Written
    ) -> Refusal | None:
        """Check the stitched passage against the whole document; the judge reads it in windows of several chunks."""
        text, title, written, judge = task.document.text, task.document.title, progress.text, self.checks.judge
        verdicts = await self._without_judge(task, text, written, title)
        for source, rewrite, context in self._windows(pairs) if judge is not None else ():
            if first_refusal(verdicts) is not None:
                break
            verdicts.append(await judge(source, rewrite, f"{title}\n{context}", progress, title=title))
        progress.add(verdicts, WHOLE, 0)
        refused = first_refusal(verdicts)
        return refused and Refusal(STAGE, WHOLE, text, written, refused)

    def _windows(self, pairs: Sequence[tuple[Chunk, str]]) -> Iterator[tuple[str, str, str]]:
        """(source, rewrite, source before) of consecutive chunks of about `judged_tokens`, each window beginning with the
        last chunk of the one before, so that every seam is read."""
        start = 0
        while start < len(pairs) - 1:
            end, size = start, 0
            while end < len(pairs) and (end < start + 2 or size + pairs[end][0].tokens <= self.judged_tokens):
                size += pairs[end][0].tokens
                end += 1
            source = "".join(part.text for part, _ in pairs[start:end])
            rewrite = ""
            for number in range(start, end):
                new_paragraph = number > start and pairs[number - 1][0].ends_paragraph
                rewrite = join(rewrite, pairs[number][1], new_paragraph=new_paragraph)
            yield source.strip(), rewrite, pairs[start - 1][0].text if start else ""
            start = end - 1

    def _columns(self, task: RephrasingTask, progress: _Written, text: str, chunks: int) -> dict[str, Any]:
        document = task.document
        used = [self.template, task.style, task.perspective]
        if self.checks.judge is not None:
            used += self.checks.judge.prompt_names
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

    def _rejected(self, task: RephrasingTask, progress: _Written, refusal: Refusal, chunks: int) -> Rejected:
        text = progress.text
        if refusal.chunk != WHOLE:
            text = join(text, refusal.text, new_paragraph=True)
        row = RefusedRephrasing(**self._columns(task, progress, text, chunks), **refusal.columns)
        return Rejected(row, row.reason)


def wording(style: str, perspective: str, brief: bool) -> dict[str, str]:
    """What a template says of style and perspective."""
    loaded = {"style": prompts.load(style), "perspective": prompts.load(perspective)}
    return {name: str(prompt.meta["brief"]) if brief else prompt.text for name, prompt in loaded.items()}


@lru_cache(maxsize=1024)
def _wording(template: str, style: str, perspective: str, brief: bool) -> str:
    documents = dict.fromkeys(("title", "position", "source_before", "rewritten_tail", "chunk", "findings"), "")
    messages = prompts.load(template).render(**wording(style, perspective, brief), **documents)
    return "\n\n".join(message["content"] for message in messages)

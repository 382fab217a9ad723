"""Writing one chunk of a document anew, and mending what was written: the calls to the writer, and the checks without a model.

Everything here is a plain coroutine over `ask`; the document as a whole is `rephrase.Rephrase`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tokenmill.inference.call import Message
from tokenmill.judges.embedding.similarity import CHECK as SIMILARITY
from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.entailment.check import CHECK as ENTAILMENT
from tokenmill.judges.entailment.check import Entailment
from tokenmill.judges.facts.check import CHECK as FACTS
from tokenmill.judges.facts.check import FactCheck
from tokenmill.judges.form.checks import FormChecks
from tokenmill.judges.model.faithfulness import BROKEN_SEAM, OTHER_FORM, Faithfulness
from tokenmill.judges.model.faithfulness import CHECK as FAITHFULNESS
from tokenmill.judges.own import OwnCheck
from tokenmill.judges.strategies import cleaning, pairs, tables, verbatim, word_problems
from tokenmill.judges.structure.check import CHECK as STRUCTURE
from tokenmill.judges.structure.check import Structure
from tokenmill.pipelines.knowledge.contracts import SOURCE, before_it, check_of, keeps_all
from tokenmill.pipelines.rollouts.candidates import ONE, Candidates
from tokenmill.pipelines.rollouts.chunking import Chunk, count_tokens, join, tail
from tokenmill.pipelines.rollouts.progress import Progress, Refusal
from tokenmill.pipelines.rollouts.repair import corrections, write_text
from tokenmill.pipelines.runs.benchmarks import Benchmarks
from tokenmill.prompts.fence import fence
from tokenmill.prompts.own import OwnPrompt
from tokenmill.schemas.knowledge import RephrasingTask
from tokenmill.schemas.verdicts import Finding, Verdict, first_refusal

from tokenmill import prompts

TEMPLATE = "knowledge/rephrase"
BRIEF_TEMPLATE = "knowledge/rephrase_brief"
"""For models of some hundred million parameters, which lose their way in long instructions."""
STRATEGY_TEMPLATE = "knowledge/strategy"
"""For styles that keep some of their source: what is kept, and in whose words, the style says."""
EXPAND_TEMPLATE = "knowledge/expand"
"""For styles that come after another one, whose text is in view."""
REPAIR_TEMPLATE = "knowledge/repair"
STAGE = "rewrite"
CHUNKS_BEFORE = 3
"""Chunks of the source before the one to be rewritten: the writer sees their end, and what stands in them is known to the
checks. What was written of them is not: an invention must not license the next."""
FITTING = (cleaning.CHECK, pairs.CHECK, tables.CHECK, verbatim.CHECK, word_problems.CHECK)
IN_PLACE = frozenset((FACTS, STRUCTURE, ENTAILMENT, FAITHFULNESS, *FITTING))
"""Checks whose findings are mended where they stand; what other checks refuse is written anew."""


@dataclass(frozen=True)
class Checks:
    """The fidelity checks, cheapest first; None switches one off."""

    form: FormChecks = field(default_factory=FormChecks)
    structure: Structure | None = field(default_factory=Structure)
    """For styles that keep the structure of their source."""
    own: tuple[OwnCheck, ...] = ()
    """The user's."""
    facts: FactCheck | None = field(default_factory=FactCheck)
    similarity: Similarity | None = field(default_factory=Similarity)
    entailment: Entailment | None = None
    judge: Faithfulness | None = field(default_factory=Faithfulness)


@dataclass
class Written(Progress):
    """What was written of a document so far."""

    parts: list[str] = field(default_factory=list)
    """The rewrites of the chunks so far."""
    tries: Counter[int] = field(default_factory=Counter)
    """How often each chunk was asked for: the number of its next attempt."""
    mended: Counter[int] = field(default_factory=Counter)
    """How often it was asked for since all of them were written."""
    tolerated: dict[int, list[Finding]] = field(default_factory=dict)
    """Minor faults that the judge found in each chunk and let pass."""
    lead: str = ""
    """What stands before them, and is done: the document in another style, or its source."""
    overview: tuple[str, ...] = ()
    """That other style's text of each chunk, which the writer has in view."""

    def go_on(self, lead: str, overview: tuple[str, ...] = ()) -> None:
        """Begin the text that comes after `lead`."""
        self.lead, self.overview = lead, overview
        self.parts, self.tries, self.mended = [], Counter(), Counter()

    def whole(self, chunks: Sequence[Chunk]) -> str:
        """All that was written, with what stands before it."""
        return join(self.lead, self.text(chunks), new_paragraph=True) if self.lead else self.text(chunks)

    def text(self, chunks: Sequence[Chunk], start: int = 0, end: int | None = None) -> str:
        """The rewrites of chunks `start` to `end`, stitched."""
        stitched, new_paragraph = "", False
        for index, part in list(enumerate(self.parts))[start:end]:
            if part:
                stitched = join(stitched, part, new_paragraph=new_paragraph)
                new_paragraph = False
            new_paragraph |= chunks[index].ends_paragraph
        return stitched


@dataclass(frozen=True)
class Writing:
    """How chunks are written, checked without a model, and mended."""

    model: str
    judge_model: str = ""
    brief: bool = False
    """Whether to use the short prompt, for very small models."""
    seed: int = 0
    chunk_tokens: int = 256
    """Target size of a chunk."""
    repairs: int = 2
    """Further attempts at a chunk that a check refused; as many again at one that is found wrong when all are written."""
    tail_tokens: int = 160
    """How much of what was already rewritten the next call sees."""
    overview_tokens: int = 1000
    """How much of a text in another style it sees, where the style comes after one."""
    before_tokens: int = 96
    """How much of the source before the chunk it sees."""
    judged_tokens: int = 800
    """Source tokens that the judge compares at a time."""
    temperature: float = 0.7
    top_p: float = 0.95
    checks: Checks = field(default_factory=Checks)
    candidates: Candidates = ONE
    """Of each chunk's first writing."""
    templates: tuple[tuple[str, OwnPrompt], ...] = ()
    """The user's prompts, by the names of the shipped ones in whose place they stand, or by their own."""
    benchmarks: Benchmarks | None = None
    """A document that holds an item of these is not written anew."""

    async def write(
        self, task: RephrasingTask, chunks: Sequence[Chunk], index: int, progress: Written
    ) -> tuple[str, Refusal | None]:
        """The chunk written so that every check without a judge passes, or what the last attempt was refused for."""
        part, asked = chunks[index], progress.attempts
        context = known(task, chunks, index)

        async def verify(rewrite: str, finish_reason: str) -> list[Verdict]:
            return await self.without_judge(task, part.body, rewrite, context, finish_reason)

        def messages(verdicts: Sequence[Verdict], refused: str) -> list[Message]:
            return self.again(task, chunks, index, refused, verdicts, progress)

        written, refusal = await write_text(
            self,
            messages,
            verify,
            progress,
            stage=STAGE,
            chunk=index,
            source=part.body,
            max_tokens=_room(part),
            candidates=self.candidates,
        )
        progress.tries[index] = progress.attempts - asked
        return written, refusal

    async def mend(
        self, task: RephrasingTask, chunks: Sequence[Chunk], index: int, refusal: Refusal, progress: Written
    ) -> Refusal | None:
        """Write a chunk again with what it was refused for in view, and with the minor faults that were let pass; a refusal
        where its attempts are used up.

        Args:
            refusal: what this chunk, alone or with others, was refused for; its findings are those about this chunk.
        """
        part, text = chunks[index], progress.parts[index]
        minor = [f for f in progress.tolerated.pop(index, []) if f not in refusal.verdict.findings]
        asked = Verdict(refusal.verdict.check, False, 0.0, refusal.verdict.reason, (*refusal.verdict.findings, *minor))
        verdicts = [asked]
        while progress.mended[index] < self.repairs:
            attempt = progress.tries[index]
            progress.tries[index] += 1
            progress.mended[index] += 1
            progress.attempts += 1
            answer = await progress(
                self.again(task, chunks, index, text, verdicts, progress),
                max_tokens=_room(part),
                attempt=attempt,
                seed=self.seed + attempt,
                temperature=self.temperature,
                top_p=self.top_p,
            )
            text = answer.text.strip()
            found = await self.without_judge(task, part.body, text, known(task, chunks, index), answer.finish_reason)
            progress.add(found, index, attempt)
            if (failed := first_refusal(found)) is None:
                progress.parts[index] = text
                return None
            refusal = Refusal(STAGE, index, part.body, text, failed)
            verdicts = [asked, *found]
        return refusal

    async def without_judge(
        self,
        task: RephrasingTask,
        source: str,
        rewrite: str,
        context: str,
        finish_reason: str = "stop",
        *,
        entailed: bool = True,
    ) -> list[Verdict]:
        """What the checks that ask no judge say.

        Args:
            entailed: whether to ask the entailment model: of a whole passage it has read each chunk.
        """
        checks, document = self.checks, task.document
        form = checks.form if keeps_all(task.style) else checks.form.for_excerpts
        fitting = check_of(task.style)
        spared = fitting.spares if fitting is not None else frozenset[str]()
        stated = fitting.stated(rewrite) if fitting is not None else rewrite
        verdicts = [
            verdict
            for verdict in form(
                source,
                rewrite,
                finish_reason=finish_reason,
                language=document.language,
                context=context,
                prompt_text=self.wording(task),
            )
            if verdict.check not in spared
        ]
        keeps = not self.brief and prompts.load(task.style).meta.get(
            "keeps_structure"
        )  # the short prompt asks for none
        if checks.structure is not None and keeps:
            verdicts.append(checks.structure(source, rewrite, document.title))
        if checks.facts is not None:
            verdicts.append(checks.facts(source, stated, context, document.language))
        if fitting is not None:
            verdicts.append(fitting(source, rewrite, context, document.language))
        for own in checks.own:
            verdicts += own(source, rewrite, title=document.title, language=document.language)
        similarity = checks.similarity
        if (
            similarity is not None
            and SIMILARITY not in spared
            and first_refusal(verdicts) is None
            and similarity.reads(source)
        ):
            verdicts.append(await similarity(source, rewrite))
        # A judge is asked about what this check doubts; only where there is none does it refuse by itself.
        if checks.entailment is not None and checks.judge is None and entailed and first_refusal(verdicts) is None:
            verdicts.append((await checks.entailment(source, rewrite, context)).verdict)
        return verdicts

    def again(
        self,
        task: RephrasingTask,
        chunks: Sequence[Chunk],
        index: int,
        refused: str,
        verdicts: Sequence[Verdict],
        progress: Written,
    ) -> list[Message]:
        """The messages of an attempt after these verdicts: to mend the refused text where that can be done, else to write the
        chunk (anew)."""
        wrong = [v for v in verdicts if not v.passed]
        whole = any(f.kind == OTHER_FORM for v in wrong for f in v.findings)
        if wrong and not self.brief and not whole and all(v.check in IN_PLACE for v in wrong):
            return self._corrected(task, chunks, index, refused, wrong, progress.text(chunks, 0, index))
        written = progress.text(chunks, 0, index)
        return self.messages(task, chunks, index, before(chunks, index), written, wrong, progress.overview)

    def _corrected(
        self,
        task: RephrasingTask,
        chunks: Sequence[Chunk],
        index: int,
        refused: str,
        verdicts: Sequence[Verdict],
        written: str,
    ) -> list[Message]:
        """The messages that ask to mend a rewrite: its own text, and what is wrong with it in the words of both texts."""
        source = before(chunks, index)
        seam = any(finding.kind == BROKEN_SEAM for verdict in verdicts for finding in verdict.findings)
        return prompts.load(self.repair_template).render(
            **wording(task.style, task.perspective, self.brief),
            title=fence(task.document.title, "title") if task.document.title else "",
            source_before=fence(tail(source, self.before_tokens), "source-before") if source.strip() else "",
            rewritten_tail=fence(tail(written, self.tail_tokens), "rewritten-so-far") if written and seam else "",
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
        overview: Sequence[str] = (),
    ) -> list[Message]:
        """The messages of one call. The system part is the same for all chunks in one style and perspective, so that
        endpoints can keep its prefix; everything that comes from documents is fenced."""
        return prompts.load(self.template(task.style)).render(
            **wording(task.style, task.perspective, self.brief),
            **self._overview(task.style, index, overview),
            title=fence(task.document.title, "title") if task.document.title else "",
            position=f"{index + 1} / {len(chunks)}",
            source_before=fence(tail(before, self.before_tokens), "source-before") if before.strip() else "",
            rewritten_tail=fence(tail(written, self.tail_tokens), "rewritten-so-far") if written else "",
            chunk=fence(chunks[index].body, "passage"),
            findings=corrections(refusals),
        )

    def _overview(self, style: str, index: int, overview: Sequence[str]) -> dict[str, str]:
        """The text of the style before, what of it there is room for around chunk `index`; nothing where the template has no
        place for it."""
        if self._shipped_template(style) != EXPAND_TEMPLATE:
            return {}
        start, end = index, min(index + 1, len(overview))
        while end - start < len(overview):
            wider = max(0, start - 1), min(len(overview), end + 1)
            if count_tokens("\n\n".join(overview[slice(*wider)])) > self.overview_tokens:
                break
            start, end = wider
        shown = "\n\n".join(filter(None, overview[start:end]))
        return {"overview": fence(shown, "overview") if shown else ""}

    def stages(self, task: RephrasingTask) -> tuple[RephrasingTask, ...]:
        """What is written for a task, one after the other: before a style that comes after another one, that one."""
        first = before_it(task.style)
        return (replace(task, style=first), task) if first not in ("", SOURCE) else (task,)

    def suits(self, task: RephrasingTask, part: Chunk) -> bool:
        """Whether a chunk has what the style's form needs; of others nothing is written."""
        fitting = check_of(task.style)
        return fitting is None or fitting.fits(part.body, task.document.language)

    def _shipped_template(self, style: str) -> str:
        if self.brief:
            return BRIEF_TEMPLATE
        if before_it(style) not in ("", SOURCE):
            return EXPAND_TEMPLATE
        return TEMPLATE if keeps_all(style) else STRATEGY_TEMPLATE

    def template(self, style: str) -> str:
        """The template, shipped or the user's, by which a style is written."""
        return self._named(self._shipped_template(style))

    @property
    def repair_template(self) -> str:
        return self._named(REPAIR_TEMPLATE)

    def _named(self, template: str) -> str:
        return next((own.name for name, own in self.templates if name == template), template)

    def wording(self, task: RephrasingTask) -> str:
        """Our own words around the documents in one style and perspective."""
        return _wording(self.template(task.style), task.style, task.perspective, self.brief)


def before(chunks: Sequence[Chunk], index: int) -> str:
    """The source just before a chunk."""
    return "".join(part.text for part in chunks[max(0, index - CHUNKS_BEFORE) : index])


def known(task: RephrasingTask, chunks: Sequence[Chunk], index: int) -> str:
    """What a rewrite of a chunk may say besides: the title, and the source before it."""
    return "\n".join((task.document.title, before(chunks, index)))


def _room(part: Chunk) -> int:
    """Tokens that a rewrite of a chunk may take."""
    return part.tokens * 2 + 192


def wording(style: str, perspective: str, brief: bool) -> dict[str, str]:
    """What a template says of style and perspective."""
    loaded = {"style": prompts.load(style), "perspective": prompts.load(perspective)}
    return {name: str(prompt.meta["brief"]) if brief else prompt.text for name, prompt in loaded.items()}


@lru_cache(maxsize=1024)
def _wording(template: str, style: str, perspective: str, brief: bool) -> str:
    ours, loaded = wording(style, perspective, brief), prompts.load(template)
    messages = loaded.render(**ours, **{name: "" for name in loaded.meta["placeholders"] if name not in ours})
    return "\n\n".join(message["content"] for message in messages)

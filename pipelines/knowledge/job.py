"""Rewrite documents in diverse styles and perspectives, each rewrite verified against its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.entailment.check import Entailment
from tokenmill.judges.model.faithfulness import SEAM_PROMPT, Faithfulness
from tokenmill.judges.own import described
from tokenmill.pipelines.knowledge.contracts import SOURCE, before_it
from tokenmill.pipelines.knowledge.dag import Knowledge, build
from tokenmill.pipelines.knowledge.repertoire import repertoire, templates
from tokenmill.pipelines.knowledge.rephrase import Rephrase
from tokenmill.pipelines.knowledge.style_pairs import draw_pairs, pairs
from tokenmill.pipelines.knowledge.writing import Checks
from tokenmill.pipelines.rollouts.candidates import Candidates
from tokenmill.pipelines.rollouts.chunking import Chunk, chunk, count_tokens, tail
from tokenmill.pipelines.runs.benchmarks import benchmarks, decontaminate_flag
from tokenmill.pipelines.runs.embedding import embedder
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import TextOptions, is_embedded, of_checking, of_writing, roles
from tokenmill.pipelines.runs.own import own_candidates, own_candidates_always, own_check, own_checks
from tokenmill.pipelines.transforms.documents import DocumentParser
from tokenmill.schemas.flags import UsageError, checked, not_negative, positive, shaping
from tokenmill.schemas.knowledge import RephrasingTask

from tokenmill import prompts

SEAM_TOKENS = 60
"""That a judge reads of a seam, about."""
USUAL = 2
"""The report rephrases its corpora at most twice."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeOptions(TextOptions):
    """What `knowledge` may be given."""

    known_columns = ("text", "id", "title", "language", "license", "source", "url")

    rephrasings: int = of_writing(
        USUAL,
        metavar="K",
        parse=checked(lambda count: draw_pairs(count, 0, "")),
        shapes=True,
        help="rewrites per document, each in another style",
    )
    chunk_tokens: int = of_writing(256, metavar="N", parse=positive, shapes=True, help="target size of a chunk")
    tolerated_minor: int = of_checking(
        1,
        metavar="N",
        parse=not_negative,
        shapes=True,
        help="minor faults that a text may have and still pass the judge",
    )
    entailment_model: str | None = of_checking(
        None,
        metavar="NAME",
        help="check each sentence with this NLI cross-encoder of sentence-transformers, on this machine (default: none)",
    )
    embedding_model: str = of_checking(
        "minilm", metavar="NAME", help="a sentence-transformers model (default: the packaged MiniLM)"
    )
    no_similarity: bool = of_checking(False, help="leave out the embedding check")
    styles: tuple[str, ...] = of_writing(
        (),
        metavar="NAME|DIR",
        help="draw from these styles: names, files or folders of your own (default: all shipped)",
    )
    perspectives: tuple[str, ...] = of_writing(
        (), metavar="NAME|DIR", help="draw from these perspectives: names, files or folders of your own"
    )
    prompt: tuple[str, ...] = of_writing(
        (), metavar="NAME=FILE", help="a template of yours in the place of a shipped one: knowledge/rephrase=my.md"
    )
    check: tuple[str, ...] = own_check()
    decontaminate: tuple[str, ...] = decontaminate_flag()
    candidates: int = own_candidates()
    candidates_always: bool = own_candidates_always()


def job(options: KnowledgeOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: there is no such embedding or entailment model.
    """
    judge = None if options.no_judge else Faithfulness(votes=options.votes, tolerated_minor=options.tolerated_minor)
    chosen = roles(options, "writer", *(["judge"] if judge else []))
    own = own_checks(options.check)
    kept_out = benchmarks(options.decontaminate)
    among = repertoire(options.styles, options.perspectives, options.rephrasings)
    parser = DocumentParser(**options.named_columns())
    step = Rephrase(
        model=parse_spec(options.llm).model,
        judge_model="" if judge is None else parse_spec(chosen["judge"].spec).model,
        brief=is_embedded(options.llm),
        seed=options.seed,
        chunk_tokens=options.chunk_tokens,
        repairs=options.repairs,
        candidates=Candidates(options.candidates, options.candidates_always),
        benchmarks=kept_out,
        # A worker that writes may be another than that which drew the styles: it must know them, too.
        templates=(*templates(options.prompt), *((one.name, one) for one in (among.own if among else ()))),
        checks=Checks(
            similarity=None if options.no_similarity else Similarity(embedder(options)),
            entailment=entailment(options),
            own=own,
            judge=judge,
        ),
    )
    config = Knowledge(step, options.rephrasings, among)
    notes = []
    if options.rephrasings > USUAL:
        notes.append(
            f"--rephrasings {options.rephrasings}: the Kimi K2 report rephrases a corpus at most {USUAL} times; "
            "more is for experiments"
        )
    written = {name: before_it(name) for name, _ in pairs(among)}
    written |= {name: "" for name in written.values() if name not in ("", SOURCE)}
    used = list(dict.fromkeys(map(step.template, sorted(written))))
    used += [step.repair_template, *sorted({*written, *(perspective for _, perspective in pairs(among))})]
    if judge is not None:
        used += judge.prompt_names
    return Job(
        name="knowledge",
        title="Documents rephrased in diverse styles and perspectives, verified for fidelity",
        step=step,
        parser=parser,
        roles=chosen,
        tasks=config.tasks,
        tasks_per_row=options.rephrasings,
        dag=partial(build, config),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, step),
        prompts=tuple(used),
        sampling={
            "writer": {"temperature": step.temperature, "top_p": step.top_p},
            **({"judge": judge.sampling} if judge is not None else {}),
        },
        config={
            **shaping(options),
            "columns": asdict(parser),
            "embedding_model": None if options.no_similarity else options.embedding_model,
            "entailment_model": options.entailment_model,
            **({"checks": described(own)} if own else {}),
            "judge_votes": 0 if judge is None else options.votes,
            **{name: getattr(step, name) for name in ("tail_tokens", "before_tokens", "judged_tokens")},
        },
        notes=tuple(notes),
        benchmarks=kept_out,
    )


def entailment(options: KnowledgeOptions) -> Entailment | None:
    """The check by the NLI model that the options name, looked for before a run costs anything; an estimate goes without it.

    Raises:
        UsageError: no such model, or none for natural-language inference.
    """
    if options.entailment_model is None:
        return None
    check = Entailment(options.entailment_model)
    if not options.estimate:
        try:
            check.find()
        except OSError as error:
            raise UsageError(f"--entailment-model {options.entailment_model}: {error}") from None
    return check


COMMAND = Command("knowledge", KnowledgeOptions, one(job))


def estimate(step: Rephrase, task: RephrasingTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens that one task takes, when nothing is refused and when every chunk uses all its tries."""
    if step.benchmarks is not None and step.benchmarks.verdict(task.document.text)[1] is not None:
        none = {role: Plan() for role in (["writer"] if step.checks.judge is None else ["writer", "judge"])}
        return none, dict(none)
    chunks = chunk(task.document.text, step.chunk_tokens, task.document.language)
    sums = [_stage(step, stage, chunks) for stage in step.stages(task)]
    expected, most = sums[0]
    for more, more_at_most in sums[1:]:
        expected = {role: plan.then(more[role]) for role, plan in expected.items()}
        most = {role: plan.then(more_at_most[role]) for role, plan in most.items()}
    return expected, most


def _stage(step: Rephrase, task: RephrasingTask, chunks: Sequence[Chunk]) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """The same of the document in one style."""
    prompt = completion = 0
    suiting = [(index, part) for index, part in enumerate(chunks) if step.suits(task, part)]
    overview = [tail(part.text, part.tokens // 4) for part in chunks]
    for index, part in suiting:
        before = chunks[index - 1].text if index else ""
        messages = step.messages(task, chunks, index, before, before, overview=overview)
        prompt += sum(count_tokens(m["content"]) + 4 for m in messages)
        completion += round(part.tokens * 1.1)
    if not suiting:
        none = {role: Plan() for role in (["writer"] if step.checks.judge is None else ["writer", "judge"])}
        return none, dict(none)
    chunks = [part for _, part in suiting]
    again = step.candidates.always and step.candidates.number > 1  # the others are drawn at once, after the first
    writer = Plan(len(chunks), prompt, completion, waves=len(chunks) * (1 + again))
    tries = step.repairs + 1
    drawn = step.candidates
    expected = {"writer": writer.scaled(drawn.calls(refused=False))}
    most = {"writer": writer.scaled(tries - 1 + drawn.calls(refused=True))}
    if step.checks.judge is not None:
        fixed = sum(count_tokens(text) for _, text in prompts.load(step.checks.judge.prompt).parts)
        if len(chunks) > 1:
            fixed += count_tokens(prompts.load(SEAM_PROMPT).text) + step.before_tokens
        source = sum(part.tokens for part in chunks)
        read = round(source * 2.2) + SEAM_TOKENS * (len(chunks) - 1)
        votes = step.checks.judge.votes
        calls = -(-source // step.judged_tokens) * votes
        judge = Plan(calls, fixed * calls + read * votes, 100 * calls, waves=calls // votes)
        expected["judge"] = judge
        most["judge"] = judge.scaled(tries)
        most["writer"] += writer.scaled(step.repairs)
    return expected, most

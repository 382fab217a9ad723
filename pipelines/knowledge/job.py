"""The `knowledge` subcommand: its flags, and the job they describe."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.facts.coverage import Coverage
from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.pipelines.knowledge.dag import Knowledge, build
from tokenmill.pipelines.knowledge.rephrase import Checks, Rephrase
from tokenmill.pipelines.knowledge.style_pairs import draw_pairs, pairs
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.embedding import embedder
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.transforms.documents import DocumentParser

from tokenmill import prompts

USUAL = 2
"""The report rephrases its corpora at most twice."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser)
    shape = parser.add_argument_group("how documents are rewritten")
    shape.add_argument(
        "--rephrasings",
        type=options.positive,
        default=USUAL,
        metavar="K",
        help="rewrites per document, each in another style (default 2)",
    )
    shape.add_argument(
        "--chunk-tokens", type=options.positive, default=256, metavar="N", help="target size of a chunk (default 256)"
    )
    shape.add_argument(
        "--repairs", type=int, default=2, metavar="N", help="further tries for a refused chunk (default 2)"
    )
    checks = parser.add_argument_group("how rewrites are checked")
    checks.add_argument(
        "--embedding-model",
        default="minilm",
        metavar="NAME",
        help="a sentence-transformers model (default: the packaged MiniLM)",
    )
    checks.add_argument("--no-similarity", action="store_true", help="leave out the embedding check")
    checks.add_argument("--no-judge", action="store_true", help="leave out the judge model")
    checks.add_argument(
        "--votes", type=options.positive, default=1, metavar="N", help="judge's votes per text, odd (default 1)"
    )


def job(args: argparse.Namespace) -> Job:
    """The configured job.

    Raises:
        UsageError: a flag's value makes no sense.
    """
    if args.repairs < 0:
        raise UsageError("--repairs must be 0 or more")
    try:
        draw_pairs(args.rephrasings, args.seed, "")
    except ValueError as error:
        raise UsageError(f"--rephrasings {args.rephrasings}: {error}") from None
    roles = options.roles(args, judge=not args.no_judge)
    try:
        judge = None if args.no_judge else Faithfulness(votes=args.votes)
    except ValueError as error:
        raise UsageError(f"--votes {args.votes}: {error}") from None
    parser = DocumentParser(**options.columns(args.columns, ("text", "id", "title", "language", "license")))
    step = Rephrase(
        model=parse_spec(args.llm).model,
        judge_model="" if judge is None else parse_spec(roles["judge"].spec).model,
        brief=parse_spec(args.llm).kind == "embedded",
        seed=args.seed,
        chunk_tokens=args.chunk_tokens,
        repairs=args.repairs,
        checks=Checks(
            coverage=Coverage(),
            similarity=None if args.no_similarity else Similarity(embedder(args)),
            judge=judge,
        ),
    )
    config = Knowledge(step, args.rephrasings, parser, args.max_document_bytes)
    notes = []
    if args.rephrasings > USUAL:
        notes.append(
            f"--rephrasings {args.rephrasings}: the Kimi K2 report rephrases a corpus at most {USUAL} times; "
            "more is for experiments"
        )
    used = [step.template, *sorted({name for pair in pairs() for name in pair})]
    if judge is not None:
        used += judge.prompt_names
    return Job(
        name="knowledge",
        title="Documents rephrased in diverse styles and perspectives, verified for fidelity",
        step=step,
        parser=parser,
        roles=roles,
        tasks=config.tasks,
        tasks_per_row=args.rephrasings,
        build=partial(build, config),
        estimate=partial(estimate, step),
        prompts=tuple(used),
        config={
            "rephrasings": args.rephrasings,
            "columns": asdict(parser),
            "embedding_model": None if args.no_similarity else args.embedding_model,
            "judge_votes": 0 if judge is None else args.votes,
            **{
                name: getattr(step, name)
                for name in (
                    "chunk_tokens",
                    "repairs",
                    "tail_tokens",
                    "before_tokens",
                    "judged_tokens",
                    "temperature",
                    "top_p",
                )
            },
        },
        max_row_bytes=args.max_document_bytes,
        notes=tuple(notes),
    )


def estimate(step: Rephrase, task) -> tuple[dict, dict]:
    """Calls and tokens that one task takes, when nothing is refused and when every chunk uses all its tries."""
    from tokenmill.pipelines.rollouts.chunking import chunk, count_tokens
    from tokenmill.pipelines.runs.job import Plan

    chunks = chunk(task.document.text, step.chunk_tokens, task.document.language)
    prompt = completion = judged = 0
    for index, part in enumerate(chunks):
        before = chunks[index - 1].text if index else ""
        messages = step.messages(task, chunks, index, before, before)
        prompt += sum(count_tokens(m["content"]) + 4 for m in messages)
        completion += round(part.tokens * 1.1)
        judged += part.tokens
    writer = Plan(len(chunks), prompt, completion)
    tries = step.repairs + 1
    expected, most = {"writer": writer}, {"writer": writer.scaled(tries)}
    if step.checks.judge is not None:
        fixed = sum(count_tokens(text) for _, text in prompts.load(step.checks.judge.prompt).parts)
        votes = step.checks.judge.votes
        windows = -(-judged // step.judged_tokens) if len(chunks) > 1 else 0
        calls = (len(chunks) + windows) * votes
        again = judged if windows else 0
        judge = Plan(calls, fixed * calls + round((judged + again) * 2.1) * votes, 80 * calls)
        repeated = Plan(
            len(chunks) * votes, fixed * len(chunks) * votes + round(judged * 2.1) * votes, 240 * len(chunks) * votes
        )
        expected["judge"] = judge
        most["judge"] = judge + repeated.scaled(step.repairs)
    return expected, most

"""The `math` subcommand: its flags, and the job they describe."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.judges.form.language import UNDETERMINED, code
from tokenmill.judges.model.argument import Gaps
from tokenmill.judges.model.disputes import PROMPT as DISPUTE
from tokenmill.judges.model.disputes import Dispute
from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.judges.model.voting import REPAIR
from tokenmill.judges.notes.checks import SourceChecks
from tokenmill.pipelines.math.dag import STYLES, MathNotes, build
from tokenmill.pipelines.math.note import NOTE, PASSAGE, Part, WriteNote, foreign
from tokenmill.pipelines.math.parse import ProblemParser
from tokenmill.pipelines.math.translate import Translate
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.schemas.math import NoteTask

from tokenmill import prompts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser)
    shape = parser.add_argument_group("how notes are written")
    shape.add_argument(
        "--notes",
        type=options.positive,
        default=1,
        metavar="K",
        help="notes per source, each in another style (default 1)",
    )
    shape.add_argument(
        "--languages",
        default="",
        metavar="LIST",
        help="take only sources in these languages, such as en,de; others are rejected unpaid (default: all)",
    )
    shape.add_argument(
        "--chunk-tokens",
        type=options.positive,
        default=512,
        metavar="N",
        help="target size of a passage of a document (default 512)",
    )
    shape.add_argument(
        "--repairs",
        type=int,
        default=2,
        metavar="N",
        help="further tries for what is refused (default 2)",
    )
    checks = parser.add_argument_group("how notes are checked")
    checks.add_argument("--no-judge", action="store_true", help="leave out the judge model")
    checks.add_argument(
        "--votes", type=options.positive, default=1, metavar="N", help="judge's votes per text, odd (default 1)"
    )


def languages(text: str) -> tuple[str, ...]:
    """`en,de` as sorted ISO 639-1 codes.

    Raises:
        UsageError: an entry is no such code.
    """
    listed = [part.strip() for part in text.split(",") if part.strip()]
    for part in listed:
        if code(part) == UNDETERMINED:
            raise UsageError(f"--languages {part}: write ISO 639-1 codes, such as en,de,zh")
    return tuple(sorted({code(part) for part in listed}))


def job(args: argparse.Namespace) -> Job:
    """The configured job.

    Raises:
        UsageError: a flag's value makes no sense.
    """
    if args.repairs < 0:
        raise UsageError("--repairs must be 0 or more")
    roles = options.roles(args, judge=not args.no_judge)
    try:
        judge = None if args.no_judge else Gaps(votes=args.votes)
        reader = None if args.no_judge else Faithfulness(prompt="math/judge_translation", votes=args.votes)
    except ValueError as error:
        raise UsageError(f"--votes {args.votes}: {error}") from None
    parser = ProblemParser(**options.columns(args.columns, ProblemParser.names))
    selected = languages(args.languages)
    step = WriteNote(
        model=parse_spec(args.llm).model,
        judge_model="" if judge is None else parse_spec(roles["judge"].spec).model,
        seed=args.seed,
        chunk_tokens=args.chunk_tokens,
        repairs=args.repairs,
        source_checks=SourceChecks(selected),
        translate=Translate(judge=reader, repairs=args.repairs, seed=args.seed),
        judge=judge,
        dispute=None if judge is None else Dispute(),
    )
    try:
        config = MathNotes(step, args.notes, parser, args.max_document_bytes)
    except ValueError as error:
        raise UsageError(f"--notes {args.notes}: {error}") from None
    used = [NOTE, PASSAGE, REPAIR, *step.translate.prompt_names, *prompts.names(STYLES)]
    if judge is not None:
        used += [*judge.prompt_names, DISPUTE]
    return Job(
        name="math",
        title="Mathematics as learning notes, every calculation verified",
        step=step,
        parser=parser,
        roles=roles,
        tasks=config.tasks,
        tasks_per_row=args.notes,
        build=partial(build, config),
        estimate=partial(estimate, step),
        prompts=tuple(dict.fromkeys(used)),
        config={
            "notes": args.notes,
            "languages": list(selected),
            "columns": asdict(parser),
            "judge_votes": 0 if judge is None else args.votes,
            "translation": {name: getattr(step.translate, name) for name in ("temperature", "top_p")},
            **{
                name: getattr(step, name)
                for name in ("chunk_tokens", "repairs", "tail_tokens", "before_tokens", "temperature", "top_p")
            },
        },
        max_row_bytes=args.max_document_bytes,
        notes=options.too_small(args.llm, "write notes that pass"),
    )


GROWTH = 450
"""Answer tokens of a note beyond its source: what is made explicit, and the field names."""


def estimate(step: WriteNote, task: NoteTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens that one task takes, when nothing is refused and when every text uses all its tries."""
    none = {"writer": Plan()} if step.judge is None else {"writer": Plan(), "judge": Plan()}
    problem = task.problem
    chunks = step.chunks(task)
    try:
        if not all(verdict.passed for verdict in step.source_checks(task, [piece.text for piece in chunks])):
            return none, dict(none)
    except ValueError:  # too long for the checks: the row will fail before a call
        return none, dict(none)
    translated, written, judged = Plan(), Plan(), Plan()
    before = ""
    for index, piece in enumerate(chunks):
        if task.is_pair:
            part = Part(problem.question, problem.answer)
        else:
            part = Part(piece.body, "", index, f"{index + 1} / {len(chunks)}", before)
        if foreign(problem):
            prompt = _tokens(step.translate.messages(part.source, problem.language))
            translated += Plan(1, prompt, round(piece.tokens * 1.1))
            if step.translate.judge is not None:
                judged += _judged(step.translate.judge, piece.tokens * 2.1)
        written += Plan(1, _tokens(step.messages(task, part, before)), piece.tokens + GROWTH)
        if step.judge is not None:
            judged += _judged(step.judge, piece.tokens * 2 + GROWTH)
        before = piece.body
    writer = translated + written
    # A repair also sees the earlier try.
    repair = Plan(writer.calls, writer.prompt + written.completion, writer.completion)
    expected, most = {"writer": writer}, {"writer": writer + repair.scaled(step.repairs)}
    if step.judge is not None:
        expected["judge"], most["judge"] = judged, judged.scaled(step.repairs + 1)
    return expected, most


def _judged(judge: Gaps | Faithfulness, tokens: float) -> Plan:
    fixed = sum(count_tokens(text) for _, text in prompts.load(judge.prompt).parts)
    return Plan(1, round(fixed + tokens), 80).scaled(judge.votes)


def _tokens(messages: list[dict[str, str]]) -> int:
    return sum(count_tokens(m["content"]) + 4 for m in messages)

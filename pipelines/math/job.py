"""Turn mathematics into learning notes in English, every calculation verified."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.judges.form.language import UNDETERMINED, code
from tokenmill.judges.model.argument import Gaps
from tokenmill.judges.model.disputes import PROMPT as DISPUTE
from tokenmill.judges.model.disputes import Dispute
from tokenmill.judges.model.faithfulness import Claims
from tokenmill.judges.model.voting import REPAIR
from tokenmill.judges.notes.checks import SourceChecks
from tokenmill.judges.own import described
from tokenmill.pipelines.math.dag import SHAPES, STYLES, MathNotes, build
from tokenmill.pipelines.math.note import WriteNote, foreign
from tokenmill.pipelines.math.note_request import NOTE, PASSAGE, Part
from tokenmill.pipelines.math.parse import ProblemParser
from tokenmill.pipelines.math.translate import Translate
from tokenmill.pipelines.rollouts.candidates import Candidates
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.benchmarks import benchmarks, decontaminate_flag
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import TextOptions, of_writing, roles, too_small
from tokenmill.pipelines.runs.own import own_candidates, own_candidates_always, own_check, own_checks
from tokenmill.schemas.flags import checked, positive, shaping
from tokenmill.schemas.math import NoteTask

from tokenmill import prompts


def language_codes(text: str) -> tuple[str, ...]:
    """`en,de` as sorted ISO 639-1 codes.

    Raises:
        ValueError: an entry is no such code.
    """
    listed = [part.strip() for part in text.split(",") if part.strip()]
    for part in listed:
        if code(part) == UNDETERMINED:
            raise ValueError(f"{part} is none; write ISO 639-1 codes, such as en,de,zh")
    return tuple(sorted({code(part) for part in listed}))


@dataclass(frozen=True, kw_only=True)
class MathOptions(TextOptions):
    """What `math` may be given."""

    known_columns = ProblemParser.names

    notes: int = of_writing(
        1,
        metavar="K",
        parse=checked(lambda count: MathNotes(WriteNote(""), count)),
        shapes=True,
        help="notes per source, each in another style",
    )
    languages: str = of_writing(
        "",
        metavar="LIST",
        parse=checked(language_codes),
        help="take only sources in these languages, such as en,de; others are rejected unpaid (default: all)",
    )
    chunk_tokens: int = of_writing(
        512, metavar="N", parse=positive, shapes=True, help="target size of a passage of a document"
    )
    decontaminate: tuple[str, ...] = decontaminate_flag()
    check: tuple[str, ...] = own_check()
    candidates: int = own_candidates()
    candidates_always: bool = own_candidates_always()


def job(options: MathOptions) -> Job:
    """The configured job."""
    judge = None if options.no_judge else Gaps(votes=options.votes)
    reader = Claims(prompt="math/judge_translation", votes=options.votes) if judge else None
    chosen = roles(options, "writer", *(["judge"] if judge else []))
    parser = ProblemParser(**options.named_columns())
    selected = language_codes(options.languages)
    own = own_checks(options.check)
    kept_out = benchmarks(options.decontaminate)
    step = WriteNote(
        model=parse_spec(options.llm).model,
        judge_model="" if judge is None else parse_spec(chosen["judge"].spec).model,
        seed=options.seed,
        chunk_tokens=options.chunk_tokens,
        repairs=options.repairs,
        source_checks=SourceChecks(selected),
        translate=Translate(judge=reader, repairs=options.repairs, seed=options.seed),
        judge=judge,
        dispute=None if judge is None else Dispute(),
        benchmarks=kept_out,
        own=own,
        candidates=Candidates(options.candidates, options.candidates_always),
    )
    config = MathNotes(step, options.notes)
    used = [NOTE, PASSAGE, REPAIR, *step.translate.prompt_names, *prompts.names(STYLES), *prompts.names(SHAPES)]
    if judge is not None:
        used += [*judge.prompt_names, DISPUTE]
    return Job(
        name="math",
        title="Mathematics as learning notes, every calculation verified",
        step=step,
        parser=parser,
        roles=chosen,
        tasks=config.tasks,
        tasks_per_row=options.notes,
        dag=partial(build, config),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, step),
        prompts=tuple(dict.fromkeys(used)),
        config={
            **shaping(options),
            "languages": list(selected),
            "columns": asdict(parser),
            **({"checks": described(own)} if own else {}),
            "judge_votes": 0 if judge is None else options.votes,
            "translation": {name: getattr(step.translate, name) for name in ("temperature", "top_p")},
            **asdict(step.request),
            **{name: getattr(step, name) for name in ("temperature", "top_p")},
        },
        notes=too_small(options.llm, "write notes that pass"),
        benchmarks=kept_out,
    )


COMMAND = Command("math", MathOptions, one(job))


GROWTH = 450
"""Answer tokens of a note beyond its source: what is made explicit, and the field names."""


def estimate(step: WriteNote, task: NoteTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens that one task takes, when nothing is refused and when every text uses all its tries."""
    none = {"writer": Plan()} if step.judge is None else {"writer": Plan(), "judge": Plan()}
    problem = task.problem
    if step.benchmarks is not None and step.benchmarks.verdict(problem.text)[1] is not None:
        return none, dict(none)
    chunks = step.chunks(task)
    try:
        if not all(verdict.passed for verdict in step.source_checks(task, [piece.text for piece in chunks])):
            return none, dict(none)
    except ValueError:  # too long for the checks: the row will fail before a call
        return none, dict(none)
    translated, written, read, judged = Plan(), Plan(), Plan(), Plan()
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
                read += _judged(step.translate.judge, piece.tokens * 2.1)
        written += Plan(1, _tokens(step.request(task, part, before)), piece.tokens + GROWTH)
        if step.judge is not None:
            judged += _judged(step.judge, piece.tokens * 2 + GROWTH)
        before = piece.body
    writer = translated + written
    # A repair also sees the earlier try.
    repair = Plan(writer.calls, writer.prompt + written.completion, writer.completion)
    usual, drawn = (step.candidates.calls(refused=refused) for refused in (False, True))
    # The candidates after the first are drawn at once.
    first = replace(written.scaled(usual), waves=written.depth * min(2, usual))
    expected, most = {"writer": translated.then(first)}, {"writer": translated + written.scaled(drawn)}
    most["writer"] += repair.scaled(step.repairs)
    if step.judge is not None:
        expected["judge"] = read.then(judged.scaled(usual))
        most["judge"] = (read + judged).scaled(step.repairs + 1) + judged.scaled(drawn - 1)
    return expected, most


def _judged(judge: Gaps | Claims, tokens: float) -> Plan:
    fixed = sum(count_tokens(text) for _, text in prompts.load(judge.prompt).parts)
    return Plan(1, round(fixed + tokens), 80).scaled(judge.votes)


def _tokens(messages: list[dict[str, str]]) -> int:
    return sum(count_tokens(m["content"]) + 4 for m in messages)

"""The judge model's verdicts on cases: asked of a model, or applied from recorded answers.

A record is one JSON line: `id` and `version` of the case, the `questions` that code put to the judge (each kind, text, quotation
from the source, quotation from the rewrite), and the judge's `answer`, an object or text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from tokenmill.bench.fidelity.cases import Case
from tokenmill.inference.call import Answer, Ask, Message, Usage
from tokenmill.inference.errors import CallFailed
from tokenmill.judges.facts.check import questions
from tokenmill.judges.model import voting
from tokenmill.judges.model.faithfulness import Faithfulness, JudgeUndecided
from tokenmill.schemas.verdicts import Question, Verdict


def asked(case: Case) -> list[Question]:
    """What code asks a judge about a case."""
    return questions(case.source, case.rewrite, case.title, case.language)


def messages(case: Case, questions: Iterable[Question]) -> list[Message]:
    """What a judge is given to read, as the pipeline gives it."""
    return Faithfulness().render(
        voting.Case(case.source, case.rewrite, title=case.title, form=case.form, questions=tuple(questions))
    )


def judge_cases(spec: str, cases: Sequence[Case], cache: Path) -> list[Verdict | None]:
    """A verdict of the judge model SPEC for each case; None where no vote was usable.

    Answers are kept in `cache`, so that an interrupted bench goes on where it stopped.

    Raises:
        tokenmill.inference.errors.RunStopped: the model cannot be reached.
    """
    from tokenmill.inference.roles import Models, Role
    from tokenmill.inference.runtime import obtain, release

    runtime = obtain(Models({"judge": Role(spec)}, cache=str(cache), run="bench-fidelity"))

    async def all_of_them() -> list[Verdict | None]:
        return list(await asyncio.gather(*(_verdict(case, asked(case), runtime.client.ask) for case in cases)))

    try:
        return runtime.run(all_of_them())
    finally:
        release(runtime)


def recorded_cases(path: Path, cases: Sequence[Case]) -> list[Verdict | None]:
    """A verdict for each case from the answers recorded in a file; None for a case that has none, or none that is usable.

    An answer counts with the questions it was given to: code may ask others by now (`outdated`).
    """
    rows = _recorded(path)

    async def one(case: Case) -> Verdict | None:
        row = rows.get((case.id, case.version))
        if row is None:
            return None
        text = row["answer"] if isinstance(row["answer"], str) else json.dumps(row["answer"])

        async def ask(messages: list[Message], **_: Any) -> Answer:
            return Answer(text, "stop", Usage(), "recorded", from_cache=True)

        return await _verdict(case, [Question(*q) for q in row["questions"]], ask)

    async def all_of_them() -> list[Verdict | None]:
        return [await one(case) for case in cases]

    return asyncio.run(all_of_them())


def outdated(path: Path, cases: Sequence[Case]) -> int:
    """How many recorded answers were given to other questions than code asks of the case today."""
    rows = _recorded(path)
    known = [case for case in cases if (case.id, case.version) in rows]
    return sum(rows[case.id, case.version]["questions"] != [list(astuple(q)) for q in asked(case)] for case in known)


def _recorded(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    return {(row["id"], row["version"]): row for row in rows}


async def _verdict(case: Case, questions: Sequence[Question], ask: Ask) -> Verdict | None:
    judge = Faithfulness()
    try:
        return await judge(case.source, case.rewrite, "", ask, title=case.title, form=case.form, questions=questions)
    except (JudgeUndecided, CallFailed):
        return None

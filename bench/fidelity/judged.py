"""The judge model's verdicts on the bench's texts, for the columns with the judge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenmill.inference.call import Answer, Ask, Message, Usage, sha256
from tokenmill.inference.errors import CallFailed
from tokenmill.judges.model.faithfulness import Faithfulness, JudgeUndecided
from tokenmill.schemas.verdicts import Verdict

RECORDED = Path(__file__).parent / "data" / "judged.jsonl"
"""Answers that a language model gave; each row names the text it is about and the `question` it answers."""

Case = tuple[str, str, str]
"""Source, rewrite, title."""


def judge_pairs(spec: str, cases: Sequence[Case], cache: Path) -> list[Verdict | None]:
    """A verdict of the judge model SPEC for each case; None where no vote was usable.

    Answers are kept in `cache`, so that an interrupted bench goes on where it stopped.

    Raises:
        tokenmill.inference.errors.RunStopped: the model cannot be reached.
    """
    from tokenmill.inference.roles import Models, Role
    from tokenmill.inference.runtime import obtain, release

    runtime = obtain(Models({"judge": Role(spec)}, cache=str(cache), run="bench-fidelity"))
    try:
        return runtime.run(_verdicts(cases, runtime.client.ask))
    finally:
        release(runtime)


def recorded_pairs(cases: Sequence[Case], path: Path = RECORDED) -> list[Verdict | None]:
    """A verdict for each case from answers recorded before; None for a case that is not among them, or whose question
    the prompt words differently by now."""
    answers = {row["question"]: row["answer"] for row in map(json.loads, path.read_text("utf-8").splitlines())}

    async def ask(messages: list[Message], **_: Any) -> Answer:
        asked = question(messages)
        if asked not in answers:
            raise CallFailed(f"no answer to {asked} in {path}")
        return Answer(json.dumps(answers[asked]), "stop", Usage(), "recorded", from_cache=True)

    return asyncio.run(_verdicts(cases, ask))


def question(messages: list[Message]) -> str:
    """What a recorded answer is found by: 16 hex digits for all that was put to the judge."""
    return sha256("\0".join(message["content"] for message in messages).encode()).hex()[:16]


async def _verdicts(cases: Sequence[Case], ask: Ask) -> list[Verdict | None]:
    judge = Faithfulness()

    async def one(source: str, rewrite: str, title: str) -> Verdict | None:
        try:
            verdict = await judge(source, rewrite, "", ask, title=title)
        except (JudgeUndecided, CallFailed):
            return None
        return verdict

    return list(await asyncio.gather(*(one(*case) for case in cases)))

"""The judge model's verdicts on the bench's texts, for the columns with the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from schemas.verdicts import Verdict


def judge_pairs(spec: str, cases: Sequence[tuple[str, str, str]], cache: Path) -> list[Verdict | None]:
    """A verdict of the judge model SPEC for each (source, rewrite, title); None where no vote was usable.

    Answers are kept in `cache`, so that an interrupted bench goes on where it stopped.

    Raises:
        llm.errors.RunStopped: the model cannot be reached.
    """
    from judges.faithfulness import Faithfulness, JudgeUndecided
    from llm.models import Models, Role
    from llm.runtime import obtain, release

    judge = Faithfulness()
    runtime = obtain(Models({"judge": Role(spec)}, cache=str(cache), run="bench-fidelity"))

    async def one(source: str, rewrite: str, title: str) -> Verdict | None:
        try:
            verdict, _ = await judge(source, rewrite, "", runtime.client.ask, title=title)
        except JudgeUndecided:
            return None
        return verdict

    async def every() -> list[Verdict | None]:
        return await asyncio.gather(*(one(*case) for case in cases))

    try:
        return runtime.run(every())
    finally:
        release(runtime)

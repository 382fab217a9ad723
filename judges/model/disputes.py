"""When a note keeps reaching another answer than its source states: which of the two is wrong?"""

from __future__ import annotations

from dataclasses import dataclass, field

from tokenmill.inference.call import Ask
from tokenmill.inference.structured import StructuredAnswerInvalid, ask_json
from tokenmill.judges.math import FinalAnswer
from tokenmill.judges.model.quotes import stands_in
from tokenmill.judges.model.voting import JudgeUndecided, line
from tokenmill.prompts.fence import fence
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, record
from tokenmill.schemas.verdicts import Finding, Verdict

from tokenmill import prompts

CHECK = "stated_answer"
PROMPT = "math/dispute"
SCHEMA = record(working=TEXT, answer=TEXT, stated_is_right=BOOLEAN, fault=TEXT, quote=TEXT)


@dataclass(frozen=True)
class Dispute:
    """Check `stated_answer`: reason `source_wrong`.

    The judge solves the problem without seeing the note. The source is called wrong only when the judge says so, quotes
    what is wrong in it, and its own answer is that of the note; whatever else it says leaves the source standing.
    """

    same: FinalAnswer = field(default_factory=FinalAnswer)
    max_tokens: int = 2000
    tries: int = 3

    async def __call__(self, problem: str, stated: str, found: str, ask: Ask) -> Verdict:
        """Judge the answer `stated` for `problem`, both English; `found` is the note's answer.

        Raises:
            JudgeUndecided: the judge gave no usable answer.
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        """
        messages = prompts.load(PROMPT).render(problem=fence(problem, "problem"), solution=fence(stated, "stated"))
        try:
            value, _ = await ask_json(
                ask, messages, SCHEMA, to="judge", tries=self.tries, temperature=0.0, max_tokens=self.max_tokens
            )
        except StructuredAnswerInvalid as error:
            raise JudgeUndecided(f"the judge could not settle the stated answer: {error}") from error
        shown = stands_in(value["quote"], stated)
        agrees = bool(value["answer"].strip()) and self.same.same(found, value["answer"])
        if value["stated_is_right"] or not shown or not agrees:
            return Verdict(CHECK, True, 1.0)
        detail = (
            f"The source answers {line(stated[-80:])}, but note and judge, each on its own, find {line(found)}: "
            f"{line(value['fault'])}"
        )
        return Verdict(CHECK, False, 0.0, "source_wrong", (Finding("source_wrong", detail, value["quote"], found),))

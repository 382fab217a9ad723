"""A model judges whether a rewrite is faithful; each fault it reports must be shown with quotations really there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tokenmill.inference.call import Message
from tokenmill.judges.model.quotes import is_sentence_of, stands_in
from tokenmill.judges.model.voting import Case, Claim, JudgeUndecided, Misquoted, QuotingJudge, block, line
from tokenmill.prompts.fence import defuse, fence
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, array, choice, record

from tokenmill import prompts

__all__ = ["CHECK", "SCHEMA", "Faithfulness", "JudgeUndecided", "verify"]

CHECK = "faithfulness"
OTHER_FORM = "other_form"

_MAX_CLAIMS = 12  # of each kind in one answer: bounds what a rambling judge costs
_CLAIM = record(claim=TEXT, source_quote=TEXT, rewrite_quote=TEXT, severity=choice(("minor", "major")))
_ANSWER = record(question={"type": "integer"}, verdict=choice(("same", "changed", "added", "lost")))
SCHEMA: dict[str, Any] = record(
    answers=array(_ANSWER, 12),
    unsupported=array(_CLAIM, _MAX_CLAIMS),
    missing=array(_CLAIM, _MAX_CLAIMS),
    form_kept=BOOLEAN,
    form_fault=TEXT,
)
"""What a judge answers."""
_KINDS = {"changed": "unsupported_claim", "added": "unsupported_claim", "lost": "missing_claim"}


@dataclass(frozen=True)
class Faithfulness(QuotingJudge):
    """Refuses with `unsupported_claim`, `missing_claim` or `other_form`."""

    prompt: str = "judges/faithfulness"
    tolerated_minor: int = 1

    check: ClassVar[str] = CHECK
    schema: ClassVar[dict[str, Any]] = SCHEMA
    requote: ClassVar[str] = "judges/faithfulness_requote"
    orders: ClassVar[dict[str, str]] = {
        "unsupported_claim": "Say here what the source says, and no more",
        "missing_claim": "Say what is missing",
        OTHER_FORM: "Keep to the form",
    }

    def verify(
        self, answer: dict[str, Any], source: str, rewrite: str, known: str = ""
    ) -> tuple[list[Claim], list[Misquoted]]:
        return verify(answer, source, rewrite, known)

    def render(self, case: Case) -> list[Message]:
        asked = "\n".join(f"{number}. {defuse(q.text)}" for number, q in enumerate(case.questions, 1))
        return prompts.load(self.prompt).render(
            title=block(case.title, "title"),
            form=f"The form asked for: {case.form}\n\n" if case.form else "",
            context=block(case.context, "context"),
            source=fence(case.source, "source"),
            rewrite=fence(case.rewrite, "rewrite"),
            questions=block(asked, "questions"),
        )

    def answered(self, answer: dict[str, Any], case: Case) -> list[Claim]:
        claims = []
        for item in answer["answers"]:
            kind = _KINDS.get(item["verdict"], "")
            if kind and 1 <= item["question"] <= len(case.questions):
                question = case.questions[item["question"] - 1]
                claim = f"{item['verdict']}: {line(question.text)}"
                claims.append(Claim(kind, claim, question.source, question.rewrite, True))
        if case.form and not answer["form_kept"]:
            claims.append(Claim(OTHER_FORM, line(answer["form_fault"]) or case.form, "", "", True))
        return claims


def verify(answer: dict[str, Any], source: str, rewrite: str, known: str = "") -> tuple[list[Claim], list[Misquoted]]:
    """The claims of a judge's answer whose quotations stand where it says, and those whose quotations do not.

    An unsupported claim must quote the rewrite, a missing one the source; the other quotation may be empty, and is left out
    where it is inexact. A claim about a sentence that stands, whole and word for word, in both texts refutes itself and is
    dropped like a false quotation; so is one that what the reader knows (`known`) supports word for word.
    """
    claims: list[Claim] = []
    wrong: list[Misquoted] = []
    for kind, listed in (("unsupported_claim", answer["unsupported"]), ("missing_claim", answer["missing"])):
        for item in listed:
            theirs, ours = item["source_quote"], item["rewrite_quote"]
            claim = Claim(
                kind,
                line(item["claim"]),
                theirs if stands_in(theirs, source) or stands_in(theirs, known) else "",
                ours if stands_in(ours, rewrite) else "",
                item["severity"] == "major",
            )
            if why := _fault(claim, item, source, rewrite):
                wrong.append(Misquoted(why, claim.major))
            else:
                claims.append(claim)
    return claims, wrong


def _fault(claim: Claim, item: dict[str, str], source: str, rewrite: str) -> str:
    """Why a claim cannot be used, or an empty string."""
    unsupported = claim.kind == "unsupported_claim"
    if unsupported and not claim.rewrite:
        return f'not in the rewrite: "{line(item["rewrite_quote"])}"'
    if not unsupported and not stands_in(claim.source, source):
        return f'not in the source: "{line(item["source_quote"])}"'
    shown, own, other = (claim.rewrite, rewrite, source) if unsupported else (claim.source, source, rewrite)
    if is_sentence_of(shown, own) and is_sentence_of(shown, other):
        return f'in both texts, word for word: "{line(shown)}"'
    return ""

"""A model examines the argument of a learning note; each fault must be shown with quotations (Kimi K2 report, 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tokenmill.inference.call import Message
from tokenmill.judges.model.quotes import plain, stands_in
from tokenmill.judges.model.voting import Case, Claim, JudgeUndecided, Misquoted, QuotingJudge, block, line
from tokenmill.prompts.fence import defuse, fence
from tokenmill.schemas.answer_schema import TEXT, array, choice, record

from tokenmill import prompts

__all__ = ["CHECK", "KINDS", "SCHEMA", "Gaps", "JudgeUndecided"]

CHECK = "argument"
KINDS = ("false_step", "argument_gap", "content_lost", "leftover_kept", "source_wrong")
_OF_SOURCE = ("content_lost", "source_wrong")
"""Kinds that must quote the source; the others must quote the note."""

_FAULT = record(
    kind=choice(KINDS),
    claim=TEXT,
    source_quote=TEXT,
    rewrite_quote=TEXT,
    severity=choice(["minor", "major"]),
)
_ANSWER = record(question={"type": "integer"}, verdict=choice(("right", "wrong", "unclear")))
SCHEMA = record(answers=array(_ANSWER, 8), faults=array(_FAULT, 16))
"""What a judge answers."""
_OF_A_QUESTION = {"condition_unused": "content_lost"}
"""The fault that a question's answer `wrong` shows, by its kind; else a false step."""


@dataclass(frozen=True)
class Gaps(QuotingJudge):
    """Refuses with the kind of the first major fault: `false_step`, `argument_gap`, `content_lost`, `leftover_kept` or
    `source_wrong` (the source itself errs, which no rewriting helps). A question answered with `wrong` refuses, too."""

    prompt: str = "math/judge"

    check: ClassVar[str] = CHECK
    schema: ClassVar[dict[str, Any]] = SCHEMA
    requote: ClassVar[str] = "math/judge_requote"
    orders: ClassVar[dict[str, str]] = {
        "false_step": "Correct what is false",
        "argument_gap": "Close the gap in the argument",
        "content_lost": "Say what is missing",
        "leftover_kept": "Leave out what is no mathematics",
        "source_wrong": "The source is wrong",
    }

    def render(self, case: Case) -> list[Message]:
        asked = "\n".join(f"{number}. {defuse(q.text)}" for number, q in enumerate(case.questions, 1))
        return prompts.load(self.prompt).render(
            title=block(case.title, "title"),
            context=block(case.context, "context"),
            source=fence(case.source, "source"),
            rewrite=fence(case.rewrite, "rewrite"),
            checked=block(case.checked, "checked"),
            questions=block(asked, "questions"),
        )

    def examined(self, answer: dict[str, Any], case: Case) -> tuple[list[Claim], list[Misquoted]]:
        """Of the questions, too: what is wrong refuses; what the note leaves unclear is a minor gap."""
        claims, misquoted = super().examined(answer, case)
        for item in answer["answers"]:
            if item["verdict"] == "right" or not 1 <= item["question"] <= len(case.questions):
                continue
            question = case.questions[item["question"] - 1]
            wrong = item["verdict"] == "wrong"
            kind = _OF_A_QUESTION.get(question.kind, "false_step") if wrong else "argument_gap"
            claims.append(
                Claim(kind, f"{item['verdict']}: {line(question.text)}", question.source, question.rewrite, wrong)
            )
        return claims, misquoted

    def verify(
        self, answer: dict[str, Any], source: str, rewrite: str, known: str = ""
    ) -> tuple[list[Claim], list[Misquoted]]:
        """Every quotation given must stand in its text, and the one that its kind needs must be given.

        A minor fault of the source does not make it wrong, and is no fault of the note: it is passed over.
        """
        claims: list[Claim] = []
        wrong: list[Misquoted] = []
        for fault in answer["faults"]:
            claim = Claim(
                fault["kind"],
                line(fault["claim"]),
                fault["source_quote"],
                fault["rewrite_quote"],
                fault["severity"] == "major",
            )
            if claim.kind == "source_wrong" and not claim.major:
                continue
            complaint = _misquoted(claim, source, rewrite, known)
            if complaint:
                wrong.append(Misquoted(complaint, claim.major))
            else:
                claims.append(claim)
        return claims, wrong


def _misquoted(claim: Claim, source: str, rewrite: str, known: str) -> str:
    """Why a claim cannot be used, or an empty string."""
    needs_source = claim.kind in _OF_SOURCE
    in_source = stands_in(claim.source, source) or (not needs_source and stands_in(claim.source, known))
    if not in_source and (needs_source or plain(claim.source)):
        return f'not in the source: "{line(claim.source)}"'
    if not stands_in(claim.rewrite, rewrite) and (not needs_source or plain(claim.rewrite)):
        return f'not in the note: "{line(claim.rewrite)}"'
    return ""

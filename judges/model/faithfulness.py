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

__all__ = ["CHECK", "SCHEMA", "Claims", "Faithfulness", "JudgeUndecided", "verify"]

CHECK = "faithfulness"
OTHER_FORM = "other_form"
BROKEN_SEAM = "broken_seam"
SEAM_PROMPT = "judges/faithfulness_seams"

_MAX_CLAIMS = 12  # of each kind in one answer: bounds what a rambling judge costs
_CLAIM = record(claim=TEXT, source_quote=TEXT, rewrite_quote=TEXT, severity=choice(("minor", "major")))
_LISTS = {"unsupported": array(_CLAIM, _MAX_CLAIMS), "missing": array(_CLAIM, _MAX_CLAIMS)}
_ANSWER = record(question={"type": "integer"}, verdict=choice(("same", "changed", "added", "lost")))
SCHEMA: dict[str, Any] = record(answers=array(_ANSWER, 12), **_LISTS, form_kept=BOOLEAN, form_fault=TEXT)
"""What a judge of rewrites answers."""
_SEAM = record(
    seam={"type": "integer"},
    fault=choice(("repetition", "contradiction", "missing_link")),
    claim=TEXT,
    earlier_quote=TEXT,
    later_quote=TEXT,
)
SEAMS: dict[str, Any] = record(
    answers=array(_ANSWER, 12), **_LISTS, seams=array(_SEAM, 6), form_kept=BOOLEAN, form_fault=TEXT
)
"""The same of a rewrite that was written in parts."""
_KINDS = {"changed": "unsupported_claim", "added": "unsupported_claim", "lost": "missing_claim"}


@dataclass(frozen=True)
class Claims(QuotingJudge):
    """Refuses with `unsupported_claim` or `missing_claim`: two lists, whatever else its prompt asks for."""

    check: ClassVar[str] = CHECK
    schema: ClassVar[dict[str, Any]] = record(**_LISTS)
    requote: ClassVar[str] = "judges/faithfulness_requote"
    orders: ClassVar[dict[str, str]] = {
        "unsupported_claim": "Say here what the source says, and no more",
        "missing_claim": "Say what is missing",
        OTHER_FORM: "Keep to the form",
        BROKEN_SEAM: "Mend the seam to the text before",
    }

    def verify(
        self, answer: dict[str, Any], source: str, rewrite: str, known: str = ""
    ) -> tuple[list[Claim], list[Misquoted]]:
        return verify(answer, source, rewrite, known)


@dataclass(frozen=True)
class Faithfulness(Claims):
    """The judge of rewrites, which also answers questions, looks at the form and at seams: refuses with `other_form` and
    `broken_seam`, too."""

    prompt: str = "judges/faithfulness"
    tolerated_minor: int = 1
    """Minor faults that it may report of a text that passes."""

    schema: ClassVar[dict[str, Any]] = SCHEMA

    @property
    def prompt_names(self) -> tuple[str, ...]:
        return (*super().prompt_names, SEAM_PROMPT)

    def schema_of(self, case: Case) -> dict[str, Any]:
        return SEAMS if case.seams else SCHEMA

    def render(self, case: Case) -> list[Message]:
        asked = "\n".join(f"{number}. {defuse(q.text)}" for number, q in enumerate(case.questions, 1))
        return prompts.load(self.prompt).render(
            title=block(case.title, "title"),
            form=f"The form asked for: {case.form}\n\n" if case.form else "",
            context=block(case.context, "context"),
            source=fence(case.source, "source"),
            rewrite=fence(case.rewrite, "rewrite"),
            seams=_seams(case),
            questions=block(asked, "questions"),
            also=', and "seams"' if case.seams else "",
        )

    def examined(self, answer: dict[str, Any], case: Case) -> tuple[list[Claim], list[Misquoted]]:
        claims, wrong = super().examined({**answer, "missing": []} if case.partial else answer, case)
        for item in answer["answers"]:
            kind = _KINDS.get(item["verdict"], "")
            if kind and not (case.partial and kind == "missing_claim") and 1 <= item["question"] <= len(case.questions):
                question = case.questions[item["question"] - 1]
                claim = f"{item['verdict']}: {line(question.text)}"
                claims.append(Claim(kind, claim, question.source, question.rewrite, True))
        if case.form and not answer["form_kept"]:
            claims.append(Claim(OTHER_FORM, line(answer["form_fault"]) or case.form, "", "", True))
        for item in answer["seams"] if case.seams else ():
            if why := _not_at(item, case):
                wrong.append(Misquoted(why, True))
            else:
                claims.append(_seam_claim(item))
        return claims, wrong


def _seams(case: Case) -> str:
    """The seams as the judge is shown them; empty where there are none."""
    if not case.seams:
        return ""
    shown = "\n".join(f"{n}. … {line(seam.earlier)} | {line(seam.later)} …" for n, seam in enumerate(case.seams, 1))
    (message,) = prompts.load(SEAM_PROMPT).render(
        before=block(case.before, "rewrite-before"), seams=fence(shown, "seams") + "\n"
    )
    return message["content"] + "\n\n"


def _not_at(item: dict[str, Any], case: Case) -> str:
    """Why a fault at a seam cannot be used, or an empty string."""
    if not 1 <= item["seam"] <= len(case.seams):
        return f"there is no seam {item['seam']}"
    seam, later, earlier = case.seams[item["seam"] - 1], item["later_quote"], item["earlier_quote"]
    if not any(stands_in(later, text) for text in (case.rewrite, seam.later)):
        return f'not in the rewrite: "{line(later)}"'
    if item["fault"] != "missing_link" and not any(
        stands_in(earlier, text) for text in (case.rewrite, case.before, seam.earlier)
    ):
        return f'not in the text before: "{line(earlier)}"'
    return ""


def _seam_claim(item: dict[str, Any]) -> Claim:
    before = f' (the text before: "{line(item["earlier_quote"])}")' if item["earlier_quote"].strip() else ""
    claim = f"{item['fault'].replace('_', ' ')}: {line(item['claim'])}{before}"
    return Claim(BROKEN_SEAM, claim, "", item["later_quote"], True)


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

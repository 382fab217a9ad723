"""A model judges whether a rewrite is faithful; each fault it reports must be shown with quotations really there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tokenmill.judges.model.quotes import is_sentence_of, plain, stands_in
from tokenmill.judges.model.voting import Claim, JudgeUndecided, QuotingJudge, line
from tokenmill.schemas.answer_schema import TEXT, array, choice, record

__all__ = ["CHECK", "SCHEMA", "Faithfulness", "JudgeUndecided", "verify"]

CHECK = "faithfulness"

_MAX_CLAIMS = 12  # of each kind in one answer: bounds what a rambling judge costs
_CLAIM = record(claim=TEXT, source_quote=TEXT, rewrite_quote=TEXT, severity=choice(["minor", "major"]))
SCHEMA = record(unsupported=array(_CLAIM, _MAX_CLAIMS), missing=array(_CLAIM, _MAX_CLAIMS))
"""What a judge answers."""


@dataclass(frozen=True)
class Faithfulness(QuotingJudge):
    """Refuses with `unsupported_claim` or `missing_claim`."""

    prompt: str = "judges/faithfulness"

    check: ClassVar[str] = CHECK
    schema: ClassVar[dict[str, Any]] = SCHEMA
    requote: ClassVar[str] = "judges/faithfulness_requote"
    orders: ClassVar[dict[str, str]] = {
        "unsupported_claim": "Remove or correct what the source does not say",
        "missing_claim": "Say what is missing",
    }

    def verify(
        self, answer: dict[str, Any], source: str, rewrite: str, known: str = ""
    ) -> tuple[list[Claim], list[str]]:
        return verify(answer, source, rewrite, known)


def verify(answer: dict[str, Any], source: str, rewrite: str, known: str = "") -> tuple[list[Claim], list[str]]:
    """The claims of a judge's answer whose quotations stand where it says, and a line on each quotation that does not.

    An unsupported claim must quote the rewrite, a missing one the source; the other quotation may be empty. What
    contradicts the rewrite may also stand in the context (`known`). A claim about a sentence that stands, whole and
    word for word, in both texts refutes itself and is dropped like a false quotation.
    """
    claims: list[Claim] = []
    wrong: list[str] = []
    for kind, listed in (("unsupported_claim", answer["unsupported"]), ("missing_claim", answer["missing"])):
        for item in listed:
            claim = Claim(
                kind, line(item["claim"]), item["source_quote"], item["rewrite_quote"], item["severity"] == "major"
            )
            fault = _fault(claim, source, rewrite, known)
            if fault:
                wrong.append(fault)
            else:
                claims.append(claim)
    return claims, wrong


def _fault(claim: Claim, source: str, rewrite: str, known: str) -> str:
    """Why a claim cannot be used, or an empty string."""
    unsupported = claim.kind == "unsupported_claim"
    in_source = stands_in(claim.source, source) or (unsupported and stands_in(claim.source, known))
    if not in_source and (plain(claim.source) or not unsupported):
        return f'not in the source: "{line(claim.source)}"'
    if not stands_in(claim.rewrite, rewrite) and (plain(claim.rewrite) or unsupported):
        return f'not in the rewrite: "{line(claim.rewrite)}"'
    shown, other = (claim.rewrite, source) if unsupported else (claim.source, rewrite)
    own = rewrite if unsupported else source
    if is_sentence_of(shown, own) and is_sentence_of(shown, other):
        return f'in both texts, word for word: "{line(shown)}"'
    return ""

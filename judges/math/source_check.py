"""Is the source itself right? A worked answer whose steps or stated result do not follow must not be taught."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tokenmill.judges.math.answer_forms import Value, final_answer, read_answer
from tokenmill.judges.math.answers import FinalAnswer
from tokenmill.judges.math.equalities import Equalities, finding
from tokenmill.judges.math.expressions import Undecidable, evaluate
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.numerals import find_numerals
from tokenmill.judges.math.rounding import Truth
from tokenmill.schemas.verdicts import Finding, Verdict


@dataclass(frozen=True)
class SourceConsistent:
    """Check `source`: reason `source_wrong`, with the false equality or the contradicted final answer as evidence.

    The final answer is contradicted when the worked solution calculates something but never arrives at that answer.
    """

    equalities: Equalities = field(default_factory=Equalities)
    answer: FinalAnswer = field(default_factory=FinalAnswer)

    def __call__(self, worked: str, stated: str = "", language: str = "en") -> Verdict:
        """Judge a worked solution against the answer it claims.

        `stated` is the answer column, if the source has one; else the answer is looked for in `worked`.
        """
        worked = from_mathml(worked)
        claim = final_answer(stated or worked)
        body, _, _ = worked.partition("####")
        statements = self.equalities.statements(body, language)
        findings = []
        for statement in statements:
            if statement.truth is Truth.FALSE:
                wrong = finding(body, statement)
                findings.append(
                    Finding("source_wrong", wrong.detail.replace("Correct ", "The source states ", 1), wrong.rewrite)
                )
        if claim and statements and not self._reached(claim, body, language):
            results = statements[-1].right
            last = body[results.start : results.end]
            findings.append(
                Finding(
                    "source_wrong",
                    f"The source answers {claim}, but its solution never arrives there; it ends at {last}.",
                    claim,
                )
            )
        decided = sum(s.truth is not Truth.UNDECIDED for s in statements) + bool(claim)
        score = max(0.0, 1 - len(findings) / max(decided, 1))
        return Verdict("source", not findings, score, "source_wrong" if findings else "", tuple(findings))

    def _reached(self, claim: str, body: str, language: str) -> bool:
        """Whether the claimed answer is stated in the solution; True when it is no number, so not traceable."""
        expected = read_answer(claim, language)
        if not isinstance(expected, Value):
            return True
        try:
            value = Fraction(evaluate(expected.node, {}))
        except Undecidable:
            return True
        stated = {Fraction(v) for n in find_numerals(body, language) for v in n.values}
        return value in stated or value * 100 in stated or value / 100 in stated

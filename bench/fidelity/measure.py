"""What the checks make of each case, and the tables of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.bench.fidelity.cases import HONEST, Case
from tokenmill.bench.fidelity.judged import asked
from tokenmill.bench.fidelity.pointing import pointing, raised_by_fault
from tokenmill.bench.fidelity.table import Table
from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.facts.check import FactCheck
from tokenmill.judges.form.checks import FormChecks
from tokenmill.schemas.verdicts import Verdict, first_refusal

ALL = "all"
DIMENSIONS = ("language", "genre", "kind")
RAISED = "raised"
REFUSED = "refused by code"
FACTS = ("number changed", "date shifted", "name swapped")
"""Planted faults that code should raise."""


@dataclass(frozen=True)
class Outcome:
    """What was made of one case."""

    case: Case
    refusal: Verdict | None
    """The first of the checks without a model."""
    questions: int
    """Put to the judge."""
    pointed: bool = False
    """Of a faulty case: whether one of them points at the fault's sentence,"""
    raised: bool = False
    """and one that code does not ask of the honest version; or code refuses for what it does not refuse there."""
    judged: Verdict | None = None


def measure(
    cases: Sequence[Case], *, form: bool, similarity: bool = False, judged: Sequence[Verdict | None] = ()
) -> list[Outcome]:
    """Run the checks without a model over cases; `judged` are the judge's verdicts, where there are any.

    Honest siblings stand before the faulty ones, as `foreign_cases` and `planted_cases` list them. `form` says whether the form
    checks run, too: they have no bearing on planted faults.
    """
    found: list[Outcome] = []
    honest: dict[str, Any] = {}
    facts, forms = FactCheck(), FormChecks()
    similar = asyncio.run(_similar(cases)) if similarity else [None] * len(cases)
    for case, drifts, verdict in zip(cases, similar, judged or [None] * len(cases), strict=True):
        told = (case.source, case.rewrite)
        verdicts = forms(*told, language=case.language, context=case.title) if form else []
        verdicts.append(facts(*told, case.title, case.language))
        refusal = first_refusal([*verdicts, *([drifts] if drifts else [])])
        questions = asked(case)
        outcome = Outcome(case, refusal, len(questions), judged=verdict)
        if case.faulty:
            before, refused = honest[case.id]
            new = refusal is not None and Counter(_quoted(refusal)) != Counter(_quoted(refused))
            raised = new or bool(raised_by_fault(questions, before, case))
            outcome = Outcome(case, refusal, len(questions), bool(pointing(questions, case)), raised, verdict)
        else:
            honest[case.id] = questions, refusal
        found.append(outcome)
    return found


def _quoted(verdict: Verdict | None) -> list[tuple[str, str]]:
    return [(finding.kind, finding.detail) for finding in verdict.findings] if verdict else []


async def _similar(cases: Sequence[Case]) -> list[Verdict]:
    check = Similarity()
    return await asyncio.gather(*(check(case.source, case.rewrite) for case in cases))


def foreign_table(outcomes: Sequence[Outcome], dimension: str = ALL) -> Table:
    """Honest versions and slips that code refuses, slips whose sentence a question to the judge points at, slips that code
    raises by a refusal or question that the honest version does not get, and what the judge makes of both: by `language`,
    `genre` or `kind` of slip, or for `all` in one row."""
    with_judge = any(outcome.judged for outcome in outcomes)
    columns = ["honest refused: code", "slips refused: code", "slips asked about", "slips raised"]
    if with_judge:
        columns += [f"{what} refused: {who}" for who in ("judge", "code and judge") for what in ("honest", "slips")]
    table = Table(dimension, columns)
    for outcome in outcomes:
        case, refused = outcome.case, outcome.refusal is not None
        what = "slips" if case.faulty else "honest"
        row = {f"{what} refused: code": refused}
        if case.faulty:
            row[columns[2]] = outcome.pointed
            row[columns[3]] = outcome.raised
        if outcome.judged is not None:
            row[f"{what} refused: judge"] = not outcome.judged.passed
            row[f"{what} refused: code and judge"] = refused or not outcome.judged.passed
        table.count(ALL if dimension == ALL else getattr(case, dimension), row)
    return table


def planted_table(outcomes: Sequence[Outcome]) -> Table:
    """Planted faults that code refuses, and those that it raises: refuses or asks the judge about."""
    columns = [REFUSED, RAISED]
    if any(outcome.judged for outcome in outcomes):
        columns += ["refused by the judge", "by code or the judge"]
    table = Table("text", columns)
    for outcome in outcomes:
        row = {REFUSED: outcome.refusal is not None}
        if outcome.case.faulty:
            row[RAISED] = outcome.raised
        if outcome.judged is not None:
            row[columns[2]] = not outcome.judged.passed
            row[columns[3]] = row[REFUSED] or not outcome.judged.passed
        name = outcome.case.kind if outcome.case.faulty else HONEST
        table.count(name, row)
    return table


def reasons(outcomes: Sequence[Outcome]) -> str:
    """Why code refuses honest versions, in one line."""
    found = Counter(o.refusal.reason for o in outcomes if o.refusal and not o.case.faulty)
    return ", ".join(f"{reason} {count}" for reason, count in found.most_common()) or "none"


def per_text(outcomes: Sequence[Outcome]) -> str:
    """Questions that code puts to the judge, on average."""
    shares = []
    for name, faulty in (("honest", False), ("faulty", True)):
        counts = [outcome.questions for outcome in outcomes if outcome.case.faulty == faulty]
        shares.append(f"{name} {sum(counts) / max(1, len(counts)):.1f}")
    return ", ".join(shares)

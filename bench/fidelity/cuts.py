"""Texts that end in the middle: what the check of form sees when no `finish_reason` tells it.

Honest versions of both sets, whole and cut at drawn places, as a token limit cuts them: within words, behind them, anywhere but
at the end. An endpoint says `finish_reason: length` of such an answer, and then all are refused; this measures the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tokenmill.bench.fidelity.cases import HONEST, Case, foreign_cases, planted_cases
from tokenmill.bench.fidelity.table import Table
from tokenmill.judges.form.truncation import Truncation
from tokenmill.schemas.draws import digest

COLUMN = "refused: truncation"
CUTS = 4
"""Of one text."""


def cut_cases(half: str, seed: int = 0) -> Iterator[Case]:
    """The honest versions of a half of both sets, and behind each its cuts: somewhere in its last three quarters."""
    for case in (*foreign_cases(half), *planted_cases(half, variants=0)):
        if case.faulty:
            continue
        yield case
        first = len(case.rewrite) // 4
        for number in range(CUTS):
            at = first + digest("cut", seed, half, case.id, number) % max(1, len(case.rewrite) - 1 - first)
            yield replace(case, version=f"cut {number}", rewrite=case.rewrite[:at])


def cut_table(cases: Sequence[Case]) -> Table:
    """What is refused of whole texts and of cut ones, by set and language."""
    table, check = Table("text", [COLUMN]), Truncation()
    for case in cases:
        name = "foreign" if case.genre else "planted"
        what = "whole" if case.version == HONEST else "cut"
        refused = check(case.source, case.rewrite).reason == "stops_in_the_middle"
        table.count(f"{name}, {what}", {COLUMN: refused})
    return table

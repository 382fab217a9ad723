"""Measure what the fidelity checks catch and what they wrongly refuse.

    python -m tokenmill.bench.fidelity [--set foreign|planted|cuts] [--half dev|test] [--judged FILE | --with-judge SPEC]
    python -m tokenmill.bench.fidelity --tokens

Prints Markdown tables: what code refuses, what it asks the judge about, and with a judge what that refuses; of `cuts` what is
seen to end in the middle; with `--tokens` what judging costs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tokenmill.bench.fidelity import measure as tables
from tokenmill.bench.fidelity.cases import Case, foreign_cases, planted_cases
from tokenmill.bench.fidelity.cuts import cut_cases, cut_table
from tokenmill.bench.fidelity.data import HALVES
from tokenmill.bench.fidelity.judged import judge_cases, outdated, recorded_cases
from tokenmill.bench.fidelity.measure import Outcome
from tokenmill.bench.fidelity.table import Table
from tokenmill.schemas.verdicts import Verdict

TARGET = 0.95
"""Least share of planted numbers, dates and names that code should raise."""


def targets_missed(table: Table) -> list[str]:
    """One line for each kind of planted fact that code raises too seldom."""
    cells = {fault: table.cell(fault, tables.RAISED) for fault in tables.FACTS}
    return [f"{f}: {c}, the target is {TARGET:.0%}" for f, c in cells.items() if c.refused < TARGET * c.total]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.fidelity", description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=("foreign", "planted", "cuts"), default="foreign", help="default: foreign")
    parser.add_argument(
        "--tokens", action="store_true", help="what judging the honest versions of the foreign set costs"
    )
    parser.add_argument("--half", choices=HALVES, help="one half only (default: both)")
    judges = parser.add_mutually_exclusive_group()
    judges.add_argument("--with-judge", metavar="SPEC", help="a model SPEC; adds the judge's columns")
    judges.add_argument("--judged", type=Path, metavar="FILE", help="its columns from recorded answers instead")
    parser.add_argument("--embeddings", action="store_true", help="code checks the similarity of embeddings, too")
    parser.add_argument("--variants", type=int, default=1, metavar="N", help="planted: of each fault (default 1)")
    parser.add_argument("--paraphrases", type=int, metavar="N", help="planted: of N paraphrases only, drawn by hash")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=Path("out/bench-fidelity.sqlite"), help="the judge's answers")
    options = parser.parse_args(argv)
    if options.variants < 1:
        parser.error("--variants must be at least 1")
    halves = (options.half,) if options.half else HALVES
    if options.tokens:
        from tokenmill.bench.fidelity.tokens import table as token_table  # imports the pipeline

        print(token_table([case for half in halves for case in foreign_cases(half)]))
        return 0
    missed = []
    for half in halves:
        if options.set == "cuts":
            print(f"### cuts, {half} half\n\n{cut_table(list(cut_cases(half))).markdown()}\n")
            continue
        if options.set == "foreign":
            cases = foreign_cases(half)
        else:
            cases = planted_cases(half, options.variants, options.seed, options.paraphrases)
        if not cases:
            print(f"The {half} half of the {options.set} set is empty.")
            continue
        outcomes = tables.measure(
            cases, form=options.set == "foreign", similarity=options.embeddings, judged=_judged(options, cases)
        )
        print(f"### {options.set}, {half} half\n")
        _print(options.set, outcomes)
        if options.judged and (other := outdated(options.judged, cases)):
            print(f"Recorded answers given to other questions than code asks today: {other}.\n")
        if options.set == "planted" and not options.paraphrases:  # a sample is too small
            missed += [f"{half}: {line}" for line in targets_missed(tables.planted_table(outcomes))]
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


def _judged(options: argparse.Namespace, cases: Sequence[Case]) -> Sequence[Verdict | None]:
    if options.with_judge:
        options.cache.parent.mkdir(parents=True, exist_ok=True)
        return judge_cases(options.with_judge, cases, cache=options.cache)
    return recorded_cases(options.judged, cases) if options.judged else ()


def _print(name: str, outcomes: Sequence[Outcome]) -> None:
    if name == "planted":
        print(tables.planted_table(outcomes).markdown() + "\n")
    else:
        for dimension in (tables.ALL, *tables.DIMENSIONS):
            print(tables.foreign_table(outcomes, dimension).markdown() + "\n")
    print(
        f"Code refuses honest texts for: {tables.reasons(outcomes)}. Questions per text: {tables.per_text(outcomes)}.\n"
    )


if __name__ == "__main__":
    sys.exit(main())

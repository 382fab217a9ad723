"""Measure what the fidelity checks catch and what they wrongly refuse.

    python -m tokenmill.bench.fidelity [--with-judge SPEC | --judged [FILE]] [--half test] [--variants 2]

Prints a Markdown table: (a) embedding similarity, (b) coverage of facts, both, and with a judge model that too.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tokenmill.bench.fidelity.data import HALVES, Pair, pairs
from tokenmill.bench.fidelity.faults import FAULTS, plant
from tokenmill.bench.fidelity.judged import RECORDED, judge_pairs, recorded_pairs
from tokenmill.bench.fidelity.table import FACTS, HONEST, Table
from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.facts.coverage import Coverage
from tokenmill.schemas.draws import digest
from tokenmill.schemas.verdicts import Verdict

TARGETS = dict.fromkeys(FACTS, 0.95)
"""Least share that (a) and (b) together should catch, on the test half."""
TOLERATED = 0.05
"""Largest share of honest paraphrases that they may refuse."""


Judge = Callable[[list[tuple[str, str, str]]], list[Verdict | None]]
"""Verdicts on (source, rewrite, title); None for undecided ones."""


@dataclass(frozen=True)
class Case:
    """A text to be judged against its source; `fault` is `HONEST` or what was planted."""

    pair: Pair
    fault: str
    rewrite: str


def cases(halves: Sequence[str], variants: int, seed: int = 0, paraphrases: int | None = None) -> list[Case]:
    """Every honest paraphrase of the halves, or `paraphrases` of them drawn by hash, and up to `variants` of each fault
    planted in it."""
    found = []
    chosen = [pair for pair in pairs() if pair.half in halves]
    if paraphrases:
        chosen = sorted(chosen, key=lambda pair: digest("paraphrase", seed, pair.id))[:paraphrases]
    for pair in chosen:
        found.append(Case(pair, HONEST, pair.rewrite))
        found += [Case(pair, fault, text) for fault in FAULTS for text in plant(pair, fault, variants, seed)]
    return found


async def similar(work: Sequence[Case], check: Similarity) -> list[bool]:
    """Whether check (a) refuses each case."""
    verdicts = await asyncio.gather(*(check(case.pair.source, case.rewrite) for case in work))
    return [not verdict.passed for verdict in verdicts]


def tabulate(work: Sequence[Case], *, similarity: bool = True, judge: Judge | None = None) -> Table:
    """Judge every case; without `similarity` the columns of (a) are left out, without `judge` those of the judge."""
    coverage = Coverage()
    b = [not coverage(case.pair.source, case.rewrite, case.pair.title).passed for case in work]
    a = asyncio.run(similar(work, Similarity())) if similarity else [False] * len(work)
    columns = ["(a) similarity", "(b) coverage", "(a)+(b)"] if similarity else ["(b) coverage"]
    judged: Sequence[Verdict | None] = [None] * len(work)
    if judge:
        columns += ["judge", "(a)+(b)+judge" if similarity else "(b)+judge"]
        judged = judge([(c.pair.source, c.rewrite, c.pair.title) for c in work])
    table = Table(columns)
    for case, by_a, by_b, verdict in zip(work, a, b, judged, strict=True):
        refused = {"(a) similarity": by_a, "(b) coverage": by_b, "(a)+(b)": by_a or by_b}
        if verdict is not None:
            refused |= dict.fromkeys(columns[-1:], by_a or by_b or not verdict.passed) | {"judge": not verdict.passed}
        table.count(case.pair.half, case.fault, {c: was for c, was in refused.items() if c in columns})
    return table


def targets_missed(table: Table, half: str = "test") -> list[str]:
    """One line for each target that (a)+(b), or (b) where it was measured alone, misses on `half`."""
    missed = []
    column = "(a)+(b)" if "(a)+(b)" in table.columns else "(b) coverage"
    for fault, least in TARGETS.items():
        cell = table.cell(half, fault, column)
        if cell.total and cell.refused < least * cell.total:
            missed.append(f"{fault}: {cell}, the target is {least:.0%}")
    cell = table.cell(half, HONEST, column)
    if cell.refused > TOLERATED * cell.total:
        missed.append(f"{HONEST}: {cell}, the target is at most {TOLERATED:.0%}")
    return missed


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.fidelity", description=__doc__.splitlines()[0])
    judges = parser.add_mutually_exclusive_group()
    judges.add_argument("--with-judge", metavar="SPEC", help="a model SPEC; adds the judge's columns")
    judges.add_argument(
        "--judged",
        type=Path,
        nargs="?",
        const=RECORDED,
        metavar="FILE",
        help="its columns from recorded answers instead",
    )
    parser.add_argument("--half", choices=("dev", "test"), help="one half only (default: all there are)")
    parser.add_argument("--variants", type=int, default=2, metavar="N", help="of each fault per paraphrase (default 2)")
    parser.add_argument(
        "--paraphrases", type=int, metavar="N", help="of N paraphrases only, drawn by hash (default: all)"
    )
    parser.add_argument("--coverage-only", action="store_true", help="check (b) alone, a hundred times as fast")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=Path("out/bench-fidelity.sqlite"), help="the judge's answers")
    options = parser.parse_args(argv)
    if options.variants < 1:
        parser.error("--variants must be at least 1")
    halves = [options.half] if options.half else list(HALVES)
    if "test" in halves and not pairs("test"):
        print("There is no test half yet: no target can be judged, only the development half can be measured.")
        if options.half == "test":
            return 2
        halves.remove("test")
    work = cases(halves, options.variants, options.seed, options.paraphrases)
    judge: Judge | None = None
    if options.with_judge:
        options.cache.parent.mkdir(parents=True, exist_ok=True)
        judge = partial(judge_pairs, options.with_judge, cache=options.cache)
    elif options.judged:
        judge = partial(recorded_pairs, path=options.judged)
    table = tabulate(work, similarity=not options.coverage_only, judge=judge)
    print(table.markdown(halves))
    missed = targets_missed(table) if "test" in halves and not options.paraphrases else []  # a sample is too small
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

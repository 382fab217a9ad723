"""Which planted faults does code catch without a model, and which honest trajectories does it refuse?

    python -m tokenmill.bench.agentic.judging [--show]

On `dev` the checks were developed; `seen` was held out for a first run and then looked at; `test` was never tuned on. No
model is asked; a criterion that only the judge can decide counts as met.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from rich.console import Console
from rich.table import Table
from tokenmill.bench.agentic.judging_cases import Case, load, play, wording
from tokenmill.bench.agentic.judging_faults import Planted, faults, variants, worded
from tokenmill.judges.rubric.feasible import feasible
from tokenmill.judges.rubric.grade import by_code
from tokenmill.judges.rubric.validate import check_rubric

PARTS = ("dev", "seen", "test")
CAUGHT, REFUSED = 0.95, 0.02
"""At least this share of the faults caught, at most this share of the honest trajectories refused."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 when a goal is missed on `test`."""
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.bench.agentic.judging", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--show", action="store_true", help="list what was missed and what was refused, but those of `test`"
    )
    options = parser.parse_args(argv)
    console = Console()
    cases = {part: load(part) for part in PARTS}
    counts = {}
    for part in PARTS:
        show = console if options.show and part != "test" else None
        counts[part] = measure(cases[part], part, show) + measure_wording(chain(*cases.values()), part, show)
    console.print(_table(counts))
    return 0 if _good(counts["test"]) else 1


def measure(cases: Iterable[Case], part: str, show: Console | None = None) -> Counter[tuple[str, str, bool]]:
    """How many trajectories of each method code refused: (`honest` or `fault`, method, refused) -> number.

    Raises:
        ValueError: a task of the bench is broken: its rubric has faults or cannot be met.
    """
    counts: Counter[tuple[str, str, bool]] = Counter()
    started = time.perf_counter()
    for case in cases:
        _sound(case)
        for steps in case.honest:
            honest = [Planted("written by hand", "", play(case, steps)), *variants(case, steps)]
            for kind, planted in [*(("honest", p) for p in honest), *(("fault", p) for p in faults(case, steps, part))]:
                refusal = refused(case, planted)
                counts[kind, planted.method, bool(refusal)] += 1
                if show and bool(refusal) == (kind == "honest"):
                    show.print(f"{case.task.id}: {kind}, {planted.method} {planted.what}: {refusal or 'missed'}")
    counts["seconds", "", False] = round(1000 * (time.perf_counter() - started))
    return counts


def measure_wording(cases: Iterable[Case], part: str, show: Console | None = None) -> Counter[tuple[str, str, bool]]:
    """The same for the further honest answers of a part, which there are for the tasks of every part."""
    counts: Counter[tuple[str, str, bool]] = Counter()
    answers = wording(part)
    for case in cases:
        for planted in worded(case, answers.get(case.task.id, ())):
            refusal = refused(case, planted)
            counts["honest", planted.method, bool(refusal)] += 1
            if show and refusal:
                show.print(f"{case.task.id}: honest, {planted.method} {planted.what}: {refusal}")
    return counts


def _sound(case: Case) -> None:
    task = case.task
    problems = check_rubric(task.rubric, task.agent.tools, state=case.state, level=task.level)
    verdict = feasible(
        task.rubric,
        tools=task.agent.tools,
        state=case.state,
        solution=task.solution,
        reply=task.reply,
        level=task.level,
    )
    problems += [finding.detail for finding in verdict.findings]
    if problems:
        raise ValueError(f"task {task.id} of the bench: {problems[0]}")


def refused(case: Case, planted: Planted) -> str:
    """Why code alone refuses a trajectory, empty when it does not."""
    optional = {c.id for c in case.task.rubric if not c.mandatory}
    verdicts = by_code(case.task, planted.evidence)
    for name, verdict in verdicts.items():
        if verdict is not None and not verdict.passed and name not in optional:
            return f"{name}: {verdict.reason}: {verdict.detail}"
    return ""


def _table(counts: dict[str, Counter[tuple[str, str, bool]]]) -> Table:
    table = Table("", "method", *(f"{part}: refused" for part in PARTS), title="Refused by code alone")
    for kind in ("honest", "fault"):
        methods = dict.fromkeys(m for part in PARTS for k, m, _ in counts[part] if k == kind)
        for method in methods:
            table.add_row(kind, method, *(_share(_sum(counts[part], kind, method)) for part in PARTS))
        total = "all" if kind == "honest" else "all that code can decide"
        table.add_row(kind, total, *(_share(_total(counts[part], kind)) for part in PARTS), style="bold")
        table.add_section()
    table.add_row("", "ms in all", *(str(counts[part]["seconds", "", False]) for part in PARTS))
    return table


def _sum(counts: Counter[tuple[str, str, bool]], kind: str, method: str) -> tuple[int, int]:
    hit = counts[kind, method, True]
    return hit, hit + counts[kind, method, False]


def _total(counts: Counter[tuple[str, str, bool]], kind: str) -> tuple[int, int]:
    methods = {m for k, m, _ in counts if k == kind and not m.startswith("(")}
    sums = [_sum(counts, kind, method) for method in methods]
    return sum(hit for hit, _ in sums), sum(whole for _, whole in sums)


def _share(counted: tuple[int, int]) -> str:
    hit, whole = counted
    return f"{hit} of {whole} ({100 * hit / whole:.1f} %)" if whole else "-"


def _good(counts: Counter[tuple[str, str, bool]]) -> bool:
    caught, planted = _total(counts, "fault")
    lost, honest = _total(counts, "honest")
    return caught >= CAUGHT * planted and lost <= REFUSED * honest


if __name__ == "__main__":
    sys.exit(main())

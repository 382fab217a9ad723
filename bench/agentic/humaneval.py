"""Do reference solutions pass in the sandbox, and do planted wrong ones fail? All of them?

    python -m tokenmill.bench.agentic.humaneval FILE [--mutants 6] [--limit N]

FILE holds HumanEval-like tasks (JSONL or Parquet: task_id, prompt, entry_point, canonical_solution, test). Prints Markdown and
returns 1 if a reference solution was refused or a wrong one passed.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from tokenmill.bench.agentic.mutants import compares_plainly, mutants, planted, wrong_ones
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.pipelines.transforms.sources import Piece, RowUnreadable, raw_rows
from tokenmill.schemas.code import CodeTask, CodeVerdict
from tokenmill.tools_repo.code.grade import MODULE, Grader
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.code.workspace import Entry, Workspace


def read(path: Path, limit: int | None) -> list[CodeTask]:
    """The tasks of a file that bring a reference solution."""
    parser = CodeTaskParser()
    tasks = []
    for number, values in raw_rows(Piece(str(path), path.name), parser.columns, 5_000_000):
        if isinstance(values, RowUnreadable):
            raise SystemExit(f"{path} row {number}: {values}")
        try:
            task = parser(values, path.name, number)
        except RowUnreadable as error:
            raise SystemExit(f"{path} row {number}: {error}") from None
        if task.solution and task.entry_point:
            tasks.append(task)
    return tasks[:limit]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.bench.agentic.humaneval", description=__doc__.splitlines()[0]
    )
    parser.add_argument("file", type=Path, help="tasks as JSONL or Parquet")
    parser.add_argument("--mutants", type=int, default=6, help="mutants drawn for each task")
    parser.add_argument("--limit", type=int, help="the first N tasks only")
    args = parser.parse_args(argv)
    return asyncio.run(_measure(read(args.file, args.limit), args.mutants))


async def _measure(tasks: list[CodeTask], count: int) -> int:
    grader = Grader(Runtime.local())
    began = time.monotonic()
    verdicts = await asyncio.gather(*(grade(grader, task, task.solution[0].content) for task in tasks))
    took = time.monotonic() - began
    refused = [v.task_id for v in verdicts if not v.passed]
    right = len(tasks) - len(refused)
    wrong, survived = Counter[str](), Counter[str]()
    seconds = [v.seconds for v in verdicts]

    async def try_one(task: CodeTask, kind: str, text: str) -> None:
        verdict = await grade(grader, task, text)
        wrong[kind] += 1
        if verdict.passed or verdict.pass_rate == 1:
            survived[kind] += 1
            print(f"survived: {task.id}: {kind}\n{text}", file=sys.stderr)

    async def try_all(task: CodeTask) -> int:
        solution, test = task.solution[0].content, task.hidden_tests[0].content
        made = mutants(solution, task.entry_point, count, task.id) if compares_plainly(test) else []
        differing = await wrong_ones(grader.runtime, solution, test, task.entry_point, made) if made else []
        await asyncio.gather(*(try_one(task, *one) for one in (*planted(solution, task.entry_point), *differing)))
        return len(made)

    drawn = sum(await asyncio.gather(*map(try_all, tasks)))
    print("| solutions | tried | passed |\n|---|---|---|")
    print(f"| reference | {len(tasks)} | {right} |")
    for kind in wrong:
        print(f"| {kind} | {wrong[kind]} | {survived[kind]} |")
    print(f"| all wrong ones | {wrong.total()} | {survived.total()} |")
    print(f"\n{drawn} mutants were drawn; those whose results differ from the reference's were tried.")
    print(
        f"A verdict on a reference solution takes {statistics.median(seconds):.2f} s (median; longest {max(seconds):.2f} s), "
        f"{grader.runtime.slots} at a time {took / len(tasks):.2f} s per task."
    )
    for id in refused:
        print(f"refused: {id}", file=sys.stderr)
    return 1 if refused or survived else 0


async def grade(grader: Grader, task: CodeTask, text: str) -> CodeVerdict:
    return await grader.grade(task, Workspace({MODULE: Entry(text.encode())}))


if __name__ == "__main__":
    sys.exit(main())

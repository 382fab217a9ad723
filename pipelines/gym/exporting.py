"""Tasks and rewards of environments for another trainer: `tasks.jsonl` (for verl `tasks.parquet`) and `reward.py`.

python beam_runner.py gym export game24 tables --tasks 1000 --for trl --output OUT
python beam_runner.py gym export OUT/of/difficulty --for verl --output OUT      the rated tasks of a finished run
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import orjson
from tokenmill.pipelines.runs.exit import ended, say
from tokenmill.schemas.flags import Options, UsageError, flag, positive
from tokenmill.schemas.gym import GymTask

TRAINERS = ("trl", "verl", "verifiers")


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """What `gym export` may be given."""

    env: tuple[str, ...] = flag(name="env", metavar="ENV|DIR", help="environments, or outputs of `gym difficulty`")
    trainer: str = flag(name="--for", choices=TRAINERS, help="whose form")
    output: Path = flag(metavar="DIR", help="a folder that is not there yet, or is empty")
    tasks: int = flag(1000, metavar="N", parse=positive, help="tasks of each environment")
    seed: int = flag(0, metavar="N", help="of the tasks")


def run(options: ExportOptions, beam_args: Sequence[str] = (), command: Sequence[str] = ()) -> int:
    """`beam_runner.py gym export`; the exit code."""
    if beam_args:
        return say(f"unknown flag {beam_args[0]}", 2)
    return ended(lambda: _export(options))


COMMAND = SimpleNamespace(options=ExportOptions, run=run)


def _export(options: ExportOptions) -> int:
    from tokenmill.gym.export import REWARDS, VERL, row_for

    out = options.output
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--output {out}: is there already; name another folder")
    rows = [row_for(options.trainer, task) for task in _tasks(options)]
    out.mkdir(parents=True, exist_ok=True)
    if options.trainer == VERL:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), out / "tasks.parquet")
    else:
        (out / "tasks.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (out / "reward.py").write_text(REWARDS[options.trainer], encoding="utf-8")
    print(f"{len(rows)} tasks in {out}")
    return 0


def _tasks(options: ExportOptions) -> Iterator[GymTask]:
    from tokenmill.gym.export import check_exportable
    from tokenmill.pipelines.gym.environments import find, found, here

    for name in options.env:
        if Path(name, "data").is_dir():
            tasks = list(_rated(Path(name)))
            for one in {task.environment for task in tasks}:
                check_exportable(find(one, here()))
            yield from tasks
            continue
        for environment in found((name,), here()):
            check_exportable(environment)
            yield from itertools.islice(environment.tasks(options.seed), options.tasks)


def _rated(folder: Path) -> Iterator[GymTask]:
    from tokenmill.gym.files import records
    from tokenmill.schemas.columns import from_values

    for shard in sorted((folder / "data").glob("*.parquet")):
        for row in records(shard):
            try:
                yield from_values(GymTask, row)
            except ValueError as error:
                raise UsageError(f"{folder}: not the output of `gym difficulty`: {error}") from None

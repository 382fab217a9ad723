"""Write the kept rows of a finished run in another shape, for chat templates and endpoints that take no other.

    python beam_runner.py agentic export out/trajectories --format one_call --output out/for-llama

No model is called. `messages`, `tools` and what identifies a row go to Parquet as `datasets` loads it, or to JSON lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from tokenmill.pipelines.agentic.export.formats import FORMATS, Format
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import OK, ended
from tokenmill.schemas.flags import Options, flag

PAIRS = "pairs"
WHOLE, COMPARED = ("messages",), ("prompt", "chosen", "rejected")
"""Columns with conversations, of kept rows and of pairs."""
KEPT = ("id", "task_id", "level", "language", "license", "model")
"""Columns that go along, those of them that the rows have."""
BATCH = 200


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """What `agentic export` may be given."""

    dir: Path = flag(name="dir", metavar="DIR", help="folder of a finished run of trajectories")
    output: Path = flag(metavar="DIR", help="folder to write to; it must not be there")
    format: str = flag(
        choices=tuple(FORMATS),
        help="shape of the conversations; " + "; ".join(f"{name}: {one.meaning}" for name, one in FORMATS.items()),
    )
    jsonl: bool = flag(False, help="write JSON lines with messages and tools alone, in place of Parquet")


def export(run: Path, output: Path, shape: Format, *, jsonl: bool = False) -> dict[str, int]:
    """Write the rows of `data/`, and the pairs of `pairs/` where the run made some; rows by folder.

    Raises:
        UsageError: the run is not there or not finished, has no trajectories, or the output is there already.
    """
    if not (run / "manifest.json").is_file():
        raise UsageError(f"{run} holds no finished run (no manifest.json)")
    if output.exists():
        raise UsageError(f"--output {output}: it is there already; choose another folder")
    counts = {}
    for folder, columns in (("data", WHOLE), (PAIRS, COMPARED)):
        files = sorted((run / folder).glob("*.parquet"))
        if not files:
            continue
        if lacking := set(columns) - set(pq.read_schema(files[0]).names):
            raise UsageError(f"{files[0]} has no column {', '.join(sorted(lacking))}: these are no trajectories")
        counts[folder] = 0
        for file in files:
            name = file.with_suffix(".jsonl" if jsonl else ".parquet").name
            (output / folder).mkdir(parents=True, exist_ok=True)
            write = _write_lines if jsonl else _write_parquet
            counts[folder] += write(_shaped(file, columns, shape), output / folder / name, columns)
    return counts


def _shaped(file: Path, columns: Sequence[str], shape: Format) -> Iterator[list[dict[str, Any]]]:
    """Batches of a shard's rows in a format, as plain values."""
    with pq.ParquetFile(file) as shard:
        others = [name for name in KEPT if name in shard.schema_arrow.names]
        for batch in shard.iter_batches(batch_size=BATCH, columns=[*others, *columns, "tools"]):
            rows = batch.to_pylist()
            for row in rows:
                tools = orjson.loads(row["tools"])
                for column in columns:
                    row[column], row["tools"] = shape(row[column], tools)
            yield rows


def _write_parquet(batches: Iterator[list[dict[str, Any]]], path: Path, columns: Sequence[str]) -> int:
    written, writer = 0, None
    for rows in batches:
        arrays = {}
        for name in rows[0]:
            if name in columns:
                texts = [[_json(message) for message in row[name]] for row in rows]
                arrays[name] = pa.array(texts, pa.list_(pa.string())).cast(pa.list_(pa.json_()))
            elif name == "tools":
                arrays[name] = pa.array([_json(row[name]) for row in rows], pa.string()).cast(pa.json_())
            else:
                arrays[name] = pa.array([row[name] for row in rows], pa.string())
        table = pa.table(arrays)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
        written += len(rows)
    if writer is not None:
        writer.close()
    return written


def _write_lines(batches: Iterator[list[dict[str, Any]]], path: Path, columns: Sequence[str]) -> int:
    written = 0
    with path.open("wb") as file:
        for rows in batches:
            for row in rows:
                tools = {"tools": row["tools"]} if row["tools"] else {}
                file.write(
                    orjson.dumps({name: row[name] for name in columns} | tools, option=orjson.OPT_APPEND_NEWLINE)
                )
            written += len(rows)
    return written


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def run(options: ExportOptions, beam_args: Sequence[str] = (), command: Sequence[str] = ()) -> int:
    """`beam_runner.py agentic export`: the exit code."""

    def begin() -> int:
        if beam_args:
            raise UsageError(f"unknown flag {beam_args[0]}")
        counts = export(options.dir, options.output, FORMATS[options.format], jsonl=options.jsonl)
        told = " and ".join(f"{rows:,} rows in {folder}/" for folder, rows in counts.items()) or "no rows"
        print(f"{told} of {options.output}, as {options.format}")
        return OK

    return ended(begin)


COMMAND = SimpleNamespace(options=ExportOptions, run=run)

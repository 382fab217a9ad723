"""`--decontaminate`: benchmark files as the user names them, and the index that every worker looks texts up in."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from tokenmill.judges.corpus.contamination import COUNTED, VERSION, Hit, Index, Item, build, contamination, opened
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.inputs import InputFile, find
from tokenmill.pipelines.transforms.files import absolute
from tokenmill.pipelines.transforms.sources import Piece, raw_rows
from tokenmill.schemas.flags import flag
from tokenmill.schemas.verdicts import Verdict

MAX_ITEM_BYTES = 20_000_000
QUESTIONS = (
    *("question", "problem", "problem_statement", "prompt", "instruction", "instructions", "query", "ctx", "goal"),
    *("passage", "input", "task", "text"),
)
"""Columns that hold what a benchmark asks: of each row the first that is there, unless the user names some."""
NAMES = ("task_id", "instance_id", "question_id", "id", "name")
_BY_HAND = "#"


def decontaminate_flag() -> Any:
    """The field of options that names benchmark files."""
    return flag(
        (),
        group="what is kept",
        metavar="FILE",
        help="refuse what holds items of these benchmarks, or was written from a text that does: JSONL or Parquet, "
        "FILE#COLUMN,… where the question stands in other columns than usual",
    )


@dataclass(frozen=True)
class BenchmarkFile:
    """One file of a benchmark."""

    benchmark: str
    file: InputFile
    columns: tuple[str, ...]
    """Whose texts, put together, are an item; none: the first of `QUESTIONS` that a row has."""

    def items(self) -> Iterator[Item]:
        """Raises: OSError, ValueError: the file cannot be read."""
        for number, values in raw_rows(Piece(self.file.path, self.file.name), None, MAX_ITEM_BYTES):
            if not isinstance(values, dict):
                raise ValueError(f"row {number}: {values}")
            chosen = self.columns or tuple(_first(values))
            if text := "\n".join(filter(None, (_text(values.get(name)) for name in chosen))):
                named = next((values[name] for name in NAMES if isinstance(values.get(name), str | int)), number)
                yield Item(self.benchmark, str(named), text)


@dataclass(frozen=True)
class Benchmarks:
    """Benchmark files and their index. Travels to workers as the files' names: a machine that lacks the index makes it."""

    files: tuple[BenchmarkFile, ...]
    folder: str
    """Where indexes are kept on each machine, by what they were made of."""

    @cached_property
    def config(self) -> list[dict[str, Any]]:
        """What of them shapes the rows."""
        return [
            {"benchmark": one.benchmark, "columns": list(one.columns), "stamp": one.file.stamp} for one in self.files
        ]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(one.file.path for one in self.files)

    def absolute(self) -> Benchmarks:
        """The same for workers that were not started in this folder."""
        return replace(self, files=tuple(replace(one, file=one.file.absolute()) for one in self.files))

    @property
    def index(self) -> Index:
        """Built where it is not there yet.

        Raises:
            OSError, ValueError: a file cannot be read, or the index not be written.
        """
        made_of = orjson.dumps([VERSION, self.config, [one.file.name for one in self.files]])
        place = Path(self.folder, hashlib.sha256(made_of).hexdigest()[:32])
        if not (place / "index.json").exists():
            build((item for file in self.files for item in file.items()), place)
        return opened(str(place))

    def found(self, counters: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """What the manifest says of each benchmark, of a run with these counters."""
        return {
            name: {**counted, "refused": counters.get(f"{COUNTED}{name}", 0)}
            for name, counted in self.index.benchmarks.items()
        }

    def verdict(self, text: str | Words, source: str = "") -> tuple[Verdict, Hit | None]:
        """Whether a text may stay, and the item that it holds where it may not.

        Args:
            source: what a model wrote it from; empty for none.
        """
        words = text if isinstance(text, Words) else Words(text)
        return contamination(self.index, words, Words(source) if source else None)


def benchmarks(named: tuple[str, ...]) -> Benchmarks | None:
    """The benchmarks that `--decontaminate` names, with their index made; None where it names none.

    Raises:
        UsageError: a file is not there, cannot be read, or holds nothing that could be looked for.
    """
    files = [file for word in named for file in _files(word)]
    if not files:
        return None
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    made = Benchmarks(tuple(files), absolute(str(Path(base, "tokenmill", "benchmarks"))))
    try:
        counted = made.index.benchmarks
    except (OSError, ValueError) as error:
        raise UsageError(f"--decontaminate: {' '.join(str(error).split())[:300]}") from None
    for file in files:
        known = counted.get(file.benchmark, {"items": 0, "too_short": 0})
        if known["items"] == known["too_short"]:
            what = f"column {' or '.join(file.columns)}" if file.columns else f"any column of {', '.join(QUESTIONS)}"
            raise UsageError(
                f"--decontaminate {file.file.path}: no row has an item of 8 words or more in {what}; name its columns: "
                f"{file.file.path}#COLUMN,COLUMN"
            )
    return made.absolute()


def _files(word: str) -> Iterator[BenchmarkFile]:
    path, _, columns = word.partition(_BY_HAND)
    try:
        found = find((path,))
    except UsageError as error:
        raise UsageError(str(error).replace("--input", "--decontaminate", 1)) from None
    for file in found.files:
        name = Path(file.name).name.partition(".")[0]
        yield BenchmarkFile(name, file, tuple(filter(None, columns.split(","))))


def _first(values: dict[str, Any]) -> list[str]:
    return [name for name in QUESTIONS if _text(values.get(name))][:1]


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() else ""

"""What the benches of a corpus have in common: real passages, and documents as the first pass leaves them."""

from __future__ import annotations

import contextlib
import itertools
import json
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.corpus.duplicates import DecideDuplicates
from tokenmill.pipelines.corpus.portions import BATCH, Candidate, Decision, clean_file, row_key
from tokenmill.pipelines.corpus.prints import Prints, SignDocuments
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.draws import digest

PORTION = 10_000
"""Documents in a portion."""
SHUFFLED: Counter[str] = Counter()
"""Pairs that came to a grouping of `DecideDuplicates` in this process while `watched`, and their bytes."""


def passages(files: Iterable[Path], words: int) -> list[str]:
    """Consecutive passages of so many words of the texts of JSONL files."""
    found = []
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            split = json.loads(line)["text"].split(" ")
            found += [" ".join(split[at : at + words]) for at in range(0, max(1, len(split) - words // 4), words)]
    return [text for text in found if len(text.split()) >= words // 4]


def document(number: int, text: str) -> CorpusDocument:
    """A row whose id is its number."""
    blank = dict.fromkeys(("title", "url", "date", "license", "source", "given_id", "source_id"), "")
    return CorpusDocument(
        id=str(number),
        domain="web",
        text=text,
        language="en",
        source_file="",
        source_row=number,
        synthetic=False,
        lineage=f"{digest(number):016x}" * 2,
        source_rows=1,
        tokens=len(text) // 4,
        masked=0,
        quality=None,
        verdicts=[],
        **blank,
    )


def write(texts: Iterable[str], folder: Path) -> list[Path]:
    """The clean files of these texts, and their signatures in files, portion by portion."""
    made, portion = [], 0
    (folder / "clean").mkdir(parents=True, exist_ok=True)
    (folder / "prints").mkdir(exist_ok=True)
    rows: list[CorpusDocument] = []
    for number, text in enumerate(texts):
        rows.append(document(number, text))
        if len(rows) == PORTION:
            made.append(_portion(folder, portion, rows))
            portion, rows = portion + 1, []
    if rows:
        made.append(_portion(folder, portion, rows))
    return made


def _portion(folder: Path, portion: int, rows: Sequence[CorpusDocument]) -> Path:
    pq.write_table(to_table(rows, CorpusDocument), clean_file(str(folder), portion), row_group_size=BATCH)
    sign, path = SignDocuments(), folder / f"signed-{portion}"
    with path.open("wb") as file:
        for first in range(0, len(rows), BATCH):
            batch = [Candidate(row, Words(row.text), "") for row in rows[first : first + BATCH]]
            for prints in sign(range(row_key(portion, first), row_key(portion, first + len(batch))), batch):
                pickle.dump(prints, file)
    return path


class Load(beam.DoFn):
    """Signatures from a file, as the first pass gives them."""

    def process(self, path: str) -> Iterator[Prints]:
        with Path(path).open("rb") as file:
            while file.peek(1):
                yield pickle.load(file)


def decide(signed: Sequence[Path], folder: Path, **settings: Any) -> dict[int, Decision]:
    """Decisions by number of the document."""
    kept = folder / "decisions"
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = (
        pipeline
        | beam.Create([str(path) for path in signed], reshuffle=False)
        | beam.ParDo(Load())
        | DecideDuplicates(str(folder), **settings)
        | beam.ParDo(Keep(str(kept)))
    )
    pipeline.run().wait_until_finish()
    found = {}
    with kept.open("rb") as file:
        while file.peek(1):
            one = pickle.load(file)
            found[(one.key >> 32) * PORTION + (one.key & 0xFFFFFFFF)] = one
    return found


@contextlib.contextmanager
def watched() -> Iterator[Counter[str]]:
    """Meanwhile, what comes to groupings is counted."""
    apply, numbers = beam.Pipeline._apply_internal, itertools.count()

    def applied(self: beam.Pipeline, transform: Any, rows: Any = None, label: str | None = None) -> Any:
        inside = "DecideDuplicates" in self._current_transform().full_label
        if inside and isinstance(transform, beam.GroupByKey) and not label:
            rows = rows | f"Watch {next(numbers)}" >> beam.Map(_tally)
        return apply(self, transform, rows, label)

    SHUFFLED.clear()
    beam.Pipeline._apply_internal = applied  # type: ignore[method-assign, assignment]
    try:
        yield SHUFFLED
    finally:
        beam.Pipeline._apply_internal = apply  # type: ignore[method-assign]


def _tally(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    SHUFFLED["pairs"] += 1
    SHUFFLED["bytes"] += 8 + (len(pair[1]) if isinstance(pair[1], bytes) else 16)
    return pair


class Keep(beam.DoFn):
    """Decisions, written to a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def setup(self) -> None:
        self.file = Path(self.path).open("ab", buffering=0)  # noqa: SIM115 - open for as long as the worker is

    def process(self, one: Decision) -> None:
        self.file.write(pickle.dumps(one))

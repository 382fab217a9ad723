"""Counts that travel as data, beside the rows that they count.

Beam's metrics are of attempts on most runners: what is done twice, because a worker died or a stage was computed again, they
count twice, and after a restart they may begin at nothing. Data of a bundle that failed is dropped with its rows, so a sum
over counts is right wherever the rows are.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import apache_beam as beam
import orjson
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue
from tokenmill.pipelines.transforms.files import replace_file

COUNTS = "counts"
"""Tag of outputs of (name, number)."""
FILE = "counts.json"

_kept: WeakKeyDictionary[beam.Pipeline, list[beam.PCollection[Any]]] = WeakKeyDictionary()


def keep(counts: beam.PCollection[Any]) -> None:
    """Add (name, number) pairs to what `write_counts` sums up over the pipeline."""
    counts.element_type = beam.typehints.Tuple[str, int]
    _kept.setdefault(counts.pipeline, []).append(counts)


def count(rows: beam.PCollection[Any], name: str | Callable[[Any], str]) -> None:
    """Count the rows of a collection, under one name or each under its own."""
    after = rows.producer.full_label if rows.producer else "nothing"
    label = f"Count {name if isinstance(name, str) else name.__name__} after {after}"
    keep(rows | label >> beam.Map(lambda row: (name if isinstance(name, str) else name(row), 1)))


_here = threading.local()


def tally(name: str, number: int = 1) -> None:
    """Count within what a `Tallying` does, however deep."""
    _here.counts[name] += number


class Tallying(beam.DoFn):
    """A DoFn in which `tally` counts. Its `ParDo` has a further output, `COUNTS`, which is to be kept."""

    def start_bundle(self) -> None:
        _here.counts = Counter()  # what a bundle that failed had counted is dropped with its rows

    def finish_bundle(self) -> Iterator[Any]:
        # Whichever of several on this thread comes first hands over for all: sums do not mind.
        counts, _here.counts = _here.counts, Counter()
        window = GlobalWindow()
        for counted in counts.items():
            yield beam.pvalue.TaggedOutput(COUNTS, WindowedValue(counted, window.max_timestamp(), (window,)))


def write_counts(pipeline: beam.Pipeline, folder: str) -> None:
    """Sum up all that was kept of this pipeline, and write it to a file at its end."""
    _ = (
        tuple(_kept.pop(pipeline, ()))
        | "All counts" >> beam.Flatten(pipeline=pipeline)
        | "Sum counts" >> beam.CombinePerKey(sum)
        | "Gather counts" >> beam.combiners.ToDict()
        | "Write counts" >> beam.Map(_write, FileSystems.join(folder, FILE))
    )


def read_counts(folder: str) -> dict[str, int]:
    """The sums that a pipeline has written, by name.

    Raises:
        FileNotFoundError: it has not come that far.
    """
    path = FileSystems.join(folder, FILE)
    if not FileSystems.exists(path):
        raise FileNotFoundError(path)
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        counts: dict[str, int] = orjson.loads(file.read())
    return counts


def _write(counts: dict[str, int], path: str) -> None:
    part = f"{path}.{uuid.uuid4().hex}"
    with FileSystems.create(part, "application/json", compression_type="uncompressed") as file:
        file.write(orjson.dumps(counts, option=orjson.OPT_SORT_KEYS))
    replace_file(part, path)

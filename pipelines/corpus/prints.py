"""Signatures of documents, kept in a file beside the cleaned rows of each portion: what decides over all documents reads them
from there, some columns at a time, and shuffles records of 16 bytes in their place."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray
from tokenmill.judges.corpus import signatures
from tokenmill.pipelines.corpus.packed import Block
from tokenmill.pipelines.corpus.portions import Candidate, portion_of, row_of
from tokenmill.pipelines.transforms.files import replace_file
from tokenmill.pipelines.transforms.sinks import room_for

CUT_DOMAINS = ("web", "knowledge")
"""Whose repeated passages are taken out: code and mathematics with holes are worse than repeated."""
WORST = 0xFFFF
"""The last rank."""
PATH, RECORDS = b"P", b"R"

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Prints:
    """Signatures of consecutive documents of one portion."""

    portion: int
    first: int
    columns: Columns


@dataclass(frozen=True)
class SignDocuments:
    """What `ExtractAndFilter` has made of each batch; see `pipelines.corpus.portions.Sign`."""

    rank: Callable[[Candidate], int] | None = None
    """0 for what is kept first where documents repeat each other, at most `WORST`; by default the longer one."""

    def __call__(self, keys: Sequence[int], batch: Sequence[Candidate]) -> Iterator[Prints]:
        if not batch:
            return
        values = np.stack([signatures.minhash(one.words) for one in batch])
        found = [signatures.fingerprints(one.words) if one.document.domain in CUT_DOMAINS else None for one in batch]
        marks = [one[0] if one is not None else np.empty(0, np.uint64) for one in found]
        places = [one[1] if one is not None else np.empty(0, np.uint32) for one in found]
        rank = self.rank or longest_first
        yield Prints(
            portion_of(keys[0]),
            row_of(keys[0]),
            {
                "id": np.array([one.document.id.encode() for one in batch], "S64"),
                "rank": np.array([rank(one) for one in batch], np.uint16),
                # Texts that were made of one page have its address in common, and are no copies.
                "address": _halves(
                    signatures.address("" if one.document.synthetic else one.document.url) for one in batch
                ),
                "content": _halves(signatures.content(one.document.text) for one in batch),
                "source": np.array([int(one.document.lineage[:16], 16) for one in batch], np.uint64),
                "synthetic": np.array([one.document.synthetic for one in batch], bool),
                "words": np.array([one.words.count for one in batch], np.uint32),
                "bands": signatures.bands(values),
                "sketch": signatures.sketch(values),
                "marks": np.concatenate(marks),
                "places": np.concatenate(places),
                "marked": np.array([len(mine) for mine in marks], np.uint32),
            },
        )


def longest_first(candidate: Candidate) -> int:
    """The rank of a document by its words alone."""
    return WORST - min(candidate.words.count, WORST)


def _halves(hashes: Iterable[tuple[int, int]]) -> NDArray[np.uint64]:
    return np.array(list(hashes), np.uint64).reshape(-1, 2)


class KeepPrints(beam.PTransform[Any, Any]):
    """Prints -> (portion, its file, documents in it): a portion has one file where its prints come in a row, and else
    several."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def expand(self, prints: beam.PCollection[Any]) -> beam.PCollection[Any]:
        return prints | "Write prints" >> beam.ParDo(_Write(self.folder)).with_output_types(tuple[int, str, int])


class _Write(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def start_bundle(self) -> None:
        self._held: list[Prints] = []

    def process(self, prints: Prints) -> Iterator[tuple[int, str, int]]:
        last = self._held[-1] if self._held else None
        if last is not None and (last.portion, last.first + len(last.columns["rank"])) != (
            prints.portion,
            prints.first,
        ):
            yield self._write()
        self._held.append(prints)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._held:
            window = GlobalWindow()
            yield WindowedValue(self._write(), window.max_timestamp(), (window,))

    def _write(self) -> tuple[int, str, int]:
        held, self._held = self._held, []
        portion, first = held[0].portion, held[0].first
        columns = {name: np.concatenate([one.columns[name] for one in held]) for name in held[0].columns}
        path = FileSystems.join(self.folder, "prints", f"portion-{portion:08d}-{first:08d}.npz")
        made = io.BytesIO()
        np.savez(made, first=np.array(first), **columns)  # type: ignore[arg-type]  # no column is called allow_pickle
        part = f"{path}.part-{uuid.uuid4().hex}"
        with (
            room_for(path),
            FileSystems.create(part, "application/octet-stream", compression_type="uncompressed") as file,
        ):
            file.write(made.getbuffer())
        replace_file(part, path)
        return portion, path, len(columns["rank"])


class PortionPrints:
    """The signatures of one portion, read column by column."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(set(paths))  # which is their order in the portion

    def __getitem__(self, name: str) -> NDArray[Any]:
        """(documents, …) of one column; of documents that are missing between two files, zeros."""
        return self._column(name)

    def _column(self, name: str) -> NDArray[Any]:
        found: list[tuple[int, NDArray[Any]]] = []
        for path in self._paths:
            with (
                FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file,
                np.load(file) as arrays,
            ):
                found.append((int(arrays["first"]), arrays[name]))
        if name in ("marks", "places") or len(found) == 1:
            return np.concatenate([part for _, part in found])
        end = found[-1][0] + len(found[-1][1])
        column = np.zeros((end, *found[0][1].shape[1:]), found[0][1].dtype)
        for first, part in found:
            column[first : first + len(part)] = part
        return column

    @cached_property
    def rank(self) -> NDArray[np.uint64]:
        return self["rank"].astype(np.uint64)


class Beside(beam.PTransform[Any, Any]):
    """(parts, records by portion, …) -> (portion, values): every portion's files, with the records on its rows beside them."""

    def expand(self, given: Sequence[beam.PCollection[Any]]) -> beam.PCollection[Any]:
        parts, *several = given
        tagged = [parts | "Files" >> beam.Map(_file).with_output_types(Block)]
        tagged += [
            records | f"Records {n}" >> beam.MapTuple(_records).with_output_types(Block)
            for n, records in enumerate(several)
        ]
        return tagged | beam.Flatten() | "By portion" >> beam.GroupByKey()


def _file(part: tuple[int, str, int]) -> Block:
    return part[0], PATH + part[1].encode()


def _records(portion: int, records: bytes) -> Block:
    return portion, RECORDS + records


def prints_of(values: Iterable[bytes]) -> PortionPrints:
    """The signatures of a portion from the values beside it."""
    return PortionPrints(value[1:].decode() for value in values if value[:1] == PATH)


def records_of(values: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks of records from the values beside a portion."""
    return (value[1:] for value in values if value[:1] == RECORDS)

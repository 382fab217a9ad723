"""Passages that stand in several documents: taken out of all but the first, where they have 50 words or more.

Of each 26 consecutive runs of 25 words the lowest hash is a fingerprint of the document (winnowing): two documents that share
50 words in a row share one, by construction. Documents that share one are compared run by run in that neighbourhood, by
hashes of 32 bits: what is cut is 50 words and more in a row of which each lies in 25 words that an earlier document has.
(Lee et al. 2022 remove substrings of 50 tokens, by a suffix array of the whole corpus on one machine.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from tokenmill.judges.corpus.signatures import GRAM, PASSAGE, WINDOW
from tokenmill.judges.corpus.words import Words, mixed
from tokenmill.pipelines.corpus.copies import RANK_MASK, dead_rows
from tokenmill.pipelines.corpus.packed import (
    MOST,
    Block,
    Gather,
    Records,
    by_portion,
    cut,
    distinct,
    each,
    groups,
    parts,
    read,
)
from tokenmill.pipelines.corpus.portions import BATCH, clean_file, row_key
from tokenmill.pipelines.corpus.portions import Decision as RowDecision
from tokenmill.pipelines.corpus.prints import Beside, prints_of, records_of

CHECK, REASON = "repeated_passages", "mostly_repeated"
LEFT_WORDS = 50
"""Words that must be left of a document whose passages were taken out. So few hold no passage that only it has: of what is cut
elsewhere because this document has it, nothing is lost."""
MARKS = 32
"""Fingerprints of a document, about, for partitions."""
_MARK = np.dtype([("value", "<u8"), ("row", "<u8")])
_SHARED = np.dtype([("first", "<u8"), ("later", "<u8"), ("value", "<u8")])
_HEAD = np.dtype([("later", "<u8"), ("first", "<u8"), ("grams", "<u4"), ("id", "S64")])
_RANK = np.uint64(16)
_LOW = np.uint64(0xFFFFFFFF)
_QUOTED = 200


class FindPassages(beam.PTransform[Any, Any]):
    """(parts, what is dropped already by portion, …) -> RowDecision, for documents that are cut or dropped for it.

    Args:
        folder: where the clean files are.
        count: of documents, a singleton.
        copies: documents in which a passage may stand.
    """

    def __init__(self, folder: str, count: Any, copies: int = 1) -> None:
        super().__init__()
        self.folder = folder
        self.count = count
        self.copies = copies

    def expand(self, given: tuple[beam.PCollection[Any], ...]) -> beam.PCollection[Any]:
        parts, *_ = given
        shared = (
            given
            | "Left" >> Beside()
            | "Fingerprints" >> beam.ParDo(_Cut(), self.count).with_output_types(Block)
            | "Same fingerprint" >> beam.GroupByKey()
            | "Shared" >> each(share, self.copies)
        )
        runs = (parts, shared) | "To the first" >> Beside() | "Runs of the first" >> each(fetch, self.folder)
        return (parts, runs) | "To the later" >> Beside() | "Passages" >> each(passages, self.folder, gives=RowDecision)


class _Cut(Gather):
    def process(self, beside: tuple[int, Iterable[bytes]], count: int) -> Iterator[Block]:
        portion, values = beside
        prints = prints_of(values)
        rank = prints.rank
        rows = np.repeat(np.arange(len(rank)), prints["marked"])
        alive = ~dead_rows(values, len(rank))[rows]
        rows = rows[alive]
        records = np.empty(len(rows), _MARK)
        records["value"] = (prints["marks"][alive] & ~RANK_MASK) | rank[rows]
        records["row"] = (np.uint64(portion) << np.uint64(32)) | rows.astype(np.uint64)
        self.hold(parts(count * MARKS), records)
        if self.full:
            yield from self.flush()

    def blocks(self, kind: int, records: Records) -> Iterator[Block]:
        return cut((records["value"] >> _RANK) % np.uint64(kind), records)


def share(part: int, blocks: Iterable[bytes], copies: int) -> Iterator[Block]:
    """(first row, later row, fingerprint) of what stands in more than `copies` documents, by portion of the first.

    A group in which one fingerprint is frequent is gone through in parts, as in `near.pairs_of`.
    """
    count = sum(len(block) for block in blocks) // _MARK.itemsize
    several = -(-count // MOST)
    firsts, often = np.empty(0, _MARK), np.empty(0, np.uint64)
    if several > 1:
        for block in read(blocks, _MARK):
            firsts = distinct(np.concatenate([firsts, block]), "value", "row")
            value = firsts["value"] >> _RANK
            place = np.arange(len(firsts)) - np.searchsorted(value, value)
            firsts = firsts[place <= copies]
        value = firsts["value"] >> _RANK
        often = np.unique(value[np.arange(len(firsts)) - np.searchsorted(value, value) == copies])
    for number in range(several):
        mine = [block[mixed(block["row"]) % np.uint64(several) == number] for block in read(blocks, _MARK)]
        records = distinct(np.concatenate([firsts, *mine]), "value", "row")
        value = records["value"] >> _RANK
        leader = np.searchsorted(value, value)
        size = np.searchsorted(value, value, "right") - leader
        shared = (size > copies) | np.isin(value, often)
        later = np.flatnonzero(shared & (leader < np.arange(len(records))))
        made = np.empty(len(later), _SHARED)
        made["first"], made["later"] = records["row"][leader[later]], records["row"][later]
        made["value"] = value[later]
        yield from by_portion(made["first"], made)


def fetch(portion: int, values: Iterable[bytes], folder: str) -> Iterator[Block]:
    """The neighbourhoods of shared fingerprints as hashes of runs of words, by portion of the later document."""
    records = [np.frombuffer(block, _SHARED) for block in records_of(values)]
    if not records:
        return
    shared = distinct(np.concatenate(records), "first", "later", "value")
    prints = prints_of(values)
    ends = np.cumsum(prints["marked"])
    marks, places, ids = prints["marks"] >> _RANK, prints["places"], prints["id"]
    rows = [(key & 0xFFFFFFFF, shared[mine]) for key, mine in groups(shared["first"])]
    for (row, mine), text in zip(rows, texts_of(folder, portion, [row for row, _ in rows]), strict=True):
        grams = _runs(Words(text))
        begin = int(ends[row - 1]) if row else 0
        own, where = marks[begin : ends[row]], places[begin : ends[row]]
        for later, pairs in groups(mine["later"]):
            near = np.zeros(len(grams), bool)
            for at in where[np.isin(own, mine["value"][pairs])]:
                near[max(0, int(at) - WINDOW + 1) : int(at) + WINDOW] = True
            chosen = np.unique(grams[near])
            head = np.zeros(1, _HEAD)
            head["later"], head["first"] = later, row_key(portion, row)
            head["grams"], head["id"] = len(chosen), ids[row]
            yield later >> 32, head.tobytes() + chosen.tobytes()


def passages(portion: int, values: Iterable[bytes], folder: str) -> Iterator[RowDecision]:
    """What is cut out of the documents of a portion; of several first documents that one has its runs from, all are looked at."""
    found: dict[int, list[tuple[int, bytes, np.ndarray]]] = {}
    for block in records_of(values):
        head = np.frombuffer(block, _HEAD, 1)[0]
        grams = np.frombuffer(block, "<u4", int(head["grams"]), _HEAD.itemsize)
        found.setdefault(int(head["later"]), []).append((int(head["first"]), bytes(head["id"]), grams))
    order = sorted(found)
    for later, text in zip(order, texts_of(folder, portion, [key & 0xFFFFFFFF for key in order]), strict=True):
        firsts = sorted(found[later], key=lambda one: one[0])
        decision = decide(later, text, [(id.decode(), grams) for _, id, grams in firsts])
        if decision is not None:
            yield decision


def decide(key: int, text: str, firsts: list[tuple[str, np.ndarray]]) -> RowDecision | None:
    """What becomes of a text by the passages that it has from earlier documents: their ids, and hashes of their runs."""
    words = Words(text)
    mine = _runs(words)
    spans = repeated(mine, np.concatenate([grams for _, grams in firsts]))
    if not spans:
        return None
    taken = sum(end - begin for begin, end in spans)
    detail = f"{taken} of {words.count} words stand in {len(spans)} passages of earlier documents"
    begin, end = spans[0]
    quote = words.span(begin, end - 1)[:_QUOTED]
    of = max(firsts, key=lambda one: int(np.isin(mine, one[1]).sum()))[0]  # the first of those with most
    if words.count - taken < LEFT_WORDS:
        return RowDecision(key, CHECK, REASON, detail, quote, of, taken / words.count)
    cuts = tuple((int(words.starts[begin]), _after(words, end)) for begin, end in spans)
    return RowDecision(key, CHECK, "", detail, quote, of, cuts=cuts)


def repeated(mine: np.ndarray, theirs: np.ndarray) -> list[tuple[int, int]]:
    """[first, end) in words of the passages of `PASSAGE` words and more of which each lies in a run of `GRAM` words whose hash
    is among `theirs`.

    Args:
        mine: (n,) hashes of all runs of `GRAM` words of a text, in order.
    """
    steps = np.zeros(len(mine) + GRAM + 1, np.int64)
    hit = np.flatnonzero(np.isin(mine, theirs))
    np.add.at(steps, hit, 1)
    np.add.at(steps, hit + GRAM, -1)
    covered = np.concatenate([[False], np.cumsum(steps)[: len(mine) + GRAM - 1] > 0, [False]])
    begins = np.flatnonzero(covered[1:] & ~covered[:-1])
    ends = np.flatnonzero(~covered[1:] & covered[:-1])
    return [(int(b), int(e)) for b, e in zip(begins, ends, strict=True) if e - b >= PASSAGE]


def _after(words: Words, end: int) -> int:
    """Where the text goes on after the word before `end`: with the white space that followed it taken out, too."""
    last = int(words.ends[end - 1])
    rest = words.text[last : words.starts[end]] if end < words.count else words.text[last:]
    return last + len(rest) - len(rest.lstrip())


def _runs(words: Words) -> np.ndarray:
    """(n,) 32 bits of each run of `GRAM` words."""
    return (words.grams(GRAM) & _LOW).astype("<u4")


def texts_of(folder: str, portion: int, rows: list[int]) -> Iterator[str]:
    """The texts of these rows of a clean file, which are in order; those between are not held."""
    wanted = iter(rows)
    row = next(wanted, None)
    if row is None:
        return
    with FileSystems.open(clean_file(folder, portion), compression_type=CompressionTypes.UNCOMPRESSED) as raw:
        first = 0
        for batch in pq.ParquetFile(raw).iter_batches(batch_size=BATCH, columns=["text"]):
            texts = batch.column("text")
            while row is not None and row < first + len(texts):
                yield texts[row - first].as_py()
                row = next(wanted, None)
            if row is None:
                return
            first += len(texts)

"""Which documents repeat others: same address, same text, nearly the same text, the same source in too many words, passages of
50 words and more.

    decisions = prints | DecideDuplicates(folder)

One after the other, on what the steps before have left: copies by the million never reach the comparison of near ones, and
passages are only taken out of documents that stay, for the sake of documents that stay. What crosses a shuffle are records of
numbers (`packed`), addresses of files, and ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from tokenmill.judges.corpus.signatures import similarity
from tokenmill.pipelines.corpus.copies import DROP, EQUAL, NOT_COMPARED, FindCopies
from tokenmill.pipelines.corpus.near import THRESHOLD, FindNear
from tokenmill.pipelines.corpus.packed import Block, by_portion, by_row, each, parts
from tokenmill.pipelines.corpus.portions import Decision as RowDecision
from tokenmill.pipelines.corpus.prints import Beside, KeepPrints, prints_of, records_of
from tokenmill.pipelines.corpus.settle import Settle
from tokenmill.pipelines.corpus.sources import CountSources
from tokenmill.pipelines.corpus.spans import FindPassages

ADDRESS, TEXT, NEAR = "same_address", "exact_duplicate", "near_duplicate"
CHECK = "duplicates"
_COPIES, _DROPS = b"C", b"D"
_LOW = np.uint64(0xFFFFFFFF)


class DecideDuplicates(beam.PTransform[Any, Any]):
    """Prints -> RowDecision, for every document that is dropped or cut because it repeats another, and for rows of one source.

    Args:
        folder: where the clean files are; gets the signatures.
        threshold: similarity from which two documents are nearly the same.
        copies: documents in which a passage of 50 words may stand; 0 for any number.
    """

    def __init__(self, folder: str, threshold: float = THRESHOLD, copies: int = 1) -> None:
        super().__init__()
        self.folder = folder
        self.threshold = threshold
        self.copies = copies

    def expand(self, prints: beam.PCollection[Any]) -> beam.PCollection[Any]:
        parts = prints | KeepPrints(self.folder)
        sizes = parts | "Sizes" >> beam.Map(lambda part: part[2])
        count = beam.pvalue.AsSingleton(sizes | "Count" >> beam.CombineGlobally(sum))
        urls = (parts,) | "All" >> Beside() | "Same address" >> FindCopies("address", count)
        texts = (parts, urls) | "One of each address" >> Beside() | "Same text" >> FindCopies("content", count)
        pairs = (parts, urls, texts) | "Nearly the same" >> FindNear(count, self.threshold)
        near = pairs | "Settle" >> Settle(count)
        copied = (texts, near) | "Follow texts" >> _Follow(count)
        known = (copied, near) | "Known" >> beam.Flatten()
        addressed = (urls, known) | "Follow addresses" >> _Follow(count)
        dropped = (copied, near, addressed) | "Dropped" >> beam.Flatten()
        by_kept = dropped | "By kept row" >> each(_by_kept)
        decided = (parts, by_kept) | "To the kept" >> Beside() | "Name the kept" >> each(decisions, gives=RowDecision)
        again, told = (parts, urls, texts, near) | "Left" >> Beside() | "Same source" >> CountSources(count)
        if not self.copies:
            return (decided, told) | "Decided" >> beam.Flatten()
        passages = (parts, urls, texts, near, again) | "Passages" >> FindPassages(self.folder, count, self.copies)
        return (decided, told, passages) | "Decided" >> beam.Flatten()


class _Follow(beam.PTransform[Any, Any]):
    """(copies, drops), both blocks of `DROP` by portion -> the copies, of what their row was dropped for where it was."""

    def __init__(self, count: Any) -> None:
        super().__init__()
        self.count = count

    def expand(self, given: tuple[beam.PCollection[Any], ...]) -> beam.PCollection[Any]:
        copies, drops = given
        return (
            (
                copies | "Copies" >> each(_tagged, "of", _COPIES, count=self.count),
                drops | "Drops" >> each(_tagged, "row", _DROPS, count=self.count),
            )
            | beam.Flatten()
            | "By row" >> beam.GroupByKey()
            | "Follow" >> each(follow)
        )


def _tagged(_: int, records: bytes, name: str, tag: bytes, count: int) -> Iterator[Block]:
    drops = np.frombuffer(records, DROP)
    for part, block in by_row(drops[name], drops, parts(count)):
        yield part, tag + block


def follow(_: int, values: Iterable[bytes]) -> Iterator[Block]:
    """Copies with the row in whose place they are dropped: that which was kept, or that for which it was dropped itself."""
    known = np.concatenate(
        [np.empty(0, DROP), *(np.frombuffer(value, DROP, offset=1) for value in values if value[:1] == _DROPS)]
    )
    known = known[np.argsort(known["row"], kind="stable")]
    for value in values:
        if value[:1] != _COPIES:
            continue
        copies = np.frombuffer(value, DROP, offset=1).copy()
        if len(known):
            place = np.minimum(np.searchsorted(known["row"], copies["of"]), len(known) - 1)
            there = known["row"][place] == copies["of"]
            copies["of"][there] = known["of"][place[there]]
            equal = there & (copies["same"] == EQUAL)
            copies["same"][equal] = known["same"][place[equal]]
        yield from by_portion(copies["row"], copies)


def _by_kept(_: int, records: bytes) -> Iterator[Block]:
    drops = np.frombuffer(records, DROP)
    yield from by_portion(drops["of"], drops)


def decisions(portion: int, values: Iterable[bytes]) -> Iterator[RowDecision]:
    """What becomes of the rows that repeat rows of this portion."""
    ids: Any = None
    for block in records_of(values):
        if ids is None:
            ids = prints_of(values)["id"]
        for row, of, same in np.frombuffer(block, DROP).tolist():
            id = ids[of & 0xFFFFFFFF].decode()
            if same == NOT_COMPARED:
                yield RowDecision(row, CHECK, ADDRESS, f"the document {id} was read from the same address", of=id)
            elif same == EQUAL:
                yield RowDecision(row, CHECK, TEXT, f"the document {id} has the same text", of=id, similarity=1.0)
            else:
                alike = round(float(similarity(same)), 4)
                told = f"the document {id} has about {alike:.0%} of its runs of 5 words in common with it"
                yield RowDecision(row, CHECK, NEAR, told, of=id, similarity=alike)

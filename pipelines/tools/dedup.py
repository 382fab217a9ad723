"""Near-duplicates among any number of tools, found by keyed groupings: no index of them all stands in one process.

    kept, duplicates = specs | DropDuplicates(Likeness())

Locality-sensitive hashing, columnar: each tool gets 25 keys from its MinHash signature (Broder 1997), 32 from the signs
of its embedding (Charikar 2002) and one from what its name says. Tools that share a key are compared by short sketches,
pairs that survive by the full `Likeness`. Of each pair the tool that comes first in preference is kept, unless it is
itself a duplicate: the greedy choice in order of preference, whatever the runner, the order or the workers. (Kimi K2
report, section 3.1.1.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from tokenmill.pipelines.tools.bands import CutBands, close_pairs
from tokenmill.schemas.tools import ToolSpec
from tokenmill.tools_repo.specs.likeness import Fingerprint, Likeness

ROUNDS = 4
"""Passes over the found pairs that settle chains of duplicates; what a longer chain leaves open is kept."""
KEPT, DROPPED, OPEN = "kept", "dropped", "open"


@dataclass(frozen=True)
class Duplicate:
    """A tool that repeats a kept one."""

    tool: ToolSpec
    of: str
    """`id` of the kept tool."""
    similarity: float
    """1.0 for an exact duplicate."""


class Pair(NamedTuple):
    """Two tools found to be one; `first` is preferred."""

    first: int
    later: int
    first_id: str
    score: float


class DropDuplicates(beam.PTransform[Any, Any]):
    """ToolSpec (ids unique) -> (kept: ToolSpec, duplicates: Duplicate)."""

    def __init__(self, likeness: Likeness | None = None) -> None:
        super().__init__()
        self.likeness = likeness or Likeness()

    def expand(self, tools: beam.PCollection[Any]) -> tuple[beam.PCollection[Any], beam.PCollection[Any]]:
        prints = (
            tools
            | "Spread" >> beam.Reshuffle()
            | "Batch tools" >> beam.BatchElements(min_batch_size=16, max_batch_size=512)
            | "Fingerprint" >> beam.ParDo(_TakeFingerprints(self.likeness))
        )
        distinct = (
            prints
            | "By content" >> beam.Map(lambda row: (row[0].content, row))
            | "Same content" >> beam.GroupByKey()
            | "First of each" >> beam.ParDo(_FirstOfEach()).with_outputs(DROPPED, main=KEPT)
        )
        statuses = distinct[KEPT] | FindPairs(self.likeness) | Settle()
        joined = {
            "tools": distinct[KEPT] | "Key tools" >> beam.Map(lambda row: (row[0].key, row[1])),
            "copies": distinct[DROPPED],
            "status": statuses | "Decided" >> beam.Filter(lambda status: status[1][0] == DROPPED),
        }
        parted = joined | "Join" >> beam.CoGroupByKey() | beam.ParDo(_Part()).with_outputs(DROPPED, main=KEPT)
        return parted[KEPT], parted[DROPPED]


class FindPairs(beam.PTransform[Any, Any]):
    """(Fingerprint, anything) -> Pair, each once."""

    def __init__(self, likeness: Likeness) -> None:
        super().__init__()
        self.likeness = likeness

    def expand(self, rows: beam.PCollection[Any]) -> beam.PCollection[Any]:
        prints = rows | "Fingerprints" >> beam.Map(lambda row: row[0])
        count = beam.pvalue.AsSingleton(prints | beam.combiners.Count.Globally())
        candidates = (
            prints
            | "Batch" >> beam.BatchElements(min_batch_size=256, max_batch_size=2048)
            | "Cut into bands" >> beam.ParDo(CutBands(), count)
            | "Same band" >> beam.GroupByKey()
            | "Compare sketches" >> beam.FlatMapTuple(close_pairs)
        )
        firsts = {"prints": prints | "By key" >> beam.Map(lambda p: (p.key, p)), "later": candidates}
        with_first = firsts | "Fetch first" >> beam.CoGroupByKey() | "Hand on" >> beam.FlatMapTuple(_to_later)
        laters = {"prints": prints | "By key again" >> beam.Map(lambda p: (p.key, p)), "firsts": with_first}
        return laters | "Fetch later" >> beam.CoGroupByKey() | "Compare" >> beam.FlatMap(_compare, self.likeness)


class Settle(beam.PTransform[Any, Any]):
    """Pair -> (key, (`kept` | `dropped` | `open`, first, its id, score)) of every tool that is the later of some pair."""

    def expand(self, pairs: beam.PCollection[Any]) -> beam.PCollection[Any]:
        by_first = pairs | "By first" >> beam.Map(lambda pair: (pair.first, pair))
        statuses = pairs | "All open" >> beam.Map(lambda pair: (pair.later, (OPEN, 0, "", 0.0)))
        for turn in range(ROUNDS):
            statuses = (
                {"pairs": by_first, "status": statuses}
                | f"Status of first {turn}" >> beam.CoGroupByKey()
                | f"To later {turn}" >> beam.FlatMapTuple(_status_to_later)
                | f"By later {turn}" >> beam.GroupByKey()
                | f"Settle {turn}" >> beam.MapTuple(_settle)
            )
        return statuses


class _TakeFingerprints(beam.DoFn):
    def __init__(self, likeness: Likeness) -> None:
        self.likeness = likeness

    def setup(self) -> None:
        self.loop = asyncio.new_event_loop()

    def process(self, batch: list[ToolSpec]) -> Iterator[tuple[Fingerprint, ToolSpec]]:
        prints = self.loop.run_until_complete(self.likeness.fingerprints(batch))
        yield from zip(prints, batch, strict=True)

    def teardown(self) -> None:
        self.loop.close()


class _FirstOfEach(beam.DoFn):
    """Tools with the same content -> the preferred one, and (its key, copy) of every other."""

    def process(self, row: tuple[int, Iterable[tuple[Fingerprint, ToolSpec]]]) -> Iterator[object]:
        best = min(row[1], key=lambda mine: mine[0].key)
        yield best
        for mine in row[1]:
            if mine[0].key != best[0].key:
                yield beam.pvalue.TaggedOutput(DROPPED, (best[0].key, mine[1]))


def _to_later(key: int, found: dict[str, Iterable[Any]]) -> Iterator[tuple[int, Fingerprint]]:
    laters = set(found["later"])
    for first in found["prints"]:
        yield from ((later, first) for later in sorted(laters))


def _compare(row: tuple[int, dict[str, Iterable[Any]]], likeness: Likeness) -> Iterator[Pair]:
    _, found = row
    firsts = {first.key: first for first in found["firsts"]}
    for later in found["prints"]:
        for first in firsts.values():
            if score := likeness.score(first, later):
                yield Pair(first.key, later.key, first.id, score)


Status = tuple[str, int, str, float]


def _status_to_later(first: int, found: dict[str, Iterable[Any]]) -> Iterator[tuple[int, tuple[str, Pair]]]:
    status = next((status[0] for status in found["status"]), KEPT)  # never the later of a pair: nothing precedes it
    for pair in found["pairs"]:
        yield pair.later, (status, pair)


def _settle(key: int, firsts: Iterable[tuple[str, Pair]]) -> tuple[int, Status]:
    firsts = list(firsts)
    kept = [pair for status, pair in firsts if status == KEPT]
    if kept:
        best = max(kept, key=lambda pair: (pair.score, -pair.first))
        return key, (DROPPED, best.first, best.first_id, best.score)
    return key, (OPEN if any(status == OPEN for status, _ in firsts) else KEPT, 0, "", 0.0)


class _Part(beam.DoFn):
    """One distinct tool with its exact copies and its status -> the tool or a Duplicate, and a Duplicate of each copy."""

    def process(self, row: tuple[int, dict[str, Iterable[Any]]]) -> Iterator[object]:
        _, found = row
        tool = next(iter(found["tools"]))
        status = next(iter(found["status"]), None)
        if status is None:
            yield tool
            of, score = tool.id, 1.0
        else:
            _, _, of, score = status
            yield beam.pvalue.TaggedOutput(DROPPED, Duplicate(tool, of, score))
        for copy in found["copies"]:
            yield beam.pvalue.TaggedOutput(DROPPED, Duplicate(copy, of, score))

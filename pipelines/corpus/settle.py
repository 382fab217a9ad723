"""Which of the documents that repeat each other stay: the greedy choice in order of preference, whatever the runner, the order or
the workers.

A document is dropped if it is close to a preferred one that is kept, and only then: nothing is dropped for being close to what
is dropped itself. Chains are settled in rounds; what a longer chain leaves open is kept, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from tokenmill.pipelines.corpus.copies import DROP
from tokenmill.pipelines.corpus.packed import Block, Records, by_portion, by_row, distinct, each, parts
from tokenmill.pipelines.transforms.counts import keep

ROUNDS = 8
OPEN, KEPT, DROPPED = 0, 1, 2
LEFT_OPEN = "near duplicates left open"
"""Count of documents that are kept because their chain is longer than `ROUNDS`."""
_EDGE, _STATUS = b"E", b"S"
_ASKED = np.dtype([*DROP.descr, ("status", "u1")])
"""A pair, and what became of its preferred row."""
_SETTLED = np.dtype([*DROP.descr, ("status", "u1")])
"""A row, what became of it, and of which row it is a repetition where it is dropped."""


class Settle(beam.PTransform[Any, Any]):
    """Blocks of pairs by hash of the preferred row -> blocks of `DROP` by portion of the row that is dropped.

    Args:
        count: of documents, a singleton.
    """

    def __init__(self, count: Any) -> None:
        super().__init__()
        self.count = count

    def expand(self, pairs: beam.PCollection[Any]) -> beam.PCollection[Any]:
        edges = pairs | "Pairs" >> beam.MapTuple(_edge).with_output_types(Block)
        asked = edges | "By preferred" >> beam.GroupByKey() | "Ask" >> each(ask, False, count=self.count)
        settled = None
        for turn in range(ROUNDS):
            settled = asked | f"By later {turn}" >> beam.GroupByKey() | f"Settle {turn}" >> each(settle)
            if turn == ROUNDS - 1:
                break
            statuses = settled | f"Statuses {turn}" >> beam.MapTuple(_status).with_output_types(Block)
            asked = (
                (edges, statuses)
                | f"With statuses {turn}" >> beam.Flatten()
                | f"By preferred {turn}" >> beam.GroupByKey()
                | f"Ask {turn}" >> each(ask, True, count=self.count)
            )
        assert settled is not None
        keep(settled | "Count those left open" >> beam.FlatMapTuple(_left_open))
        return settled | "Dropped" >> each(_dropped)


def _edge(part: int, records: bytes) -> Block:
    return part, _EDGE + records


def _status(part: int, records: bytes) -> Block:
    return part, _STATUS + records


def _split(values: Iterable[bytes]) -> tuple[Records, Records]:
    edges = [np.frombuffer(value, DROP, offset=1) for value in values if value[:1] == _EDGE]
    known = [np.frombuffer(value, _SETTLED, offset=1) for value in values if value[:1] == _STATUS]
    return (
        distinct(np.concatenate([np.empty(0, DROP), *edges]), "of", "row"),
        np.concatenate([np.empty(0, _SETTLED), *known]),
    )


def ask(part: int, values: Iterable[bytes], begun: bool, count: int) -> Iterator[Block]:
    """Pairs with what became of their preferred rows, by hash of the later.

    Args:
        begun: whether it is known which rows are the later ones of a pair: all others are kept. Until then all are open.
    """
    edges, known = _split(values)
    made = np.empty(len(edges), _ASKED)
    for name in DROP.names or ():
        made[name] = edges[name]
    made["status"] = KEPT if begun else OPEN
    if len(known):
        known = known[np.argsort(known["row"], kind="stable")]
        place = np.minimum(np.searchsorted(known["row"], edges["of"]), len(known) - 1)
        there = known["row"][place] == edges["of"]
        made["status"][there] = known["status"][place[there]]
    yield from by_row(made["row"], made, parts(count))


def settle(part: int, blocks: Iterable[bytes]) -> Iterator[Block]:
    """What became of the later rows of a partition."""
    asked = np.concatenate([np.frombuffer(block, _ASKED) for block in blocks])
    if not len(asked):
        return
    rank = np.array([1, 0, 2], np.uint8)[asked["status"]]  # kept ones tell, then open ones
    order = np.lexsort((asked["of"], -asked["same"].astype(np.int32), rank, asked["row"]))
    asked = asked[order]
    best = asked[np.append(True, asked["row"][1:] != asked["row"][:-1])]
    made = np.empty(len(best), _SETTLED)
    for name in DROP.names or ():
        made[name] = best[name]
    made["status"] = np.array([OPEN, DROPPED, KEPT], np.uint8)[best["status"]]
    yield part, made.tobytes()


def _left_open(_: int, records: bytes) -> Iterator[tuple[str, int]]:
    left = int((np.frombuffer(records, _SETTLED)["status"] == OPEN).sum())
    if left:
        yield LEFT_OPEN, left


def _dropped(part: int, records: bytes) -> Iterator[Block]:
    settled = np.frombuffer(records, _SETTLED)
    chosen = settled[settled["status"] == DROPPED]
    made = np.empty(len(chosen), DROP)
    for name in DROP.names or ():
        made[name] = chosen[name]
    yield from by_portion(made["row"], made)

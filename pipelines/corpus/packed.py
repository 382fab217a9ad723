"""Records that cross a shuffle: rows of a few numbers, many of them packed into one value.

    (key, bytes of an array of one record type)

A key says a partition or a portion. Partitions grow in number with the rows, so that a group holds about `PER_GROUP`
records whatever the size of the corpus; and what is larger all the same, because one value is frequent, is gone through in
parts that are drawn by hash: the same parts whatever order a runner hands the values in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray
from tokenmill.judges.corpus.words import mixed

PER_GROUP = 1 << 20
"""Records that a group should have, about."""
MOST = 1 << 22
"""Records that are held at a time."""
HELD = 1 << 18
"""Records that a worker gathers before it cuts them into blocks."""
Block = tuple[int, bytes]
Records = NDArray[Any]

ROW_BITS = np.uint64(32)


def parts(records: float) -> int:
    """Partitions for so many records."""
    return max(1, -(-int(records) // PER_GROUP))


def cut(keys: NDArray[Any], records: Records) -> Iterator[Block]:
    """Records by their keys, one block a key."""
    order = np.argsort(keys, kind="stable")
    records = records[order]
    for key, mine in groups(keys[order]):
        yield key, records[mine].tobytes()


def groups(keys: NDArray[Any]) -> Iterator[tuple[int, slice]]:
    """Where each of the keys stands, which are in order."""
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])).tolist() if len(keys) else []
    for begin, end in pairwise([*begins, len(keys)]):
        yield int(keys[begin]), slice(begin, end)


def by_portion(rows: NDArray[np.uint64], records: Records) -> Iterator[Block]:
    """Records by the portion of the rows that they belong to."""
    return cut(rows >> ROW_BITS, records)


def by_row(rows: NDArray[np.uint64], records: Records, count: int) -> Iterator[Block]:
    """Records by a hash of the rows that they belong to, in so many partitions."""
    return cut(mixed(rows) % np.uint64(count), records)


def distinct(records: Records, *names: str) -> Records:
    """The records in order of these fields, one of each of their values. (NumPy sorts records as a whole ten times as slowly.)"""
    ordered = records[np.lexsort([records[name] for name in reversed(names)])]
    new = np.ones(len(ordered), bool)
    if len(ordered):
        new[1:] = np.logical_or.reduce([ordered[name][1:] != ordered[name][:-1] for name in names])
    return ordered[new]


class Gather(beam.DoFn):
    """Holds what `records` makes of an element until there is much of it, and hands it on in blocks; subclasses say which.

    What is held is cut by `blocks` when there are `HELD` records, or the bundle ends.
    """

    def start_bundle(self) -> None:
        self._held: dict[Any, list[Records]] = {}
        self._count = 0

    def hold(self, kind: Any, records: Records) -> None:
        self._held.setdefault(kind, []).append(records)
        self._count += len(records)

    @property
    def full(self) -> bool:
        return self._count >= HELD

    def blocks(self, kind: Any, records: Records) -> Iterable[Any]:
        raise NotImplementedError

    def flush(self) -> Iterator[Any]:
        held, self._held, self._count = self._held, {}, 0
        for kind, several in held.items():
            yield from self.blocks(kind, np.concatenate(several))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window = GlobalWindow()
        for block in self.flush():
            yield WindowedValue(block, window.max_timestamp(), (window,))


def read(blocks: Iterable[bytes], kind: np.dtype[Any]) -> Iterator[Records]:
    """The blocks of a group, one array each."""
    return (np.frombuffer(block, kind) for block in blocks)


def each(function: Callable[..., Iterable[Any]], *args: Any, count: Any = None, gives: Any = Block) -> Any:
    """What a function of (key, value, *args) makes of each pair; with a `count`, which is a side input, that comes last."""
    made = beam.ParDo(_Pairwise(function, args)) if count is None else beam.ParDo(_Pairwise(function, args), count)
    return made.with_output_types(gives)


class _Pairwise(beam.DoFn):
    def __init__(self, function: Callable[..., Iterable[Any]], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args

    def process(self, pair: tuple[int, Any], count: int | None = None) -> Iterable[Any]:
        return self.function(*pair, *self.args, *(() if count is None else (count,)))

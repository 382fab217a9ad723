"""Does a text hold an item of a benchmark? Looked up by runs of words in an index that lies on disk.

A text is refused for any run of 13 words that it shares with an item (Brown et al. 2020), for runs of 8 words that
together cover 30 % of one item's words, and for a whole item of 8 to 12 words. Shorter items are ordinary phrases: they are
counted, and not looked for. A text that a model wrote from another hides what its source holds (Yang et al. 2023, arXiv
2311.04850): where there is a source, it is looked up, too.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from tokenmill.judges.corpus.words import Hashes, Words
from tokenmill.schemas.verdicts import Finding, Verdict

RUN, PART, SHARE = 13, 8, 0.3
"""Words of a run that tells by itself; of one that counts towards the share; and the share of an item's words."""
VERSION = 1
"""Of the index: another makes it anew."""
CHECK, REASON = "contamination", "contaminated"
COUNTED = "contaminated by "
"""How the counters of refusals by benchmark begin."""
_QUOTED = 300
_NAME = 120
"""Bytes of an item's name that are kept."""


@dataclass(frozen=True)
class Item:
    """One task of a benchmark."""

    benchmark: str
    name: str
    """What the benchmark calls it."""
    text: str


@dataclass(frozen=True)
class Hit:
    """An item that stands in a text."""

    benchmark: str
    item: str
    share: float
    """Of the item's words that stand there."""
    quote: str
    """Verbatim from the text."""
    rule: str
    """What was found, in words."""

    @property
    def counter(self) -> str:
        """Under which refusals for this benchmark are counted."""
        return f"{COUNTED}{self.benchmark}"


def build(items: Iterable[Item], folder: Path) -> None:
    """Write the index of some items into a folder that does not exist yet; it appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    benchmarks: dict[str, list[int]] = {}
    names, lengths, of = list[bytes](), list[int](), list[int]()
    parts, owners, places = list[Hashes](), list[int](), list[NDArray[np.uint32]]()
    runs, run_owners, whole = list[Hashes](), list[int](), list[tuple[int, int]]()
    for item in items:
        words = Words(item.text)
        counted = benchmarks.setdefault(item.benchmark, [len(benchmarks), 0, 0])
        counted[1] += 1
        if words.count < PART:
            counted[2] += 1
            continue
        number = len(names)
        names.append(item.name.encode()[:_NAME])
        lengths.append(words.count)
        of.append(counted[0])
        parts.append(words.grams(PART))
        owners.append(number)
        places.append(np.arange(len(parts[-1]), dtype=np.uint32))
        if words.count < RUN:
            whole.append((int(words.grams(words.count)[0]), number))
        else:
            runs.append(words.grams(RUN))
            run_owners.append(number)
    arrays = {
        "names": np.array(names or [b""], f"S{_NAME}"),
        "lengths": np.array(lengths, np.uint32),
        "of": np.array(of, np.uint32),
        **_table("part", parts, owners, np.concatenate(places) if places else np.empty(0, np.uint32)),
        **_table("run", runs, run_owners),
        **_table("whole", [np.array([gram], np.uint64) for gram, _ in whole], [number for _, number in whole]),
    }
    draft = folder.with_name(f"{folder.name}.part-{uuid.uuid4().hex}")
    draft.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(draft / f"{name}.npy", array)
    told = {"benchmarks": {name: {"items": c[1], "too_short": c[2]} for name, c in benchmarks.items()}}
    (draft / "index.json").write_bytes(orjson.dumps({"version": VERSION, **told}))
    try:
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft)
        if not (folder / "index.json").exists():  # else another process was first
            raise


def _table(
    name: str, grams: list[Hashes], owners: list[int], places: NDArray[np.uint32] | None = None
) -> dict[str, NDArray[Any]]:
    """Hashes in order, with the item of each and where in it they stand."""
    values = np.concatenate(grams) if grams else np.empty(0, np.uint64)
    numbers = np.repeat(np.array(owners, np.uint32), [len(part) for part in grams])
    order = np.argsort(values, kind="stable")
    table: dict[str, NDArray[Any]] = {f"{name}_grams": values[order], f"{name}_items": numbers[order]}
    return table | ({} if places is None else {f"{name}_places": places[order]})


@dataclass(frozen=True)
class Index:
    """What `build` wrote, mapped into memory: all processes of a machine share it."""

    folder: Path

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {path.stem: np.load(path, mmap_mode="r") for path in sorted(self.folder.glob("*.npy"))}

    @cached_property
    def benchmarks(self) -> dict[str, dict[str, int]]:
        """By name: items, and how many of them are `too_short` to be looked for."""
        return orjson.loads((self.folder / "index.json").read_bytes())["benchmarks"]

    @cached_property
    def _short(self) -> list[int]:
        """Words of the items that are looked for as a whole, each number once."""
        return [int(length) for length in np.unique(self["lengths"][self["whole_items"]])]

    def find(self, words: Words) -> Hit | None:
        """The item that a text most clearly holds, or None."""
        known, found = self["part_grams"], words.grams(PART)
        if not len(known) or not len(found):
            return None
        # Whatever else is looked for has a run of 8 words: most texts end here.
        first = np.searchsorted(known, found)
        met = np.flatnonzero(known[np.minimum(first, len(known) - 1)] == found)
        if not len(met):
            return None
        return self._run(words) or self._whole(words) or self._covered(words, met, found)

    def _run(self, words: Words) -> Hit | None:
        at, item = self._lookup("run", words.grams(RUN))
        if not len(at):
            return None
        mine = at[item == item[0]]
        # As far as the first run goes on without a gap.
        length = int(np.argmax(np.append(np.diff(mine) != 1, True)))
        last = int(mine[length]) + RUN - 1
        share = min(1.0, (last - int(mine[0]) + 1) / int(self["lengths"][item[0]]))
        return self._hit(int(item[0]), share, words, int(mine[0]), last, f"{last - int(mine[0]) + 1} words in a row of")

    def _whole(self, words: Words) -> Hit | None:
        for length in self._short:
            at, item = self._lookup("whole", words.grams(length))
            fits = self["lengths"][item] == length
            if fits.any():
                place, number = int(at[fits][0]), int(item[fits][0])
                return self._hit(number, 1.0, words, place, place + length - 1, f"all {length} words of")
        return None

    def _covered(self, words: Words, met: NDArray[Any], found: Hashes) -> Hit | None:
        known = self["part_grams"]
        grams, where = np.unique(found[met], return_index=True)
        first, last = np.searchsorted(known, grams), np.searchsorted(known, grams, "right")
        counts = last - first
        rows = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        item, place = self["part_items"][rows].astype(np.int64), self["part_places"][rows].astype(np.int64)
        order = np.lexsort((place, item))
        item, place = item[order], place[order]
        place_in_text = np.repeat(met[where], counts)[order]
        # Each run of 8 covers what the next one of the same item does not begin with.
        apart = np.full(len(place), PART)
        apart[:-1] = np.where(item[1:] == item[:-1], np.minimum(PART, place[1:] - place[:-1]), PART)
        items, begins = np.unique(item, return_index=True)
        shares = np.add.reduceat(apart, begins) / self["lengths"][items]
        best = int(np.argmax(shares))
        if shares[best] < SHARE:
            return None
        at = int(place_in_text[begins[best]])
        rule = f"{shares[best]:.0%} of the words, in runs of {PART}, of"
        return self._hit(int(items[best]), float(shares[best]), words, at, at + PART - 1, rule)

    def _lookup(self, name: str, grams: Hashes) -> tuple[NDArray[Any], NDArray[Any]]:
        """(where in the text, item) of all runs of words that are in a table."""
        known = self[f"{name}_grams"]
        if not len(known):
            return np.empty(0, np.int64), np.empty(0, np.uint32)
        first = np.minimum(np.searchsorted(known, grams), len(known) - 1)
        at = np.flatnonzero(known[first] == grams)
        return at, self[f"{name}_items"][first[at]]

    def _hit(self, item: int, share: float, words: Words, first: int, last: int, rule: str) -> Hit:
        benchmark = list(self.benchmarks)[int(self["of"][item])]
        name = bytes(self["names"][item]).decode("utf-8", "ignore")
        return Hit(benchmark, name, share, words.span(first, last)[:_QUOTED], rule)


@lru_cache(maxsize=4)
def opened(folder: str) -> Index:
    """The index in a folder, once per process."""
    return Index(Path(folder))


def contamination(index: Index, text: Words, source: Words | None = None) -> tuple[Verdict, Hit | None]:
    """What the index says of a text, and of the text that it was written from.

    Args:
        source: of the text that a model wrote it from, where there is one.
    """
    hit, where = index.find(text), "the text"
    if hit is None and source is not None:
        hit, where = index.find(source), "the text that it was written from"
    if hit is None:
        return Verdict(CHECK, True, 1.0), None
    said = f"Leave the text out: {where} has {hit.rule} the item {hit.item} of {hit.benchmark}."
    quoted = {"rewrite": hit.quote} if where == "the text" else {"source": hit.quote}
    return Verdict(CHECK, False, 1 - hit.share, REASON, (Finding("benchmark_item", said, **quoted),)), hit

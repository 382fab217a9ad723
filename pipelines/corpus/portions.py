"""The unit of work of a corpus, and what its stages tell each other.

A portion is a part of the input that one worker reads in one go. It becomes one file of cleaned rows under
`FOLDER/clean/`, and a row's key is the portion's number and the row's place in that file: 64 bits that decisions travel
by, while texts stay in files.

    portions | ExtractAndFilter | clean files + what `Sign` makes of each batch | decide | ApplyDecisions | data, rejected
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from apache_beam.io.filesystems import FileSystems
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.transforms.sources import Piece
from tokenmill.schemas.corpus import CorpusDocument

FILES, PORTIONS = 64, 64
"""Whole files are put together, at most so many in a portion, as long as there are so many portions."""
BATCH = 512
"""Documents that are signed and written at a time."""
_ROW = 32
"""Bits of a key that tell the row."""


@dataclass(frozen=True)
class Portion:
    """Consecutive pieces of the input."""

    number: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Candidate:
    """A document that passed every check of itself, while its text is at hand."""

    document: CorpusDocument
    words: Words
    """Of `document.text`, as every check and signature takes them."""
    source_text: str
    """The text that it was written from, where it is synthetic; else empty."""


class Sign(Protocol):
    """What deciding over all documents needs to know of each: signatures, n-gram hits, sizes. Picklable.

    Called in the worker that has just filtered these documents, on up to `BATCH` of one portion in order; whatever it yields
    is an element of `Cleaned.prints`. Yield arrays over the batch, not a tuple per document, and no text.
    """

    def __call__(self, keys: Sequence[int], batch: Sequence[Candidate], /) -> Iterable[Any]: ...


class Decision(NamedTuple):
    """What is to become of one cleaned row. Several may fall on a row: one with a reason drops it, the first by (reason, of)."""

    key: int
    """See `row_key`."""
    check: str
    """Name of the check that the verdict stands under: `near_duplicate`, `contamination`, ..."""
    reason: str = ""
    """Why the row is dropped; empty where it is only cut."""
    detail: str = ""
    quote: str = ""
    of: str = ""
    """`id` of the kept document that it repeats."""
    similarity: float = -1.0
    """Measured, in [0, 1]; negative for none."""
    cuts: tuple[tuple[int, int], ...] = ()
    """[start, end) in characters that are taken out of the text."""
    source_rows: int = 0
    """See `CorpusDocument`; 0 where the decision does not say."""


def row_key(portion: int, row: int) -> int:
    """The key of a row of a clean file."""
    return portion << _ROW | row


def portion_of(key: int) -> int:
    """The portion of a row's key."""
    return key >> _ROW


def row_of(key: int) -> int:
    """The row of a key, in its portion's clean file."""
    return key & ((1 << _ROW) - 1)


def clean_file(folder: str, portion: int) -> str:
    """Where a portion's cleaned rows are: Parquet of `CorpusDocument`, in order. A portion without rows has an empty one."""
    return FileSystems.join(folder, "clean", f"portion-{portion:08d}.parquet")


def portions_of(pieces: Sequence[Piece]) -> Iterator[Portion]:
    """The pieces in portions, in order: parts of large files each their own, whole small files several together."""
    together = max(1, min(FILES, len(pieces) // PORTIONS))
    number, held = 0, list[Piece]()
    for piece in pieces:
        whole = piece.row_group < 0 and piece.end < 0 and not piece.offset and not piece.heavy
        if held and (not whole or len(held) == together):
            yield Portion(number, tuple(held))
            number, held = number + 1, []
        held.append(piece)
        if not whole:
            yield Portion(number, tuple(held))
            number, held = number + 1, []
    if held:
        yield Portion(number, tuple(held))

"""Documents as the sources read them, and what becomes of an input row that cannot be processed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tokenmill.schemas.columns import column


@dataclass(frozen=True)
class Document:
    """One input document."""

    id: str = column("identifier, from the input's `id` column or else a hash of file and row")
    title: str = column("title, possibly empty")
    text: str = column("the document, Unicode NFC, newlines as \\n")
    language: str = column("ISO 639-1 code, from the input or detected; `und` when undetermined")
    license: str = column("licence as the input states it, possibly empty")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row (Parquet), line (JSONL) or 0 (text files) in that file")
    source: str = column("where it is from, as the input's own `source` column says, possibly empty", default="")
    url: str = column("its address, as the input's own `url` column says, possibly empty", default="")


@dataclass(frozen=True, kw_only=True)
class FailedRow:
    """An input row, or a piece of work on it, that could not be processed: no judge refused it, something broke."""

    id: str = column("identifier of the row that failed, as it would stand in `data/`")
    source_id: str = column("identifier of the source document, empty when it could not be read")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row or line in that file")
    step: str = column("where it failed: `read`, `rollout`, ...")
    error: str = column("kind of error: `duplicate_id`, `empty_text`, `invalid_utf8`, `CallRefused`, ...")
    message: str = column("what happened, one line")
    excerpt: str = column("beginning of the input concerned, at most 500 characters")


class Source(Protocol):
    """A row that was read from a file: a document, a problem, a coding task."""

    @property
    def id(self) -> str: ...

    @property
    def source_file(self) -> str: ...

    @property
    def source_row(self) -> int: ...


def failed_row(
    id: str,
    step: str,
    error: str,
    message: str,
    excerpt: str,
    source: Source | None = None,
    *,
    source_id: str | None = None,
    source_file: str = "",
    source_row: int = 0,
) -> FailedRow:
    """The row of `failed/` for a piece of work.

    Args:
        excerpt: the input concerned; its beginning is kept.
        source: where it comes from, in place of the three columns (`source_id` is `id` unless given).
    """
    if source is not None:
        source_id, source_file, source_row = source.id, source.source_file, source.source_row
    return FailedRow(
        id=id,
        source_id=id if source_id is None else source_id,
        source_file=source_file,
        source_row=source_row,
        step=step,
        error=error,
        message=message,
        excerpt=excerpt[:500],
    )

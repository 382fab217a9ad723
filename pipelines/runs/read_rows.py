"""The rows of an input, read in this process: what is looked at, or worked with, before a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tokenmill.pipelines.transforms.sources import Parser, Piece, RowUnreadable, raw_rows


def tried_rows(
    pieces: Iterable[Piece], parser: Parser[Any], max_bytes: int
) -> Iterator[tuple[str, Any | RowUnreadable]]:
    """(where it stands, typed row or why there is none) for every row, in input order."""
    read = getattr(parser, "raw_rows", raw_rows)  # of a parser that knows further formats
    for piece in pieces:
        for number, values in read(piece, parser.columns, max_bytes):
            try:
                row = values if isinstance(values, RowUnreadable) else parser(values, piece.name, number)
            except RowUnreadable as error:
                row = error
            yield f"{piece.name}, row {number}", row


def parsed_rows(pieces: Iterable[Piece], parser: Parser[Any], max_bytes: int) -> Iterator[Any]:
    """The typed rows, in input order; unreadable ones are left out."""
    return (row for _, row in tried_rows(pieces, parser, max_bytes) if not isinstance(row, RowUnreadable))

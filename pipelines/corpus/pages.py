"""Rows of WARC archives and of HTML files, beside the formats that every job reads."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import zstandard
from tokenmill.pipelines.transforms.sources import (
    FORMATS,
    HTML_FILES,
    Piece,
    RawRows,
    RowUnreadable,
    ends_with,
    open_input,
    raw_rows,
)

if TYPE_CHECKING:
    from fastwarc.warc import WarcRecord

WARC = (".warc", ".warc.gz", ".warc.zst")
PAGES = (*WARC, *HTML_FILES)
SOURCES = (*FORMATS, *PAGES)
"""Endings of files that a corpus is made of."""
_MARKUP = ("text/html", "application/xhtml+xml")
_TEXTS = ("text/plain", "text/markdown", "text/x-markdown")


def rows_of(piece: Piece, columns: tuple[str, ...] | None, max_bytes: int) -> RawRows:
    """Every row of a piece, in order: of a WARC archive its records with pages, of an HTML file the one."""
    if ends_with(piece.path, WARC):
        return _records(piece, max_bytes)
    if ends_with(piece.path, HTML_FILES):
        return _page(piece, max_bytes)
    return raw_rows(piece, columns, max_bytes)


def _page(piece: Piece, max_bytes: int) -> RawRows:
    try:
        with open_input(piece.path) as file:
            content = file.read(max_bytes + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        yield 0, RowUnreadable("unreadable_file", f"the file cannot be read: {error}")
        return
    yield 0, _too_long(content, max_bytes) if len(content) > max_bytes else {"html": content}


def _records(piece: Piece, max_bytes: int) -> RawRows:
    """Where the archive breaks off, one row says so."""
    number = 0
    try:
        with open_input(piece.path) as file:
            stream = _Stream(file)
            for record in _pages(stream):
                if number == piece.rows:
                    return
                yield number, _row(record, max_bytes)
                number += 1
            if stream.error is not None:
                raise stream.error
            if not number and stream.count:
                raise ValueError("no record of it holds a page; is it a WARC archive?")
    except (OSError, EOFError, ValueError, zlib.error, zstandard.ZstdError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        yield number, RowUnreadable("unreadable_file", f"the archive cannot be read from here on: {message}")


class _Stream:
    """A file to the parser, whose native code does not survive an exception: where reading fails the file ends, and `error` says
    why."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0
        self.error: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        if self.error is not None:
            return b""
        try:
            # Not `read`, which loses what there is before that which is broken.
            piece = self._file.read1(size) if hasattr(self._file, "read1") else self._file.read(size)
        except Exception as error:
            self.error = error
            return b""
        self.count += len(piece)
        return piece

    def tell(self) -> int:
        return self.count


def _pages(stream: _Stream) -> Iterator[WarcRecord]:
    """The records that hold a page; requests, metadata and revisits are no rows.

    Raises:
        ValueError: the archive is broken in a way that the parser has no error for.
    """
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    kinds = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.conversion
    try:
        whole: Any = stream  # it is asked for no more than `read` and `tell`
        yield from ArchiveIterator(whole, record_types=kinds, parse_http=True, auto_decode="content")
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, and no Exception
            raise
        raise ValueError(f"the archive breaks its parser: {error}") from None


def _row(record: WarcRecord, max_bytes: int) -> dict[str, Any] | RowUnreadable:
    """
    Raises:
        EOFError: the archive ends within the record.
    """
    kind = (record.http_content_type or "").lower() if record.is_http else ""
    kind = kind or (record.headers.get("Content-Type") or "").split(";")[0].strip().lower()
    address = record.headers.get("WARC-Target-URI") or ""
    status = record.http_headers.status_code if record.is_http and record.http_headers else 200
    content = record.reader.read(max_bytes + 1)
    if len(content) > max_bytes:
        return _too_long(content, max_bytes)
    encoded = record.is_http and record.http_headers and record.http_headers.get("Content-Encoding")
    if len(content) < (record.content_length or 0) and not encoded:
        raise EOFError(f"{address}: {len(content)} of {record.content_length} bytes are there")
    if status != 200:
        return RowUnreadable("no_page", f"{address}: the server answered {status}")
    values = {
        "url": address,
        "date": record.headers.get("WARC-Date") or "",
        "id": record.headers.get("WARC-Record-ID") or "",
    }
    charset = (record.http_charset or "") if record.is_http else ""
    if kind in _TEXTS or record.headers.get("WARC-Type") == "conversion":
        return {**values, "text": _decoded(content, charset)}
    if kind and kind not in _MARKUP:
        return RowUnreadable("no_page", f"{address}: {kind[:100]} is no text")
    return {**values, "html": content, "charset": charset}


def _decoded(content: bytes, charset: str) -> str:
    try:
        name = codecs.lookup(charset).name if charset else "utf-8"
    except LookupError:
        name = "utf-8"
    return content.decode(name, "replace")


def _too_long(content: bytes, max_bytes: int) -> RowUnreadable:
    return RowUnreadable(
        "too_long",
        f"more than {max_bytes} bytes (--max-document-bytes)",
        content[:500].decode("utf-8", "replace"),
    )

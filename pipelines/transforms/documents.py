"""From the values of an input row to a `Document`."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from typing import Any, ClassVar

from apache_beam.coders import registry
from tokenmill.judges.form.language import detect
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.documents import Document

registry.register_row(Document)

_COLUMNS = ("text", "id", "title", "language", "license", "source", "url")


@dataclass(frozen=True)
class DocumentParser:
    """Reads a document from the columns named; only `text` must exist."""

    text: str = "text"
    id: str = "id"
    title: str = "title"
    language: str = "language"
    license: str = "license"
    source: str = "source"
    url: str = "url"

    row_type: ClassVar[type] = Document

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in _COLUMNS)

    @property
    def required(self) -> tuple[str, ...]:
        """Columns without which no row can be read: the text, and any that the user named himself."""
        return tuple(getattr(self, name) for name in _COLUMNS if name == "text" or getattr(self, name) != name)

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns that must hold text."""
        return (self.text,)

    def key(self, values: dict[str, Any], file: str, row: int) -> str | None:
        """The row's own id, None where it has none and cannot repeat another's.

        Raises:
            RowUnreadable: no document can be read from the row.
        """
        id = given_id(values.get(self.id), file, row)
        clean(values.get(self.text), self.text, id)
        return id if id == str(values.get(self.id)) else None

    def __call__(self, values: dict[str, Any], file: str, row: int) -> Document:
        id = given_id(values.get(self.id), file, row)
        text = clean(values.get(self.text), self.text, id)
        language = plain(values.get(self.language))
        return Document(
            id=id,
            title=plain(values.get(self.title)),
            text=text,
            language=language or detect(text[:4000]),
            license=plain(values.get(self.license)),
            source_file=file,
            source_row=row,
            source=plain(values.get(self.source)),
            url=plain(values.get(self.url)),
        )


def missing(value: Any) -> bool:
    """Whether a row has nothing there: null, a blank string, or the NaN that data frames write for null."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def given_id(value: Any, file: str, row: int) -> str:
    """The row's own id, or a hash of where it stands."""
    if missing(value) or isinstance(value, (dict, list)):
        return hashlib.blake2b(f"{file}\x1f{row}".encode(), digest_size=8).hexdigest()
    return str(value)


def plain(value: Any) -> str:
    """A short text on one line; empty when there is none."""
    if missing(value) or not isinstance(value, (str, int, float)):
        return ""
    text = str(value)
    return text if text.isprintable() and text.isascii() else " ".join(unicodedata.normalize("NFC", text).split())


def clean(value: Any, column: str, id: str) -> str:
    """A text as the pipelines take it: Unicode NFC, newlines as \\n, not blank.

    Raises:
        RowUnreadable: no such column in the row, not a string, empty, or not encodable.
    """
    if value is None or value != value:
        raise RowUnreadable("no_text", f"the row has no column {column!r}", id=id)
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError as bad:
            raise RowUnreadable("invalid_utf8", f"byte {bad.start} of {column!r} is not UTF-8", id=id) from None
    if not isinstance(value, str):
        raise RowUnreadable("not_text", f"column {column!r} holds {type(value).__name__}, not text", id=id)
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise RowUnreadable("invalid_utf8", f"column {column!r} holds a lone surrogate", id=id) from None
        value = unicodedata.normalize("NFC", value)
    value = value.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    if not value.strip():
        raise RowUnreadable("empty_text", f"column {column!r} is empty", id=id)
    return value.strip("\n")

"""From the values of an input row to a document whose text may still be inside HTML."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tokenmill.pipelines.corpus.pages import rows_of
from tokenmill.pipelines.transforms.documents import clean, missing, plain
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.corpus import CorpusDocument

HTML = "html"
"""Column, or content of a WARC record or an .html file, from which the text is extracted."""
_GIVEN = (
    "text", HTML, "charset", "question", "answer", "id", "title", "path", "url", "date", "language", "license", "source",
    "source_id", "source_text",
)  # fmt: skip


@dataclass(frozen=True)
class FoundDocument:
    """An input row as it was read."""

    document: CorpusDocument
    """Its `text` is empty where there is `html`."""
    source_text: str
    """The text that it was written from, where it is synthetic; else empty."""
    html: bytes = field(default=b"", repr=False)
    charset: str = ""
    """Of `html`, as its server said; empty where it said nothing."""

    @property
    def id(self) -> str:
        return self.document.id

    @property
    def text(self) -> str:
        return self.document.text


@dataclass(frozen=True)
class CorpusParser:
    """Reads a document from rows with `text` or `html`; the first folder of a file's name is its domain."""

    row_type: ClassVar[type] = FoundDocument
    columns: ClassVar[tuple[str, ...]] = _GIVEN
    required: ClassVar[tuple[tuple[str, ...], ...]] = ()

    raw_rows = staticmethod(rows_of)
    """Reads a piece of whatever format; see `read_rows.tried_rows`."""

    def __call__(self, values: dict[str, Any], file: str, row: int) -> FoundDocument:
        """Raises: RowUnreadable."""
        id = document_id(file, row)
        html = values.get(HTML)
        if not missing(html):
            if not isinstance(html, (str, bytes)):
                raise RowUnreadable("not_text", f"column {HTML!r} holds {type(html).__name__}, not HTML", id=id)
            text, raw = "", html.encode("utf-8", "replace") if isinstance(html, str) else html
            charset = "utf-8" if isinstance(html, str) else plain(values.get("charset"))
        else:
            text, raw, charset = clean(_text(values), "text", id), b"", ""
        source_text = values.get("source_text")
        written_from = "" if missing(source_text) else clean(source_text, "source_text", id)
        document = CorpusDocument(
            id=id,
            domain=file.split("/", 1)[0],
            text=text,
            title=plain(values.get("title")) or plain(values.get("path")),
            url=plain(values.get("url")),
            date=plain(values.get("date")),
            language=plain(values.get("language")),
            license=plain(values.get("license")),
            source=plain(values.get("source")),
            given_id="" if missing(values.get("id")) else plain(values.get("id")),
            source_file=file,
            source_row=row,
            synthetic=bool(written_from),
            source_id=plain(values.get("source_id")) if written_from else "",
            lineage=lineage_of(written_from or text) if not raw else "",
            source_rows=1,
            tokens=0,
            masked=0,
            quality=None,
            verdicts=[],
        )
        return FoundDocument(document, written_from, raw, charset)


def _text(values: dict[str, Any]) -> Any:
    """The text of a row; of a problem its question and answer."""
    question, answer = values.get("question"), values.get("answer")
    if missing(values.get("text")) and isinstance(question, str) and isinstance(answer, str):
        return f"{question}\n\n{answer}"
    return values.get("text")


def document_id(file: str, row: int) -> str:
    """128 bits of where a row stands."""
    return hashlib.blake2b(f"{file}\x1f{row}".encode(), digest_size=16).hexdigest()


def lineage_of(text: str) -> str:
    """128 bits of a text, by which what was written from it is told."""
    return hashlib.blake2b(text.strip().encode(), digest_size=16).hexdigest()


def with_text(found: FoundDocument, text: str, title: str) -> FoundDocument:
    """The document once its text has been taken out of the HTML."""
    lineage = lineage_of(found.source_text or text)
    return replace(
        found,
        html=b"",
        document=replace(found.document, text=text, title=found.document.title or title, lineage=lineage),
    )

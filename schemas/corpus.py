"""Rows of the corpus job: documents of all domains, and what every check said of them."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.columns import column

DOMAINS = ("web", "code", "math", "knowledge")
"""The four of which the report's corpus is made."""


@dataclass(frozen=True)
class Screening:
    """What one check said of a document: a `Verdict` as rows carry it."""

    check: str
    passed: bool
    score: float
    """In [0, 1], 1 is best."""
    reason: str
    """Empty exactly when `passed`."""
    detail: str
    """The figure and the threshold that it missed; empty when `passed`."""
    quote: str
    """Verbatim from the text, possibly empty."""


@dataclass(frozen=True)
class CorpusDocument:
    """A document that every check passed: one row of `data/`."""

    id: str = column("identifier: 128 bits, hexadecimal, of the source file's name and the row")
    domain: str = column("`web`, `code`, `math` or `knowledge`")
    text: str = column("the document: what to train on. Unicode NFC, newlines as \\n, personal data as placeholders")
    title: str = column("title, possibly empty")
    url: str = column("address that it was read from, possibly empty")
    date: str = column("when it was read or written, as the input says: ISO 8601, possibly empty")
    language: str = column("ISO 639-1 code, from the input or detected; `und` when undetermined")
    license: str = column("licence as the input states it, possibly empty")
    source: str = column("where it is from, as the input's own `source` column says, possibly empty")
    given_id: str = column("identifier that the input gives the row, possibly empty")
    source_file: str = column(
        "input file: its domain, then its path relative to the common folder of that domain's inputs"
    )
    source_row: int = column("0-based row, line or record in that file")
    synthetic: bool = column("whether a model wrote it, from another text")
    source_id: str = column("identifier of the text that it was written from, as that run names it; empty where none")
    lineage: str = column(
        "128 bits, hexadecimal, of the text that it was written from, or else of its own text as read: rows of one "
        "lineage are exposures of one source"
    )
    source_rows: int = column(
        "rows of this corpus that are of the same lineage, this one included: one epoch shows the source so often"
    )
    tokens: int = column("about how many tokens `text` has")
    masked: int = column("pieces of personal data that became placeholders")
    quality: float | None = column("score of the learnt quality model in [0, 1]; null where none was given")
    verdicts: list[Screening] = column("what each check said, in order")


@dataclass(frozen=True)
class RefusedDocument(CorpusDocument):
    """A document that a check refused: one row of `rejected/`."""

    reason: str = column("reason of the first refusal")
    duplicate_of: str = column("`id` of the kept document that this one repeats; empty where that is not why")
    similarity: float | None = column("measured similarity to that document, 1 for the same text; null where none")


@dataclass(frozen=True)
class LabelledDocument:
    """A document that a model scored: one row of `data/` of `corpus label`, from which a quality model is learnt."""

    id: str = column("identifier of the document")
    domain: str = column("`web`, `code`, `math` or `knowledge`")
    text: str = column("the document, as it was scored")
    language: str = column("ISO 639-1 code, or `und`")
    license: str = column("licence as the input states it, possibly empty")
    source_file: str = column("input file of the document")
    source_row: int = column("0-based row or line in that file")
    score: int = column("how much can be learnt from it, from 0 to 5")
    why: str = column("what decides that, in the model's words")
    prompts: list[str] = column("every prompt used, as `name@version`")
    model: str = column("model that scored")
    seed: int = column("seed of the run")
    prompt_tokens: int = column("tokens sent for this row, as billed")
    completion_tokens: int = column("tokens received for this row, as billed")


@dataclass(frozen=True)
class UnlabelledDocument(LabelledDocument):
    """None is refused: the row type of an empty `rejected/`."""

    reason: str = column("always empty")

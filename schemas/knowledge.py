"""Rows of the knowledge-rephrasing pipeline (Kimi K2 report, section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.columns import column
from tokenmill.schemas.documents import Document
from tokenmill.schemas.verdicts import Judgement


@dataclass(frozen=True)
class RephrasingTask:
    """One document to be rewritten once, in one style and perspective."""

    document: Document
    rephrasing: int
    style: str
    perspective: str
    kind: str = "prose"
    """Kind of document, one of `pipelines.knowledge.content.KINDS`."""
    tokens: int = 0
    """Of the document's text, as chunking counts them; 0 where nobody has."""

    @property
    def id(self) -> str:
        return f"{self.document.id}/{self.rephrasing}"


@dataclass(frozen=True)
class Rephrasing:
    """An accepted rephrasing: one row of `data/`."""

    id: str = column("`source_id/rephrasing`")
    text: str = column("the rewritten passage, stitched from its chunks: this is what to train on")
    title: str = column("title of the source document")
    language: str = column("ISO 639-1 code of the text")
    license: str = column("licence of the source document, as the input states it")
    source: str = column("where the source document is from, as the input's `source` column says")
    url: str = column("address of the source document, as the input's `url` column says")
    source_id: str = column("identifier of the source document")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row or line in that file")
    source_text: str = column("the source document")
    source_kind: str = column(
        "kind of the source document by its marks, by which styles are chosen: `prose`, `dated`, ..."
    )
    rephrasing: int = column("0-based index of this rephrasing of the document")
    style: str = column("textual form asked for, a prompt under `prompts/styles`")
    perspective: str = column("viewpoint and reader asked for, a prompt under `prompts/perspectives`")
    prompts: list[str] = column("every prompt used, as `name@version`")
    model: str = column("model that rewrote")
    judge_model: str = column("model that judged fidelity, empty when the judge was off")
    seed: int = column("seed of the run")
    source_tokens: int = column("about how many tokens the source document has, as a common byte-level BPE counts")
    tokens: int = column("about how many tokens `text` has")
    length_ratio: float = column("characters of `text` per character of the source document")
    copy_rate: float = column("share of the word 5-grams of `text` that the source document has")
    sibling_similarity: float | None = column(
        "greatest share of word 5-grams in common with another kept rephrasing of the document (Jaccard); null if there is none"
    )
    minor_faults: int = column("minor faults that the judge found in `text` and let pass")
    chunks: int = column("number of chunks the document was cut into")
    attempts: int = column("number of rewrites asked for, repairs included")
    prompt_tokens: int = column("tokens sent for this row, judge included, as billed")
    completion_tokens: int = column("tokens received for this row, judge included, as billed")
    verdicts: list[Judgement] = column(
        "for each check its lowest-scoring final verdict (chunk -1 is the whole passage), "
        "after every refusal that led to a repair"
    )


@dataclass(frozen=True)
class RefusedRephrasing(Rephrasing):
    """A rephrasing that a check refused after every try: one row of `rejected/`, with the evidence."""

    reason: str = column("reason of the refusal that ended it")
    refused_chunk: int = column("chunk refused, -1 for the whole passage")
    refused_source: str = column("the source chunk concerned")
    refused_text: str = column("the last rewrite of that chunk")

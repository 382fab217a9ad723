"""Rows of the mathematics pipeline: learning notes (Kimi K2 report, section 2.2, after SwallowMath)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenmill.schemas.answer_schema import TEXT, array, record
from tokenmill.schemas.columns import column
from tokenmill.schemas.verdicts import Judgement


@dataclass(frozen=True)
class Problem:
    """One mathematical input: a problem with its answer, or a document that is no such pair."""

    id: str = column("identifier, from the input's `id` column or else a hash of file and row")
    title: str = column("title, possibly empty")
    text: str = column("the whole source: the document, or question and answer with a blank line between")
    question: str = column("the problem; empty for a document")
    answer: str = column("its answer, worked or bare; empty for a document")
    language: str = column("ISO 639-1 code, from the input or detected on the prose; `und` when there is too little")
    license: str = column("licence as the input states it, possibly empty")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row (Parquet), line (JSONL) or 0 (text files) in that file")


@dataclass(frozen=True)
class NoteTask:
    """One source to be made into one learning note."""

    problem: Problem
    note: int
    style: str
    """Name of a prompt: how the note is worded."""
    shape: str
    """Name of a prompt: which parts it has, and how they are set."""

    @property
    def id(self) -> str:
        return f"{self.problem.id}/{self.note}"

    @property
    def is_pair(self) -> bool:
        """Whether the source is a problem with its answer. Asked here and not of `problem`: in another process Beam makes
        nested rows of a type of its own, which has the fields only."""
        return bool(self.problem.question)


@dataclass(frozen=True)
class Step:
    """One step of a solution or an exposition."""

    reason: str
    """Why this may be done, or what for."""
    work: str
    """What is done: formulas and words."""


@dataclass(frozen=True)
class Note:
    """A learning note as a model writes it; all texts are English with LaTeX between dollar signs."""

    title: str
    asked: str
    """The problem in full, or what a passage of a document is about."""
    known: tuple[str, ...]
    """Data, definitions and assumptions."""
    idea: str
    steps: tuple[Step, ...]
    result: str
    """The outcome in a sentence."""
    answer: str
    """The final answer alone; empty when nothing was asked."""
    check: str
    """How a reader can convince himself of the result."""
    remark: str
    """A common slip, or a generalisation."""
    unused: tuple[str, ...]
    """What the source says and the note leaves out on purpose, each with the reason; not part of the text."""

    @classmethod
    def of(cls, value: dict[str, Any]) -> Note:
        """The note in a value that meets `NOTE_SCHEMA`."""
        return cls(
            **{name: value[name] for name in ("title", "asked", "idea", "result", "answer", "check", "remark")},
            known=tuple(value["known"]),
            steps=tuple(Step(step["reason"], step["work"]) for step in value["steps"]),
            unused=tuple(value["unused"]),
        )


OPTIONAL = ("known", "idea", "check", "remark")
"""Fields that a shape may leave out."""
NOTE_SCHEMA = record(
    title=TEXT,
    asked=TEXT,
    known=array(TEXT, 20),
    idea=TEXT,
    steps=array(record(reason=TEXT, work=TEXT), 30),
    result=TEXT,
    answer=TEXT,
    check=TEXT,
    remark=TEXT,
    unused=array(TEXT, 20),
)
"""What a model is asked for. No limits on the length of strings: not every endpoint knows them."""


@dataclass(frozen=True)
class LearningNote:
    """An accepted learning note: one row of `data/`."""

    id: str = column("`source_id/note`")
    text: str = column("the note as Markdown with LaTeX: this is what to train on")
    note: str = column(
        "the note's structure as JSON: a list of notes, one for each part of a document, one for a problem"
    )
    kind: str = column("`problem` (question and answer) or `document`")
    title: str = column("title of the source, or of the note where the source has none")
    answer: str = column("final answer of the note, empty for documents")
    language: str = column("ISO 639-1 code of the text")
    source_language: str = column(
        "ISO 639-1 code of the source; when it is not that of the text, the source was translated"
    )
    license: str = column("licence of the source, as the input states it")
    source_id: str = column("identifier of the source")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row or line in that file")
    source_text: str = column("the source: the document, or question and answer with a blank line between")
    translation: str = column("the source in English where it was translated, else empty")
    style: str = column("how the note was to be worded, a prompt under `prompts/math/styles`")
    shape: str = column("parts of the note and their order, a prompt under `prompts/math/shapes`")
    prompts: list[str] = column("every prompt used, as `name@version`")
    model: str = column("model that translated and wrote")
    judge_model: str = column("model that judged, empty when the judge was off")
    seed: int = column("seed of the run")
    chunks: int = column("number of chunks the document was cut into, 1 for a problem")
    attempts: int = column("number of texts asked for: translations and notes, repairs included")
    prompt_tokens: int = column("tokens sent for this row, judge included, as billed")
    completion_tokens: int = column("tokens received for this row, judge included, as billed")
    verdicts: list[Judgement] = column(
        "for each check its lowest-scoring final verdict (chunk -1 is the whole source), "
        "after every refusal that led to a repair"
    )


@dataclass(frozen=True)
class RefusedNote(LearningNote):
    """A note that a check refused after every try, or a source that none was made of: one row of `rejected/`."""

    reason: str = column("reason of the refusal that ended it; `source_wrong` when the fault is the source's")
    stage: str = column("what was refused: `source`, `translation` or `note`")
    refused_chunk: int = column("chunk refused, -1 for the whole source")
    refused_source: str = column("the source text concerned")
    refused_text: str = column("the last translation or note of it, empty when the source was refused")

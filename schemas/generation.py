"""Rows of a task that the user himself describes: a prompt, a schema of the answer, checks."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.columns import column
from tokenmill.schemas.verdicts import Judgement


@dataclass(frozen=True)
class GenerationTask:
    """One input row to be answered once."""

    id: str = column("identifier, from the input's `id` column or else a hash of file and row")
    text: str = column("the prompt's placeholders with what the row has for them, one after the other")
    values: str = column("the same by placeholder, as JSON")
    title: str = column("title, possibly empty")
    language: str = column("ISO 639-1 code as the input states it, possibly empty")
    license: str = column("licence as the input states it, possibly empty")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row or line in that file")


@dataclass(frozen=True)
class Generation:
    """An accepted answer: one row of `data/`."""

    id: str = column("identifier of the input row")
    text: str = column("the answer: as the model wrote it, or the schema's `text` where it has one, or else its JSON")
    answer: str = column("the answer as JSON that meets the schema; empty where there is no schema")
    title: str = column("title of the input row")
    language: str = column("language of the input row, as the input states it")
    license: str = column("licence of the input row, as the input states it")
    source_id: str = column("identifier of the input row")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row or line in that file")
    source_text: str = column("what the prompt had of the input row")
    prompts: list[str] = column("every prompt used, as `name@version`")
    model: str = column("model that answered")
    seed: int = column("seed of the run")
    attempts: int = column("number of answers asked for, repairs included")
    prompt_tokens: int = column("tokens sent for this row, as billed")
    completion_tokens: int = column("tokens received for this row, as billed")
    verdicts: list[Judgement] = column("what the checks said, refusals that led to a repair first")


@dataclass(frozen=True)
class RefusedGeneration(Generation):
    """An answer that a check refused after every try: one row of `rejected/`."""

    reason: str = column("reason of the refusal that ended it")

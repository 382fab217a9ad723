"""Rows of preference data: a prompt, answers ranked by a critic, and the pair that a trainer learns from."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.columns import column
from tokenmill.schemas.verdicts import Judgement


@dataclass(frozen=True)
class PreferenceTask:
    """One prompt to be answered several times."""

    id: str = column("identifier, from the input's `id` column or else a hash of file and row")
    text: str = column("the request")
    system: str = column("system message, possibly empty")
    rubrics: list[str] = column("what people want of an answer to this request, possibly nothing")
    must: list[str] = column("what they insist on, possibly nothing")
    title: str = column("title, possibly empty")
    language: str = column("ISO 639-1 code as the input states it, possibly empty")
    license: str = column("licence as the input states it, possibly empty")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row or line in that file")


@dataclass(frozen=True)
class Said:
    """A message of a pair, as trainers take it."""

    role: str = column("`system`, `user` or `assistant`")
    content: str = column("its text")


@dataclass(frozen=True)
class RankedAnswer:
    """One of the answers to a prompt."""

    text: str = column("the answer")
    score: float = column("share of its comparisons that it won, a tie counting half")
    rank: int = column("1 for the best; those that cannot be told apart share one")
    reward: float = column("1 for the best rank to 0 for the worst")
    broken: list[str] = column("mandatory rubrics that it breaks")
    evidence: str = column("the words in which it breaks one, or why it lost")


@dataclass(frozen=True)
class Preference:
    """Ranked answers to one prompt: one row of `data/`."""

    id: str = column("identifier of the input row")
    prompt: list[Said] = column("system message, where there is one, and request")
    chosen: list[Said] = column("the best answer")
    rejected: list[Said] = column("the worst answer")
    margin: float = column("score of the best less that of the worst; 1 where only the worst breaks a mandatory rubric")
    answers: list[RankedAnswer] = column("all answers, in the order in which they were drawn")
    comparisons: int = column("pairs compared, each in both orders")
    flipped: int = column("comparisons whose verdict turned round with the order of the answers")
    rubrics: list[str] = column("names of the rubrics that they were compared by")
    text: str = column("the request")
    title: str = column("title of the input row")
    language: str = column("language of the input row, as the input states it")
    license: str = column("licence of the input row, as the input states it")
    source_id: str = column("identifier of the input row")
    source_file: str = column("input file, relative to the inputs' common folder")
    source_row: int = column("0-based row or line in that file")
    prompts: list[str] = column("every prompt used, as `name@version`")
    model: str = column("model that answered")
    seed: int = column("seed of the run")
    attempts: int = column("answers drawn")
    prompt_tokens: int = column("tokens sent for this row, as billed")
    completion_tokens: int = column("tokens received for this row, as billed")
    verdicts: list[Judgement] = column("what the critic's ranking came to")


@dataclass(frozen=True)
class RefusedPreference(Preference):
    """Answers of which none is better than another: one row of `rejected/`."""

    reason: str = column("why there is no pair")

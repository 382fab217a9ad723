"""What a writer is asked for one part of a source: its prompt filled in, everything foreign fenced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson
from tokenmill.pipelines.rollouts.chunking import tail
from tokenmill.pipelines.rollouts.repair import corrections
from tokenmill.prompts.fence import fence
from tokenmill.schemas.math import Note, NoteTask
from tokenmill.schemas.verdicts import WHOLE, Verdict

from tokenmill import prompts

NOTE, PASSAGE = "math/note", "math/passage"


@dataclass(frozen=True)
class Part:
    """What one note is written of, in English: a question with its answer, or a passage of a document."""

    source: str
    answer: str = ""
    index: int = WHOLE
    position: str = ""
    """`2 / 5`; empty for a problem."""
    before: str = ""
    """The source before the passage."""

    @property
    def text(self) -> str:
        return f"{self.source}\n\n{self.answer}" if self.answer else self.source

    @property
    def prompt(self) -> str:
        """Name of the prompt that asks for its note."""
        return NOTE if self.answer else PASSAGE


@dataclass(frozen=True)
class NoteRequest:
    """Asks for a note in the shape and style of its task."""

    tail_tokens: int = 200
    """How much of the notes already written the next passage sees."""
    before_tokens: int = 96
    """How much of the source before the passage it sees."""

    def __call__(
        self, task: NoteTask, part: Part, notes: str, earlier: Note | None = None, refusals: Sequence[Verdict] = ()
    ) -> list[dict[str, str]]:
        """The messages of one call; `notes` are those already written of the document.

        The system part is the same for all sources in one shape and style, so that endpoints can keep its prefix; everything
        that comes from sources is fenced.
        """
        common = {
            "style": prompts.load(task.style).text,
            "shape": prompts.load(task.shape).text,
            "title": _block(task.problem.title, "title"),
            "earlier": _block(orjson.dumps(earlier).decode() if earlier else "", "earlier"),
            "findings": corrections(refusals),
        }
        if part.answer:
            blocks = {"problem": fence(part.source, "problem"), "solution": fence(part.answer, "solution")}
            return prompts.load(NOTE).render(**common, **blocks)
        return prompts.load(PASSAGE).render(
            **common,
            position=part.position,
            source_before=_block(tail(part.before, self.before_tokens), "source-before") if part.before else "",
            notes_so_far=_block(tail(notes, self.tail_tokens), "notes-so-far") if notes else "",
            passage=fence(part.source, "passage"),
        )


def _block(text: str, label: str) -> str:
    return f"{fence(text, label)}\n\n" if text.strip() else ""


@lru_cache(maxsize=16)
def system_part(name: str) -> str:
    """Our own wording around the sources, to see it leak. Style and shape are left out: notes are meant to follow them."""
    return next(text for role, text in prompts.load(name).parts if role == "system")

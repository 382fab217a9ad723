"""From the values of an input row to a `Problem`: question and answer, or a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from apache_beam.coders import registry
from tokenmill.judges.form.language import UNDETERMINED, code, detect
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.notation import prose
from tokenmill.pipelines.transforms.documents import clean, given_id, missing, plain
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.math import Problem

registry.register_row(Problem)

_SAMPLE = 4000
_EXACT = 2.0**53
"""Below it a float tells every whole number from the next."""
_SCRIPTS = (
    ("ja", "\u3040-\u30ff"), ("zh", "\u3400-\u9fff"), ("ko", "\uac00-\ud7af"), ("th", "\u0e00-\u0e7f"),
    ("ru", "\u0430-\u044f"), ("hi", "\u0900-\u097f"), ("ar", "\u0621-\u064a"), ("he", "\u05d0-\u05ea"),
)  # fmt: skip
"""The language that a few words in a script most likely are in: too few for a detector, but surely not English."""
_BY_SCRIPT = tuple((name, re.compile(f"[{letters}]{{2}}")) for name, letters in _SCRIPTS)


@dataclass(frozen=True)
class ProblemParser:
    """Reads the columns named: `question` and `answer`, or where a row has no question, `text`."""

    text: str = "text"
    question: str = "question"
    answer: str = "answer"
    id: str = "id"
    title: str = "title"
    language: str = "language"
    license: str = "license"

    row_type: ClassVar[type] = Problem
    names: ClassVar[tuple[str, ...]] = ("text", "question", "answer", "id", "title", "language", "license")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in self.names)

    @property
    def required(self) -> tuple[str | tuple[str, ...], ...]:
        """Columns without which no row can be read: text or question, and any that the user named himself."""
        named = tuple(getattr(self, name) for name in self.names if getattr(self, name) != name)
        return ((self.text, self.question), *named)

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """Columns that must hold text: questions, or where there are none, texts."""
        return ((self.question, self.text),)

    def __call__(self, values: dict[str, Any], file: str, row: int) -> Problem:
        id = given_id(values.get(self.id), file, row)
        question = answer = ""
        if not missing(values.get(self.question)):
            question = clean(values[self.question], self.question, id).strip()
            answer = _answer(values.get(self.answer), self.answer, id)
            text = f"{question}\n\n{answer}"
        else:
            text = clean(values.get(self.text), self.text, id)
        stated = code(plain(values.get(self.language)))
        return Problem(
            id=id,
            title=plain(values.get(self.title)),
            text=text,
            question=question,
            answer=answer,
            language=stated if stated != UNDETERMINED else language_of(question or text),
            license=plain(values.get(self.license)),
            source_file=file,
            source_row=row,
        )


def _answer(value: Any, column: str, id: str) -> str:
    """The answer as text; a number is one, too.

    Raises:
        RowUnreadable: there is none. A note could be held to nothing.
    """
    if missing(value):
        raise RowUnreadable("no_answer", f"the row has a question but nothing in column {column!r}", id=id)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT else value)
    return clean(value, column, id).strip()


def language_of(text: str) -> str:
    """ISO 639-1 code of the prose in a mathematical text, formulas and code left out; `und` for too little prose."""
    words = prose(from_mathml(text[:_SAMPLE]))
    found = detect(words)
    if found == UNDETERMINED:
        return next((name for name, letters in _BY_SCRIPT if letters.search(words)), UNDETERMINED)
    return found

"""Has an answer the form of a learning note: fields filled, formulas whole, no leftovers, no talk about the task?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tokenmill.judges.form.commentary import Commentary
from tokenmill.judges.form.injection import Injection
from tokenmill.judges.form.language import Language
from tokenmill.judges.form.truncation import Truncation
from tokenmill.judges.form.words import release
from tokenmill.judges.math.answer_forms import Value, read_answer
from tokenmill.judges.math.expressions import Undecidable, evaluate
from tokenmill.judges.math.notation import hide, prose
from tokenmill.judges.math.numbers import note_values
from tokenmill.schemas.math import OPTIONAL, Note
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "note_form"

_MARKUP = re.compile(r"<<[^<>\n]{1,80}>>|####|</?(?:div|span|a|p|br|img|script|li|ul|td|tr|table)\b[^<>]{0,200}>")
_COMMAND = re.compile(r"\\(?:frac|dfrac|tfrac|sqrt|cdot|times|sum|int|left|right|begin|text|pi|le|ge|neq)(?![A-Za-z])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class NoteForm:
    """One verdict on the note's fields (`incomplete_note`, `broken_formula`, `leftover_kept`, `result_differs`,
    `repeats_itself`), and the form checks of prose on its text: injection, commentary, language, going in circles."""

    injection: Injection = field(default_factory=Injection)
    commentary: Commentary = field(default_factory=Commentary)
    language: Language = field(default_factory=Language)
    truncation: Truncation = field(default_factory=Truncation)

    def __call__(
        self, source: str, note: Note, text: str, prompt_text: str = "", fields: Sequence[str] = OPTIONAL
    ) -> list[Verdict]:
        """Judge `note`, rendered as `text`, made from the English `source`; `prompt_text` is our wording around it, `fields` are
        those that must be filled of the ones that a note may leave out."""
        verdicts = [
            self.injection(source, text, prompt_text),
            self.commentary(source, text),
            self.language("", prose(text), "en"),
            self.fields(note, fields),
        ]
        circles = self.truncation(source, text)
        # Whether prose ends with a full stop says nothing of a note, whose last line may be a formula.
        if circles.passed or circles.reason == "repeats_itself":
            verdicts.append(circles)
        release()
        return verdicts

    def fields(self, note: Note, fields: Sequence[str] = OPTIONAL) -> Verdict:
        """The verdict on the fields themselves."""
        findings = (*_blank(note, fields), *_broken(note), *_markup(note), *_repeated(note), *_differing(note))
        if not findings:
            return Verdict(CHECK, True, 1.0)
        return Verdict(CHECK, False, round(1 / (1 + len(findings)), 4), findings[0].kind, findings)


def _texts(note: Note) -> Iterator[tuple[str, str]]:
    """(name, text) of every field that readers see."""
    for name in ("asked", "idea", "result", "answer", "check", "remark"):
        yield name, getattr(note, name)
    for text in note.known:
        yield "known", text
    for number, step in enumerate(note.steps, 1):
        yield f"reason of step {number}", step.reason
        yield f"work of step {number}", step.work


def _blank(note: Note, fields: Sequence[str]) -> Iterator[Finding]:
    if not note.steps:
        yield Finding("incomplete_note", "Give the steps.")
    for name, text in _texts(note):
        if name != "answer" and (name not in OPTIONAL or name in fields) and not text.strip():
            yield Finding("incomplete_note", f"Fill in: {name}.")


def _broken(note: Note) -> Iterator[Finding]:
    for name, text in _texts(note):
        if _CONTROL.search(text):
            yield Finding("broken_formula", f"Write every backslash of a formula twice ({name}).", "", text[:80])
            continue
        if "\\" not in text:
            continue
        _, edges = hide(text)
        spans = list(zip(edges[::2], edges[1::2], strict=False))
        outside = next((m for m in _COMMAND.finditer(text) if not any(a <= m.start() < b for a, b in spans)), None)
        if outside and name != "answer":
            quote = text[max(0, outside.start() - 20) : outside.end() + 20]
            yield Finding("broken_formula", f"Put formulas between dollar signs ({name}).", "", quote)
        for start, end in spans:
            formula = text[start:end].replace("\\{", "").replace("\\}", "")
            if formula.count("{") != formula.count("}"):
                yield Finding("broken_formula", f"Balance the braces ({name}).", "", text[start:end][:80])


def _markup(note: Note) -> Iterator[Finding]:
    for name, text in _texts(note):
        found = _MARKUP.search(text)
        if found:
            yield Finding("leftover_kept", f"Leave out markup ({name}).", "", found[0])


def _repeated(note: Note) -> Iterator[Finding]:
    for work, count in Counter(" ".join(step.work.split()) for step in note.steps).items():
        if work and count > 1:
            yield Finding("repeats_itself", "Say every step once.", "", work[:120])


def _differing(note: Note) -> Iterator[Finding]:
    """The result sentence must state the answer, where that is a number."""
    answer = read_answer(note.answer) if note.answer else None
    if not isinstance(answer, Value) or not note.result:
        return
    try:
        value = Fraction(evaluate(answer.node, {}))
    except (Undecidable, TypeError):
        return
    stated = note_values(note.result)
    if stated and not stated & {value, value * 100, value / 100}:
        yield Finding("result_differs", f"Result and answer must agree; the answer is {note.answer}.", "", note.result)

"""A learning note as text: from the strings of a JSON answer to Markdown with LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import orjson
from tokenmill.schemas.draws import pick
from tokenmill.schemas.math import OPTIONAL, Note, Step

from tokenmill import prompts

_TAB = re.compile(r"\t(?=(?:imes|ext|extbf|extit|extrm|heta|frac|an|anh|au|riangle|ilde|op|o)(?![A-Za-z]))")
_NEWLINE = re.compile(r"\n(?=(?:eq|abla|otin|mid|leq|geq|eg|ot|subseteq)(?![A-Za-z]))")
_RETURN = re.compile(r"\r(?=[A-Za-z])")
_LABEL = re.compile(r"^\s*(?:#{1,6}\s+|(?:\**step\s+\d{1,2}\s*[:.)–—-]+\**|\d{1,2}[.)])\s+)", re.IGNORECASE)
_BARE = re.compile(r"[^\n]{0,200}\\(?:frac|dfrac|tfrac|sqrt|pi|cdot|times|boxed|left|infty|log|ln|sin|cos)(?![A-Za-z])")
_PLACE = re.compile(r"\{(reason|work)\}")
_FIELD = re.compile(r"\{\{(\w+)\}\}")
_DRAWN_OR_FIELD = re.compile(r"\[\[([^\[\]]+)\]\]|\{\{(\w+)\}\}")


class Form(NamedTuple):
    """How a note is written and set."""

    shape: str
    """Name of the prompt that says which fields a note has, in which order, and under which labels."""
    style: str
    """Name of the prompt that says how they are worded."""
    draw: tuple[object, ...] = ()
    """What the labels are drawn for."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields, of those that not every shape uses, that this one does."""
        return tuple(prompts.load(self.shape).meta["fields"])


def restore_latex(text: str) -> str:
    r"""Backslashes that a JSON escape swallowed: a model that writes "\frac" in JSON has written a form feed and "rac".

    Form feeds, backspaces and carriage returns before a letter never mean themselves; tabs and newlines are taken for
    a lost backslash only before the rest of a LaTeX command.
    """
    if text.isprintable():
        return text
    text = text.replace("\x0c", "\\f").replace("\x08", "\\b").replace("\r\n", "\n")
    return _NEWLINE.sub(r"\\n", _TAB.sub(r"\\t", _RETURN.sub(r"\\r", text)))


def tidied(note: Note, fields: Sequence[str]) -> Note:
    """The note with lost backslashes restored, without headings and step numbers inside its fields, and of the fields that
    shapes may leave out only those in `fields`."""

    def tidy(text: str) -> str:
        return _LABEL.sub("", restore_latex(text).strip()).strip()

    plain = {
        name: tidy(getattr(note, name)) if name not in OPTIONAL or name in fields else ""
        for name in ("title", "asked", "idea", "result", "check", "remark")
    }
    return replace(
        note,
        **plain,
        answer=_marked(tidy(note.answer)),
        known=tuple(filter(None, map(tidy, note.known))) if "known" in fields else (),
        steps=tuple(Step(tidy(step.reason), tidy(step.work)) for step in note.steps),
        unused=tuple(filter(None, map(tidy, note.unused))),
    )


def _marked(answer: str) -> str:
    """An answer that is a bare formula, between dollar signs."""
    return f"${answer}$" if _BARE.match(answer) and "$" not in answer and "\\(" not in answer else answer


def to_json(*notes: Note) -> str:
    """Notes as the row's `note` column keeps them."""
    return orjson.dumps(list(notes)).decode()


def render(note: Note, form: Form, *, level: int = 1, title: str = "") -> str:
    """Markdown of one note in its shape and style; `level` is that of its title, `title` goes before the note's own.

    A block of the shape of which the note says nothing is left out with its label.
    """
    shape, style = prompts.load(form.shape).meta, prompts.load(form.style).meta
    texts = {
        "title": title or note.title,
        "asked": note.asked,
        "known": "\n".join(f"- {_indented(item, 2)}" for item in note.known),
        "idea": note.idea,
        "steps": _ARRANGED[shape["steps"]]([_step(step, style["step"]) for step in note.steps]),
        "result": note.result,
        "answer": note.answer and f"**{note.answer}**",
        "check": note.check,
        "remark": note.remark,
    }
    blocks = []
    for place, block in enumerate(shape["layout"].strip().split("\n\n")):
        if any(texts[name] for name in _FIELD.findall(block)):
            blocks.append(_block(block, texts, level, (*form.draw, form.shape, place)))
    return "\n\n".join(blocks)


def _block(layout: str, texts: dict[str, str], level: int, draw: tuple[object, ...]) -> str:
    """One block, its label drawn and its fields substituted in one pass; a label on a line of its own stands before a list."""

    def filled(match: re.Match[str]) -> str:
        return pick(match[1].split(" | "), *draw) if match[1] else texts[match[2]]

    text = _DRAWN_OR_FIELD.sub(filled, layout)
    head, newline, rest = text.partition("\n") if "\n" in layout else (text, "", "")
    head = re.sub("^#", "#" * level, head)
    return f"{head}\n\n{rest}" if newline else head


def _step(step: Step, layout: str) -> str:
    """Both parts of a step as the style arranges them, substituted in one pass."""
    values = {"reason": step.reason, "work": step.work}
    return _PLACE.sub(lambda m: values[m[1]], layout).strip()


def _indented(text: str, width: int) -> str:
    """Further lines of a list item stand under its first."""
    return text.replace("\n", "\n" + " " * width)


def _numbered(steps: list[str]) -> str:
    return "\n".join(f"{n}. {_indented(step, 3)}" for n, step in enumerate(steps, 1))


def _bullets(steps: list[str]) -> str:
    return "\n".join(f"- {_indented(step, 2)}" for step in steps)


_ARRANGED: dict[str, Callable[[list[str]], str]] = {
    "numbered": _numbered,
    "bullets": _bullets,
    "paragraphs": "\n\n".join,
}
"""How a shape may arrange its steps."""

"""A learning note as text: from the strings of a JSON answer to Markdown with LaTeX."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import orjson
from tokenmill.schemas.math import Note, Step

from tokenmill import prompts

_TAB = re.compile(r"\t(?=(?:imes|ext|extbf|extit|extrm|heta|frac|an|anh|au|riangle|ilde|op|o)(?![A-Za-z]))")
_NEWLINE = re.compile(r"\n(?=(?:eq|abla|otin|mid|leq|geq|eg|ot|subseteq)(?![A-Za-z]))")
_RETURN = re.compile(r"\r(?=[A-Za-z])")
_LABEL = re.compile(r"^\s*(?:#{1,6}\s+|(?:\**step\s+\d{1,2}\s*[:.)–—-]+\**|\d{1,2}[.)])\s+)", re.IGNORECASE)
_BARE = re.compile(r"[^\n]{0,200}\\(?:frac|dfrac|tfrac|sqrt|pi|cdot|times|boxed|left|infty|log|ln|sin|cos)(?![A-Za-z])")
_PLACE = re.compile(r"\{(reason|work)\}")


def restore_latex(text: str) -> str:
    r"""Backslashes that a JSON escape swallowed: a model that writes "\frac" in JSON has written a form feed and "rac".

    Form feeds, backspaces and carriage returns before a letter never mean themselves; tabs and newlines are taken for
    a lost backslash only before the rest of a LaTeX command.
    """
    if text.isprintable():
        return text
    text = text.replace("\x0c", "\\f").replace("\x08", "\\b").replace("\r\n", "\n")
    return _NEWLINE.sub(r"\\n", _TAB.sub(r"\\t", _RETURN.sub(r"\\r", text)))


def tidied(note: Note) -> Note:
    """The note with lost backslashes restored, and without headings and step numbers inside its fields."""

    def tidy(text: str) -> str:
        return _LABEL.sub("", restore_latex(text).strip()).strip()

    plain = {name: tidy(getattr(note, name)) for name in ("title", "asked", "idea", "result", "check", "remark")}
    return replace(
        note,
        **plain,
        answer=_marked(tidy(note.answer)),
        known=tuple(filter(None, map(tidy, note.known))),
        steps=tuple(Step(tidy(step.reason), tidy(step.work)) for step in note.steps),
        unused=tuple(filter(None, map(tidy, note.unused))),
    )


def _marked(answer: str) -> str:
    """An answer that is a bare formula, between dollar signs."""
    return f"${answer}$" if _BARE.match(answer) and "$" not in answer and "\\(" not in answer else answer


def to_json(*notes: Note) -> str:
    """Notes as the row's `note` column keeps them."""
    return orjson.dumps(list(notes)).decode()


def render(note: Note, style: str, *, level: int = 1, title: str = "") -> str:
    """Markdown of one note under the headings of its style (a prompt's name); `level` is that of its title.

    `title` goes before the note's own.
    """
    headings, step = _layout(style)
    sections = (
        ("asked", note.asked),
        ("known", "\n".join(f"- {_indented(item, 2)}" for item in note.known)),
        ("idea", note.idea),
        ("steps", "\n".join(f"{n}. {_indented(_step(s, step), 3)}" for n, s in enumerate(note.steps, 1))),
        ("result", "\n\n".join(filter(None, (note.result, note.answer and f"**{note.answer}**")))),
        ("check", note.check),
        ("remark", note.remark),
    )
    parts = [f"{'#' * level} {text}" for text in (title or note.title,) if text]
    parts += [f"{'#' * (level + 1)} {headings[name]}\n\n{text}" for name, text in sections if text]
    return "\n\n".join(parts)


def _step(step: Step, layout: str) -> str:
    """Both parts of a step as the style arranges them, substituted in one pass."""
    values = {"reason": step.reason, "work": step.work}
    return _PLACE.sub(lambda m: values[m[1]], layout).strip()


def _indented(text: str, width: int) -> str:
    """Further lines of a list item stand under its first."""
    return text.replace("\n", "\n" + " " * width)


@lru_cache(maxsize=64)
def _layout(style: str) -> tuple[dict[str, str], str]:
    meta = prompts.load(style).meta
    return meta["headings"], meta["step"]

"""Does the answer talk about the task instead of just doing it? Looked for in front, at the end and around the text; and
is any of the model's thinking left in it?"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenmill.inference.thinking import TAG
from tokenmill.judges.form import phrases
from tokenmill.judges.form.substrings import Hints
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "commentary"
_HEAD, _TAIL = 300, 400  # characters looked at: constant cost whatever the length

_PHRASES = phrases.load(__package__, "commentary")
_FRONT = _PHRASES["front"]
_END = re.compile(rf"(?:(?<=[.!?:)*_\"”])\s+|\n\s*|^)[(\[*_-]*\s*(?:{_PHRASES['end'].pattern})", re.IGNORECASE)
# Only a tail with one of these can match `_END`, which is too slow to try on every text.
_HINTS = Hints((
    "hope", "let me know", "feel free", "would you like", "if you ", "note", "writ", "phras", "i have ", "i've ",
    "i tried", "as an ai", "ich hoffe", "espero", "j'espère", "spero che", "希望", "anmerkung", "nota", "remarque",
    "the above", "changes", "made ", "this version", "this passage", "this text", "end of",
    "revised version", "new version",
))  # fmt: skip
_WRAPPER = re.compile(
    r"<(?P<tag>(?:passage|rewrite|rewritten|rephrased|text|document|source|output|answer|result|chunk)[\w-]*)>",
    re.IGNORECASE,
)
_THINKING = re.compile(rf"</?(?:{TAG})>", re.IGNORECASE)


@dataclass(frozen=True)
class Commentary:
    """Refuses with `comments_on_task`: preambles, afterwords, labels, refusals, a code fence or tag around all, and
    thinking that does not end or of which only the end is marked.

    What stands in the source as well is content, not comment.
    """

    def __call__(self, source: str, rewrite: str) -> Verdict:
        text = rewrite.strip()
        comment = _front(text, source) or _end(text, source) or _around(text, source) or _thinking(text, source)
        if not comment:
            return _CLEAN
        detail = "Give only the passage itself, without any remark about it."
        return Verdict(CHECK, False, 0.0, "comments_on_task", (Finding("comment", detail, "", comment),))


_CLEAN = Verdict(CHECK, True, 1.0)


def _straight(text: str) -> str:
    return text if text.isascii() else text.replace("’", "'")


def _comment(match: re.Match[str] | None, text: str, source: str) -> str:
    """What was matched, as `text` spells it, unless the source has it too."""
    if not match:
        return ""
    comment = text[match.start() : match.end()].strip()
    return "" if comment.casefold() in source.casefold() else comment


def _front(text: str, source: str) -> str:
    head = text[:_HEAD].lstrip("(*_#> -")
    return _comment(_FRONT.match(_straight(head)), head, source)


def _end(text: str, source: str) -> str:
    tail = text[-_TAIL:]
    straight = _straight(tail)
    if not _HINTS(straight.lower()):
        return ""
    return _comment(_END.search(straight), tail, source)


def _around(text: str, source: str) -> str:
    if text.startswith("```") and text.endswith("```") and text.count("```") == 2 and not source.startswith("```"):
        return text.splitlines()[0]
    if text.startswith("<"):
        match = _WRAPPER.match(text)
        if match and text.endswith(f"</{match['tag']}>") and not source.startswith(match[0]):
            return match[0]
    return ""


def _thinking(text: str, source: str) -> str:
    """The first tag of thinking that the source does not have, with what stands behind or before it."""
    if "<" not in text:
        return ""
    known = {tag.lower() for tag in _THINKING.findall(source)}
    match = next((m for m in _THINKING.finditer(text) if m[0].lower() not in known), None)
    if match is None:  # one that the source speaks of does not open the rewrite, unless it opens the source
        match = _THINKING.match(text)
        if match is None or _THINKING.match(source.lstrip()):
            return ""
    return text[max(0, match.start() - 100) : match.end() + 100].strip()

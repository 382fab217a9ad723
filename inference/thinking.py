"""Thinking that a server leaves in the text of an answer, because no reasoning parser took it out."""

from __future__ import annotations

import re

TAG = "think|thinking|thought|reasoning"
"""Names of the tags that models think between."""
_OPENED = re.compile(rf"\s*<(?:{TAG})>", re.IGNORECASE)
_TAGS = re.compile(rf"\A<(?:{TAG})>|</(?:{TAG})>\Z", re.IGNORECASE)
_BLOCK = re.compile(rf"\s*<({TAG})>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)
# Templates that open the block in the prompt leave its end alone on a line or at the end of one. Prose about such a tag
# goes on behind it.
_REST = re.compile(rf"</({TAG})>[^\S\n]*(?:\n\s*|\Z)", re.IGNORECASE)


def without_thinking(text: str) -> str:
    """What an answer says after its thinking: without one leading `<think>…</think>`, or without all up to a closing tag
    that nothing opened. Thinking that never ends stays, for the checks to see."""
    if "</" not in text:
        return text
    block = _BLOCK.match(text)
    if block is not None:
        return text[block.end() :]
    rest = _REST.search(text)
    if rest is None:
        return text
    before = text[: rest.start()]
    if f"<{rest[1]}>".lower() in before.lower() or before.count("```") % 2:
        return text
    return text[rest.end() :]


def thinking_in(text: str) -> str:
    """The thinking that `without_thinking` takes away, without its tags; empty where there is none."""
    left = without_thinking(text)
    if left == text:
        return ""
    taken = text[: len(text) - len(left)].strip()
    return _TAGS.sub("", taken).strip()


def opens_thinking(text: str) -> bool:
    """Whether `text` begins with thinking."""
    return _OPENED.match(text) is not None

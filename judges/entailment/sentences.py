"""The sentences of a rewrite that state something, each with what of the source it is to be compared with."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice, pairwise
from typing import NamedTuple

from tokenmill.judges.form.words import split, unspaced, words

MAX_SENTENCES = 200
"""Sentences of a text that are compared, and that others are compared with."""
_BEST = 3
"""Sentences of the source that make a premise together."""
_LEAST_WORDS = 4
_SENTENCE = re.compile(r"(?:[^\n.!?。！？]|[.!?](?=[\w,;:)]))+[.!?。！？]*[\"”’»」』)*]*")
_MARK = re.compile(r"[\s>#*+•|-]*(?:\d{1,3}[.)]\s)?\**")
_LABEL = re.compile(r"\s*[*_]{0,2}([^\W\d][^\n.?!:*]{0,30}):[*_]{0,2}\s", re.MULTILINE)
_FENCED = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[^\n]*$", re.MULTILINE | re.DOTALL)


class Statement(NamedTuple):
    """A sentence of a rewrite and its premises."""

    text: str
    """As it stands, without marks of lists and labels of speakers."""
    nearest: str
    """The sentence of the source that shares most words with it; empty where none shares any."""
    around: str
    """The few that do, in the source's order."""


def statements(source: str, rewrite: str, context: str = "") -> list[Statement]:
    """The sentences of `rewrite` that can be compared: no questions, headings, tables, code, and none that shares no word with
    source or context."""
    there = [(s, _content(s)) for s in _sentences(f"{context}\n{source}")]
    found = []
    for sentence in _statements(rewrite):
        mine = _content(sentence)
        scored = [(len(mine & theirs) / (1 + len(theirs)) ** 0.5, -place) for place, (_, theirs) in enumerate(there)]
        best = sorted((score, place) for score, place in scored if score > 0)[-_BEST:]
        if best:
            places = sorted(-place for _, place in best)
            found.append(Statement(sentence, there[-best[-1][1]][0], " ".join(there[place][0] for place in places)))
    return found


def _statements(rewrite: str) -> list[str]:
    """Sentences that state something. What begins several lines and ends in a colon is the label of a speaker or an answer."""
    labels = Counter(m[1].strip() for m in _LABEL.finditer(rewrite))
    found = []
    for sentence in _sentences(_FENCED.sub("", rewrite)):
        text = sentence[_MARK.match(sentence).end() :]  # type: ignore[union-attr]  # it matches the empty text, too
        if (label := _LABEL.match(text)) and labels[label[1].strip()] > 1:
            text = text[label.end() :].lstrip("*_ ")
        text = text.strip()
        states = text.rstrip('"”’»」』)*').endswith((".", "!", "。", "！"))
        if states and "|" not in text and len(split(text)) >= _LEAST_WORDS:
            found.append(text)
    return found


def _sentences(text: str) -> list[str]:
    return [m[0].strip() for m in islice(_SENTENCE.finditer(text), MAX_SENTENCES) if m[0].strip()]


def _content(sentence: str) -> frozenset[str]:
    """Beginnings of the longer words and of figures; pairs of characters in scripts without spaces."""
    tokens = words(sentence)
    if unspaced(sentence):
        return frozenset(map("".join, pairwise(tokens)))
    return frozenset(word[:5] for word in tokens if len(word) > 3 or word.isdigit())

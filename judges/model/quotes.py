"""Are quotations really in the text they are attributed to? Compared by words, whatever the case and punctuation."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_ELLIPSIS = re.compile(r"\.{3,}|…|\[\s*\.{2,}\s*\]|\[…\]")
_SENTENCE_END = re.compile(r"[.!?。！？]+[\"'”’»)\]]*(?:\s+|$)|\n+")
_DIGIT_GROUP = re.compile(r"(?<=\d)[,\u202f\u00a0\u2009'’](?=\d{3}(?!\d))")
_MARKED_NUMBER = re.compile(r"(?<=\d)[.,](?=\d)")
_WORD = re.compile(r"[^\W_]+(?:\ue000[^\W_]+)*")


def plain(text: str) -> str:
    """Lower-case words between single spaces, Unicode-compatible spellings made equal; `1,204` and `3.5` stay whole."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = _MARKED_NUMBER.sub("\ue000", _DIGIT_GROUP.sub("", folded))
    return " ".join(_WORD.findall(folded))


@lru_cache(maxsize=64)
def _haystack(text: str) -> str:
    return f" {plain(text)} "


def stands_in(quote: str, text: str) -> bool:
    """Whether `quote` occurs in `text`; around an ellipsis both parts must, in order. An empty quotation does not."""
    haystack, position = _haystack(text), 0
    parts = [part for part in map(plain, _ELLIPSIS.split(quote)) if part]
    for part in parts:
        found = haystack.find(f" {part} ", position)
        if found < 0:
            return False
        position = found + len(part) + 1
    return bool(parts)


def is_sentence_of(quote: str, text: str) -> bool:
    """Whether `quote` is one whole sentence of `text`, or several."""
    return stands_in(quote, text) and all(part in _sentences(text) for part in _split(quote))


def _split(text: str) -> list[str]:
    return [sentence for sentence in map(plain, _SENTENCE_END.split(text)) if sentence]


@lru_cache(maxsize=64)
def _sentences(text: str) -> frozenset[str]:
    return frozenset(_split(text))

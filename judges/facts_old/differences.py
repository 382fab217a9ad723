"""Facts that differ between a source and its rewrite, and the findings that quote both sides of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenmill.judges.facts.text import Fact, split_words
from tokenmill.schemas.verdicts import Finding


@dataclass(frozen=True)
class Difference:
    """One fact of one text that the other does not have, or has otherwise."""

    kind: str
    """One of `REASONS`."""
    fact: Fact
    other: str = ""
    """What the other text has instead, where that is known."""
    in_source: bool = False
    """Whether `fact` is a place in the source; else it is one in the rewrite."""


class Quotes:
    """Verbatim clauses around facts, and where the other text speaks of the same."""

    def __init__(self, source: str, rewrite: str) -> None:
        self.source, self.rewrite = source, rewrite
        self._sentences: dict[bool, list[tuple[str, frozenset[str]]]] = {}

    def finding(self, difference: Difference) -> Finding:
        fact = difference.fact
        here = self.source if difference.in_source else self.rewrite
        quote = _clause(here, fact.start, fact.end)
        match = self._closest(quote, of_source=not difference.in_source)
        source, rewrite = (quote, match) if difference.in_source else (match, quote)
        return Finding(difference.kind, _detail(difference, here[fact.start : fact.end]), source, rewrite)

    def _closest(self, quote: str, of_source: bool) -> str:
        """The other text's sentence that shares most words with `quote`, shortened; empty if none shares two."""
        if of_source not in self._sentences:
            text = self.source if of_source else self.rewrite
            self._sentences[of_source] = [(s, frozenset(split_words(s))) for s in _SENTENCE.findall(text[:20_000])]
        words = frozenset(w for w in split_words(quote) if len(w) > 3)
        best, shared = "", 1
        for sentence, its_words in self._sentences[of_source]:
            if (count := len(words & its_words)) > shared:
                best, shared = sentence.strip(), count
        return best[:160]


_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s)[^.!?\n]*)*[.!?]?")
_BOUNDARY = re.compile(r"[.!?;](?=\s)|\n")


def _clause(text: str, start: int, end: int, width: int = 70) -> str:
    """A verbatim quotation around `text[start:end]`, at most `width` characters to each side, within its sentence."""
    end = min(end, start + 200)
    left, right = max(0, start - width), min(len(text), end + width)
    for match in _BOUNDARY.finditer(text, left, start):
        left = match.end()
    if match := _BOUNDARY.search(text, end, right):
        right = match.start() + (match[0] != "\n")
    if left and not text[left - 1].isspace() and not text[left].isspace():
        left = next((i for i in range(left, start) if text[i].isspace()), start)
    if right < len(text) and text[right - 1].isalnum() and text[right].isalnum():
        right = next((i for i in range(right, end, -1) if text[i].isspace()), end)
    return text[left:right].strip()


def _detail(difference: Difference, spelled: str) -> str:
    spelled = " ".join(spelled[:80].split())
    kind = difference.fact.kind
    match difference.kind:
        case "unit_changed":
            return f'Give "{spelled}" its unit in the source ({difference.other}), not {difference.fact.unit}.'
        case "negation_changed":
            return f'State "{difference.other}" as the source does: do not add or drop a negation.'
        case lost if lost.endswith("_lost"):
            return f'Keep the {kind} "{spelled}".'
        case _:
            return f'Remove or correct the {kind} "{spelled}", which the source does not have.'

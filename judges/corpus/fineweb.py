"""The rules that FineWeb added (Penedo et al. 2024, section 3.6): lists, menus and repeated lines rather than text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tokenmill.judges.corpus.saying import passed, refusal
from tokenmill.judges.corpus.words import Words
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.verdicts import Verdict

CHECK = "fineweb"
ENDS = tuple(".!?…。！？．｡؟।։۔።॥‼⁇⁈⁉")
"""Marks that end a sentence, of scripts in wide use."""


@dataclass(frozen=True)
class FineWeb:
    """Lines that end as sentences do, are not all short, not said twice, and hold some words each."""

    min_ended_lines: float = 0.12
    """Share of lines that end with a mark."""
    max_short_lines: float = 0.67
    """Share of lines of at most `short_line` characters."""
    short_line: int = 30
    """Characters of a short line."""
    max_repeated: float = 0.01
    """Share of characters in lines that stand before."""
    max_breaks: float = 0.3
    """Line breaks per token."""

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        text = document.text
        lines = [line for line in text.split("\n") if line and not line.isspace()]
        if not lines:
            return refusal(CHECK, "unended_lines", "it has no lines")
        ended = sum(line.endswith(ENDS) for line in lines) / len(lines)
        if ended < self.min_ended_lines:
            detail = f"{ended:.0%} of the lines end with a mark, fewer than {self.min_ended_lines:.0%}"
            return refusal(CHECK, "unended_lines", detail, lines[0], ended)
        short = [line for line in lines if len(line) <= self.short_line]
        if len(short) > self.max_short_lines * len(lines):
            detail = f"{len(short)} of {len(lines)} lines have at most {self.short_line} characters"
            return refusal(CHECK, "short_lines", f"{detail}, more than {self.max_short_lines:.0%}", short[0])
        counts = Counter(lines)
        if len(counts) < len(lines):
            again = {line: len(line) * (count - 1) for line, count in counts.items() if count > 1}
            characters, worst = sum(again.values()), max(again, key=lambda line: again[line])
            whole = len(text) - text.count("\n")
            if characters > self.max_repeated * whole:
                detail = f"lines that stand before have {characters / whole:.1%} of the characters"
                return refusal(CHECK, "repeats_lines", f"{detail}, more than {self.max_repeated:.0%}", worst)
        breaks = text.count("\n")
        if breaks > self.max_breaks * words.tokens.count:
            detail = f"{breaks} line breaks in {words.tokens.count} tokens, more than {self.max_breaks:.0%}"
            return refusal(CHECK, "mostly_line_breaks", detail, text)
        return passed(CHECK, ended)

"""Does an extract hold whole sentences of its source, word for word, and nothing else?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tokenmill.judges.form.copying import CHECK as COPYING
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "verbatim"
_SENTENCE = re.compile(r"\S.*?(?:[.!?…][\"'”’»)\]*_]*(?=\s)|[。！？][”’」』）]*|$)", re.MULTILINE)
_ITEM = re.compile(r"^(?:[-*•>]|\d{1,3}[.)])\s+")
_SPELLING = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-", "\u00a0": " "})
"""Marks that models and editors exchange without a word being another."""
_SHOWN = 8


@dataclass(frozen=True)
class Verbatim:
    """Refuses with `not_verbatim`: a sentence of the text is no whole sentence, or line, of the source. Marks of lists and the
    typographic form of quotation marks and dashes do not count."""

    spares: ClassVar[frozenset[str]] = frozenset({COPYING})

    def fits(self, source: str, language: str) -> bool:
        return bool(source.strip())

    def stated(self, text: str) -> str:
        return text

    def __call__(self, source: str, text: str, context: str, language: str) -> Verdict:
        there = {_folded(sentence) for sentence in sentences(source)}
        lines = {_folded(line) for line in source.splitlines()}
        wrong: list[str] = []
        count = 0
        for line in filter(None, map(str.strip, text.splitlines())):
            if _folded(line) in lines:
                count += 1
                continue
            for sentence in sentences(line):
                count += 1
                if _folded(sentence) not in there:
                    wrong.append(sentence)
        if not wrong:
            return Verdict(CHECK, True, 1.0)
        findings = tuple(
            Finding("not_verbatim", f'Copy whole sentences exactly, or leave them out: "{quote}"', "", quote)
            for quote in (" ".join(one.split())[:200] for one in wrong[:_SHOWN])
        )
        return Verdict(CHECK, False, round(1 - len(wrong) / count, 4), "not_verbatim", findings)


def sentences(text: str) -> Iterator[str]:
    """The sentences of each line. Texts that are compared are cut alike, so an abbreviation's full stop does no harm."""
    for line in text.splitlines():
        yield from (match[0] for match in _SENTENCE.finditer(line.strip()))


def _folded(sentence: str) -> str:
    bare = _ITEM.sub("", sentence.strip())
    return " ".join(bare.translate(_SPELLING).split())

"""Does an extract hold whole sentences of its source, word for word, and nothing else?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tokenmill.judges.embedding.similarity import CHECK as SIMILARITY
from tokenmill.judges.form.copying import CHECK as COPYING
from tokenmill.judges.form.truncation import CHECK as TRUNCATION
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "verbatim"
_SENTENCE = re.compile(r"\S.*?(?:[.!?…][\"'”’»)\]*_]*(?=\s)|[。！？][”’」』）]*|$)", re.MULTILINE)
_ITEM = re.compile(r"^(?:[-*•>]|\d{1,3}[.)])\s+")
_SPELLING = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-", "\u00a0": " "})
"""Marks that models and editors exchange without a word being another."""
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_SHOWN = 8


@dataclass(frozen=True)
class Verbatim:
    """Refuses with `not_verbatim`: a sentence of the text is no whole sentence, or line, of the source, or comes more often than
    there. Marks of lists, line ends within a paragraph and the typographic form of quotation marks and dashes do not count."""

    # What holds nothing but its source's sentences is no copy by mistake, does not stop in one, and keeps to the subject.
    spares: ClassVar[frozenset[str]] = frozenset({COPYING, TRUNCATION, SIMILARITY})

    def fits(self, source: str, language: str) -> bool:
        return bool(source.strip())

    def stated(self, text: str) -> str:
        return text

    def __call__(self, source: str, text: str, context: str, language: str) -> Verdict:
        there = Counter(folded for paragraph in _PARAGRAPH.split(source) for folded in _units(paragraph))
        wrong: list[tuple[str, str]] = []
        used: Counter[str] = Counter()
        for paragraph in filter(None, map(str.strip, _PARAGRAPH.split(text))):
            for piece in _pieces(paragraph, there):
                folded = _folded(piece)
                used[folded] += 1
                if folded not in there:
                    wrong.append((piece, "Copy whole sentences exactly, or leave them out"))
                elif used[folded] > there[folded]:
                    wrong.append((piece, "Copy this once"))
        if not wrong:
            return Verdict(CHECK, True, 1.0)
        quoted = [(" ".join(piece.split())[:200], order) for piece, order in wrong[:_SHOWN]]
        findings = tuple(Finding("not_verbatim", f'{order}: "{quote}"', "", quote) for quote, order in quoted)
        return Verdict(CHECK, False, round(1 - len(wrong) / used.total(), 4), "not_verbatim", findings)


def sentences(text: str) -> Iterator[str]:
    """The sentences of each line. Texts that are compared are cut alike, so an abbreviation's full stop does no harm."""
    for line in text.splitlines():
        yield from (match[0] for match in _SENTENCE.finditer(line.strip()))


def _units(paragraph: str) -> Iterator[str]:
    """What may be copied of a paragraph: its sentences, and its lines where they are no mere wrapping; each as often as it is
    there."""
    lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
    found = Counter(map(_folded, sentences(" ".join(lines))))
    if not _wrapped(lines):
        found |= Counter(map(_folded, lines)) | Counter(map(_folded, sentences(paragraph)))
    yield from found.elements()


def _pieces(paragraph: str, there: Mapping[str, int]) -> list[str]:
    """A paragraph of an extract in sentences: over the ends of its lines where that makes sentences of the source."""
    joined = list(sentences(" ".join(paragraph.split())))
    if all(_folded(sentence) in there for sentence in joined):
        return joined
    return [
        piece
        for line in filter(None, map(str.strip, paragraph.splitlines()))
        for piece in ([line] if _folded(line) in there else sentences(line))
    ]


def _wrapped(lines: Sequence[str]) -> bool:
    """Whether the lines of a paragraph are prose that was wrapped at some width."""
    full = lines[:-1]
    if not full or any(_ITEM.match(line) or "|" in line for line in lines):
        return False
    ended = sum(line.endswith((".", "!", "?", ":", ";")) for line in full)
    return min(map(len, full)) >= 40 and 2 * ended < len(full)


def _folded(sentence: str) -> str:
    bare = _ITEM.sub("", sentence.strip())
    return " ".join(bare.translate(_SPELLING).split())

"""The rules by which MassiveText was filtered: quality and repetition (Rae et al. 2021, "Gopher", section A.1.1 and table A1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenmill.judges.corpus.saying import passed, refusal
from tokenmill.judges.corpus.words import Hashes, Words
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.verdicts import Verdict

QUALITY, REPETITION = "gopher_quality", "gopher_repetition"
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
UNSPACED = ("zh", "ja", "th", "lo", "km", "my")
"""Languages whose words are not told by spaces: lengths of words say nothing there."""
_PARAGRAPHS = re.compile(r"\n{2,}")
_LINES = re.compile(r"\n+")


@dataclass(frozen=True)
class GopherQuality:
    """A document of 50 to 100,000 words of usual length, made of sentences rather than of marks and lists."""

    min_words: int = 50
    """Words that a document has at least."""
    max_words: int = 100_000
    """Words that it has at most."""
    min_word_length: float = 3.0
    """Mean characters of a word, at least."""
    max_word_length: float = 10.0
    """Mean characters of a word, at most."""
    max_symbols: float = 0.1
    """Hash signs, and ellipses, per token."""
    max_bullet_lines: float = 0.9
    """Share of lines that begin with a bullet."""
    max_ellipsis_lines: float = 0.3
    """Share of lines that end with an ellipsis."""
    min_alphabetic: float = 0.8
    """Share of tokens with a letter, at least."""
    min_stop_words: int = 2
    """Different words of eight very common English ones; in English texts."""

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        text, tokens = document.text, words.tokens
        worded = tokens.worded
        count = int(worded.sum())
        if count < self.min_words:
            return _short(f"{count} words, fewer than {self.min_words}", text)
        if count > self.max_words:
            return refusal(QUALITY, "too_many_words", f"{count:,} words, more than {self.max_words:,}", text)
        if document.language not in UNSPACED:
            mean = float(tokens.lengths[worded].mean())
            if not self.min_word_length <= mean <= self.max_word_length:
                allowed = f"{self.min_word_length:g} to {self.max_word_length:g}"
                longest = int(words.lengths.argmax())
                return refusal(
                    QUALITY,
                    "odd_word_length",
                    f"words have {mean:.1f} characters, not {allowed}",
                    words.span(longest, longest),
                )
        for symbol, found in (("#", text.count("#")), ("…", text.count("...") + text.count("…"))):
            if found > self.max_symbols * tokens.count:
                detail = f"{found} of {symbol} in {tokens.count} tokens, more than {self.max_symbols:.0%}"
                return refusal(QUALITY, "too_many_symbols", detail, _around(text, symbol if symbol == "#" else "..."))
        return self._lines(text) or self._letters(document, words, tokens)

    def _lines(self, text: str) -> Verdict | None:
        lines = text.splitlines()
        bullets = [line for line in lines if line.lstrip().startswith(("•", "-"))]
        if len(bullets) > self.max_bullet_lines * len(lines):
            detail = f"{len(bullets)} of {len(lines)} lines begin with a bullet, more than {self.max_bullet_lines:.0%}"
            return refusal(QUALITY, "mostly_bullets", detail, bullets[0])
        cut = [line for line in lines if line.rstrip().endswith(("...", "…"))]
        if len(cut) > self.max_ellipsis_lines * len(lines):
            detail = f"{len(cut)} of {len(lines)} lines end with an ellipsis, more than {self.max_ellipsis_lines:.0%}"
            return refusal(QUALITY, "mostly_cut_lines", detail, cut[0])
        return None

    def _letters(self, document: CorpusDocument, words: Words, tokens: Words) -> Verdict:
        share = tokens.lettered / max(1, tokens.count)
        if share < self.min_alphabetic:
            detail = f"{share:.0%} of the tokens have a letter, fewer than {self.min_alphabetic:.0%}"
            return refusal(QUALITY, "few_letters", detail, document.text, share)
        if document.language == "en":
            found = sum(word in words for word in STOP_WORDS)
            if found < self.min_stop_words:
                detail = f"{found} of {', '.join(STOP_WORDS)}, fewer than {self.min_stop_words}"
                return refusal(QUALITY, "few_stop_words", detail, document.text)
        return passed(QUALITY, share)


def _short(detail: str, text: str) -> Verdict:
    return refusal(QUALITY, "too_few_words", detail, text)


def _around(text: str, symbol: str) -> str:
    place = max(0, text.find(symbol) - 40)
    return text[place : place + 120]


@dataclass(frozen=True)
class GopherRepetition:
    """Lines, paragraphs and runs of words that a document does not say again and again."""

    lines: float = 0.3
    """Share of lines that stand before."""
    paragraphs: float = 0.3
    """Share of paragraphs that stand before."""
    line_characters: float = 0.2
    """Share of characters in such lines."""
    paragraph_characters: float = 0.2
    """Share of characters in such paragraphs."""
    frequent: tuple[tuple[int, float], ...] = ((2, 0.2), (3, 0.18), (4, 0.16))
    """(n, share of characters in the most frequent run of n tokens)"""
    repeated: tuple[tuple[int, float], ...] = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.1))
    """(n, share of characters in runs of n tokens that stand before)"""

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        text = document.text
        for what, parts, most, most_characters in (
            ("paragraphs", _PARAGRAPHS.split(text.strip()), self.paragraphs, self.paragraph_characters),
            ("lines", _LINES.split(text), self.lines, self.line_characters),
        ):
            again, characters, example = _repeated(parts)
            if again > most * len(parts):
                return _said_again(f"{again} of {len(parts)} {what} stand before, more than {most:.0%}", example)
            if characters > most_characters * len(text):
                detail = f"{what} that stand before have {characters / len(text):.0%} of the characters, more than"
                return _said_again(f"{detail} {most_characters:.0%}", example)
        return self._grams(text, words.tokens)

    def _grams(self, text: str, tokens: Words) -> Verdict:
        for n, most in self.frequent:
            grams = tokens.grams(n)
            if not len(grams):
                continue
            order, cuts = _alike(grams)
            counts = np.diff(cuts)
            # Of several the one that comes first; the sort is stable.
            place = int(order[cuts[:-1][counts == counts.max()]].min())
            length = int(tokens.lengths[place : place + n].sum()) + n - 1
            if length * int(counts.max()) > most * len(text):
                share = length * int(counts.max()) / len(text)
                detail = f"one run of {n} tokens has {share:.0%} of the characters, more than {most:.0%}"
                return refusal(REPETITION, "frequent_phrase", detail, tokens.span(place, place + n - 1), 1 - share)
        worst = 0.0
        sums = np.concatenate(([0], np.cumsum(tokens.lengths)))
        for n, most in self.repeated:
            grams = tokens.grams(n)
            order, cuts = _alike(grams)
            if len(cuts) > len(grams):  # all differ, and then no longer run stands twice either
                break
            twice = np.repeat(np.diff(cuts) > 1, np.diff(cuts))
            characters, place = _covered(np.sort(order[twice]), grams, sums, n)
            worst = max(worst, characters / len(text))
            if characters > most * len(text):
                share = characters / len(text)
                detail = (
                    f"runs of {n} tokens that stand before have {share:.0%} of the characters, more than {most:.0%}"
                )
                return refusal(REPETITION, "repeated_phrases", detail, tokens.span(place, place + n - 1), 1 - share)
        return passed(REPETITION, 1 - worst)


def _said_again(detail: str, example: str) -> Verdict:
    return refusal(REPETITION, "repeated_lines", detail, example)


def _repeated(parts: Sequence[str]) -> tuple[int, int, str]:
    """How many of the parts stand before, their characters, and the most frequent of them."""
    counts = Counter(parts)
    if len(counts) == len(parts):
        return 0, 0, ""
    twice = {part: count for part, count in counts.items() if count > 1}
    characters = sum(len(part) * (count - 1) for part, count in twice.items())
    return len(parts) - len(counts), characters, max(twice, key=lambda part: (twice[part], len(part)))


def _alike(grams: Hashes) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order in which equal values stand together, first ones first, and where in it each value begins, with the end."""
    order = np.argsort(grams, kind="stable")
    ordered = grams[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return order, np.concatenate(([0], cuts, [len(grams)]))


def _covered(places: NDArray[np.intp], grams: Hashes, sums: NDArray[np.int64], n: int) -> tuple[int, int]:
    """Characters of the runs that stand before, those that overlap counted once; and where the first of them is.

    Args:
        places: of all runs that stand more than once, in order; no other can stand before.
    """
    seen: set[int] = set()
    characters, end, first = 0, 0, -1
    for place, gram in zip(places.tolist(), grams[places].tolist(), strict=True):
        if place < end:
            continue
        if gram in seen:
            characters += int(sums[place + n] - sums[place])
            first = place if first < 0 else first
            end = place + n
        else:
            seen.add(gram)
    return characters, first

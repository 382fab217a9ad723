"""Does the rewrite merely copy its source? Word n-gram overlap and the longest run of copied words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import compress, count

from tokenmill.judges.form.words import N, ngrams, sequence, shared_ngrams, split, unspaced, words
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "copying"
_QUOTATION = re.compile(r'"[^"\n]{1,1000}"|“[^”\n]{1,1000}”|„[^“”\n]{1,1000}[“”]|«[^»\n]{1,1000}»|「[^」\n]{1,1000}」')
_FENCED = re.compile(r"^(?:```|~~~)[^\n]*\n.*?(?:^(?:```|~~~)|\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"[=(){}\[\]<>;_\\|$#@&*+^~]")
"""What prose that somebody has fenced in seldom has."""
_GONE = "\0"
"""Where a kept line was: no evidence goes across it."""
_QUOTE_MARKS = re.compile(r'["“„«「]')


@dataclass(frozen=True)
class Copying:
    """Refuses with `copies_source`.

    Only words in runs of at least 8 shared words count. Names, numbers and whatever the source puts in quotation marks
    may stay as they are, and so may lines of code and tables of short cells. Sources of under `min_words` words beside
    those leave no room for other words and always pass.
    """

    max_share: float = 0.4
    """Largest share of the rewrite's words, names and numbers not counted, that may be copied."""
    max_run: int = 40
    """Largest number of words copied in one piece, names and numbers not counted."""
    min_words: int = 25
    """Words that a source must have to be judged at all."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_share < 1:
            raise ValueError(f"Copying.max_share must be in [0, 1), not {self.max_share}")
        if self.max_run < N:
            raise ValueError(f"Copying.max_run must be at least {N}, not {self.max_run}")

    def __call__(self, source: str, rewrite: str) -> Verdict:
        shared = shared_ngrams(rewrite, source)
        if shared and (lines := _kept_lines(source)):
            source, rewrite = _without(source, lines), _without(rewrite, lines)
            shared = shared_ngrams(rewrite, source)
        if not shared or len(words(source)) < self.min_words:
            return _CLEAN
        shared -= _quoted_ngrams(source)
        spelled = split(rewrite)
        free = bytes(map(_free, spelled, words(rewrite)))
        copied, longest, where = _runs(rewrite, free, shared)
        factor = 2 if unspaced(rewrite) else 1  # characters, not words
        share = copied / max(1, sum(free))
        score = round(1 - share, 4)
        if (share <= self.max_share or copied < 2 * N) and longest <= factor * self.max_run:
            return Verdict(CHECK, True, score)
        excerpt = _excerpt(rewrite, *where)
        detail = f"Say this in other words: {share:.0%} of the words stand in runs copied from the source."
        return Verdict(CHECK, False, score, "copies_source", (Finding("copied_run", detail, excerpt, excerpt),))


_CLEAN = Verdict(CHECK, True, 1.0)


def _quoted_ngrams(source: str) -> frozenset[tuple[str, ...]]:
    """N-grams inside the source's own quotations, unless most of the source is quotation (a play, an interview)."""
    if not _QUOTE_MARKS.search(source):
        return frozenset()
    quotations = _QUOTATION.findall(source)
    if 3 * sum(map(len, quotations)) > 2 * len(source):
        return frozenset()
    return frozenset(gram for quotation in quotations for gram in ngrams(quotation))


def _kept_lines(source: str) -> frozenset[str]:
    """Lines that have no other wording: fenced code, and rows of tables whose cells are short."""
    blocks = _FENCED.finditer(source) if "```" in source or "~~~" in source else ()
    fenced = [line for block in blocks for line in block[0].splitlines()]
    rows = [line for line in source.splitlines() if line.count("|") > 1]
    kept = [line for line in fenced if len(split(line)) < N or _CODE.search(line)]
    kept += [row for row in rows if all(len(split(cell)) < N for cell in row.split("|"))]
    return frozenset(map(str.strip, kept)) - {""}


def _without(text: str, lines: frozenset[str]) -> str:
    return "\n".join(_GONE if line.strip() in lines else line for line in text.splitlines())


def _free(word: str, lowered: str) -> bool:
    """Whether another word could stand for this one: not a number, not capitalised."""
    return word == lowered and not word.isdigit()


def _runs(rewrite: str, free: bytes, shared: frozenset[tuple[str, ...]]) -> tuple[int, int, tuple[int, int]]:
    """Copied words in all, copied words in the longest run (both without names and numbers), and where that run is.

    Args:
        free: of each word of the rewrite, whether another could stand for it.
    """
    copied, longest, where = 0, 0, (0, 0)
    start, end = 0, 0
    for i in compress(count(), map(shared.__contains__, sequence(words(rewrite)))):
        if i > end:
            start, end = i, i
            run = 0
        elif end == 0:
            run = 0
        more = sum(free[max(i, end) : i + N])
        run += more
        copied += more
        end = i + N
        if run > longest:
            longest, where = run, (start, end)
    return copied, longest, where


def _excerpt(text: str, start: int, end: int, limit: int = 240) -> str:
    """The verbatim text of words `start` to `end`, at most `limit` characters."""
    position = 0
    first = last = 0
    for i, word in enumerate(split(text)[:end]):
        position = text.index(word, position)
        if i == start:
            first = position
        position += len(word)
        last = position
        if i >= start and last - first >= limit:
            break
    return text[first:last].partition(_GONE)[0].rstrip()

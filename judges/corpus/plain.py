"""Checks by lists: of languages wanted, of words unwanted; and of what mathematics states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from tokenmill.judges.corpus.saying import passed, refusal
from tokenmill.judges.corpus.words import Hashes, Words
from tokenmill.judges.math.equalities import Equalities
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.verdicts import Verdict

LANGUAGE, TOXICITY, MATH = "language", "toxicity", "math"


@dataclass(frozen=True)
class Languages:
    """Refuses documents in other languages than those wanted."""

    wanted: tuple[str, ...]
    """ISO 639-1 codes."""

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        if document.language in self.wanted:
            return passed(LANGUAGE)
        detail = f"it is in {document.language}, and wanted are {', '.join(self.wanted)}"
        return refusal(LANGUAGE, "other_language", detail, document.text)


@dataclass(frozen=True)
class Toxicity:
    """Refuses a document in which words of a list are frequent. A single one, for which C4 refuses a page, stands in many an
    honest text on medicine, law or literature."""

    listed: tuple[str, ...] = field(repr=False)
    """Words, and phrases of up to four."""
    min_hits: int = 3
    """Listed words that a refused document has at least."""
    max_share: float = 0.005
    """Share of listed words among all, beyond which it is refused."""

    def __post_init__(self) -> None:
        if not self.listed:
            raise ValueError("the list has no words")

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        places = [
            (n, place) for n, wanted in self._hashes() for place in np.flatnonzero(np.isin(words.grams(n), wanted))
        ]
        share = len(places) / max(1, words.count)
        if len(places) >= self.min_hits and share > self.max_share:
            n, place = places[0]
            detail = f"{len(places)} of {words.count} words are listed, more than {self.max_share:.1%}"
            return refusal(TOXICITY, "toxic_words", detail, words.span(int(place), int(place) + n - 1), 1 - share)
        return passed(TOXICITY, 1 - share)

    def _hashes(self) -> list[tuple[int, Hashes]]:
        made: list[tuple[int, Hashes]] | None = self.__dict__.get("_made")
        if made is None:
            by_length: dict[int, list[int]] = {}
            for entry in map(Words, self.listed):
                if 1 <= entry.count <= 4:
                    by_length.setdefault(entry.count, []).append(int(entry.grams(entry.count)[0]))
            made = [(n, np.array(sorted(found), np.uint64)) for n, found in sorted(by_length.items())]
            object.__setattr__(self, "_made", made)
        return made


def word_list(lines: Iterable[str]) -> tuple[str, ...]:
    """A list of words, one a line; blank lines and those that begin with # are none."""
    return tuple(dict.fromkeys(line.strip() for line in lines if line.strip() and not line.startswith("#")))


@dataclass(frozen=True)
class Mathematics:
    """Refuses a document of mathematics that states a false equality."""

    equalities: Equalities = field(default_factory=Equalities)

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        try:
            said = self.equalities(document.text, document.language)
        except ValueError as error:  # more statements than are decided of one text
            return refusal(MATH, "too_many_statements", str(error), document.text)
        if said.passed:
            return passed(MATH, said.score)
        first = said.findings[0]
        return refusal(MATH, "false_statement", first.detail, first.rewrite, said.score)

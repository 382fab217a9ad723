"""Statements whose negation changed between a text and its rewrite, by one narrow rule.

A word that follows "not", "never", "cannot" or "n't" at once, and that the other text also has, but only in sentences
without any negative word, was negated on the way (or, seen from the source, lost its negation), if one of those
sentences is plainly about the same. Everything vaguer is left to the judge model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from tokenmill.judges.facts.tables import FUNCTION_WORDS, stem, word_list
from tokenmill.judges.facts.text import split_words

_CUE = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
_CUES = frozenset(["not", "never", "cannot", "t"])
_NEGATIVE = frozenset(
    word_list(
        "not never cannot no non none nobody nothing nowhere neither nor without t fail fails failed failure refuse refused "
        "refuses deny denied lack lacked lacks lacking absent absence unable impossible hardly barely rarely seldom prevent "
        "prevented afraid fear feared doubt doubted avoid avoided stop stopped reject rejected unlike except few little only "
        "until unless instead rather despite against oppose opposed"
    )
)
_LIMITED = frozenset(word_list("only just merely simply until unless even always necessarily all"))
"""After these a "not" limits and does not deny."""
_AUXILIARY = frozenset(word_list("be been being have had has yet ever so very a an the"))
_UNTIL = re.compile(r"[^.!?;\n]{0,50}\b(?:until|till|before|unless)\b", re.IGNORECASE)
"""What follows says when something is denied; the other text may affirm the rest: "not described until 1966"."""
_SHARED = 7
"""Content words, the negated one included, that two statements about the same have in common; all of a shorter one's."""
_OFTEN = 8
"""A word in more sentences than this is the text's subject; what one of them says of it proves nothing."""
_SENTENCE = re.compile(r"[^.!?;\n]+(?:[.](?!\s)[^.!?;\n]*)*[.!?;]?")
_TOKEN = re.compile(r"[^\W\d_]+")

Change = tuple[int, int, str]
"""Start and end (characters) of a negation in one text, and the word it negates there and not in the other."""


def denies(words: Set[str]) -> bool:
    """Whether a text of these words, split as `split_words` does, has a negation that `negations_changed` looks at."""
    return not _CUES.isdisjoint(words)


def negations_changed(source: str, rewrite: str) -> tuple[list[Change], list[Change]]:
    """Negations of `source` that the rewrite affirms, and negations of `rewrite` that the source affirms. English."""
    return list(_affirmed(source, rewrite)), list(_affirmed(rewrite, source))


def _affirmed(text: str, other: str) -> Iterator[Change]:
    sentences: list[tuple[frozenset[str], bool]] = []
    mentions: dict[str, list[int]] = {}
    for cue in _CUE.finditer(text):
        if not (word := _negated(text, cue.end())) or _UNTIL.match(text, cue.end()):
            continue
        if not sentences:
            sentences = [(_stems(sentence), _negative(sentence)) for sentence in _SENTENCE.findall(other)]
            for number, (stems, _) in enumerate(sentences):
                for one in stems:
                    mentions.setdefault(one, []).append(number)
        places = mentions.get(stem(word), ())
        if not places or len(places) > _OFTEN or any(sentences[number][1] for number in places):
            continue
        around = _stems(text[max(0, cue.start() - 150) : cue.end() + 100])
        affirmed = [sentences[number][0] for number in places]
        if any(len(around & stems) >= max(3, min(_SHARED, len(stems))) for stems in affirmed):
            yield cue.start(), cue.end(), word


def _negated(text: str, at: int) -> str:
    """The content word right after a negation, or after auxiliaries and adverbs that follow it."""
    window = text[at : at + 60]
    for count, token in enumerate(_TOKEN.finditer(window)):
        word = token[0].lower()
        if count == 4 or word in _LIMITED or any(mark in window[: token.start()] for mark in ".,;:!?\n"):
            return ""
        if word not in _AUXILIARY and not word.endswith("ly"):
            return word if len(word) > 2 and word not in FUNCTION_WORDS else ""
    return ""


def _negative(sentence: str) -> bool:
    """Whether a sentence asks, or has a word that may deny something."""
    return sentence.endswith("?") or not _NEGATIVE.isdisjoint(split_words(sentence))


def _stems(text: str) -> frozenset[str]:
    return frozenset([stem(word) for word in split_words(text) if word not in FUNCTION_WORDS])

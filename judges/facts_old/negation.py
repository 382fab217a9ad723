"""Statements whose negation changed between a text and its rewrite, by one narrow rule.

A word that follows "not", "never", "cannot" or "n't" at once, and that the other text also has, but only in sentences
without any negative word, was negated on the way (or, seen from the source, lost its negation), if one of those
sentences speaks of the same: it shares further words. Questions, "not only", "not until" and the like are let pass, and
everything vaguer is left to the judge model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from tokenmill.judges.facts.tables import FUNCTION_WORDS
from tokenmill.judges.facts.text import split_words

_CUE = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
_NEGATIVE = frozenset(
    [
        *(
            "not",
            "never",
            "cannot",
            "no",
            "non",
            "none",
            "nobody",
            "nothing",
            "nowhere",
            "neither",
            "nor",
            "without",
            "t",
        ),
        *("fail", "fails", "failed", "failure", "refuse", "refused", "refuses", "deny", "denied", "lack", "lacked"),
        *("lacks", "lacking", "absent", "absence", "unable", "impossible", "hardly", "barely", "rarely", "seldom"),
        *(
            "prevent",
            "prevented",
            "afraid",
            "fear",
            "feared",
            "doubt",
            "doubted",
            "avoid",
            "avoided",
            "stop",
            "stopped",
            "reject",
            "rejected",
            "unlike",
            "except",
        ),
        *("few", "little", "only", "until", "unless", "instead", "rather", "despite", "against", "oppose", "opposed"),
    ]
)
_LIMITED = frozenset(["only", "just", "merely", "simply", "until", "unless", "even", "always", "necessarily", "all"])
"""After these a "not" limits and does not deny."""
_WITHIN = re.compile(
    r"[^.!?;\n]{0,50}\b(?:until|till|before|unless|any(?:one|body|thing|where|more)?|yet|either)\b", re.IGNORECASE
)
"""Words that say when or of whom something is denied; the other text may affirm the rest: "not before 1966"."""
_AUXILIARY = frozenset(["be", "been", "being", "have", "had", "has", "yet", "ever", "so", "very", "a", "an", "the"])
_SHARED = 3
"""Content words, the negated one included, that two statements about the same have in common."""
_CERTAIN = 5
"""With so many in common they are about the same even if a sentence beside it denies something too."""
_OFTEN = 8
"""A word in more sentences than this is the text's subject; what one of them says of it proves nothing."""
_SENTENCE = re.compile(r"[^.!?;\n]+(?:[.](?!\s)[^.!?;\n]*)*[.!?;]?")
_TOKEN = re.compile(r"[^\W\d_]+")

Change = tuple[int, int, str]
"""Start and end (characters) of a negation in one text, and the word it negates there and not in the other."""


_CUES = frozenset(["not", "never", "cannot", "t"])


def denies(words: Set[str]) -> bool:
    """Whether a text of these words, split as `split_words` does, has a negation that `negations_changed` looks at."""
    return not _CUES.isdisjoint(words)


def negations_changed(source: str, rewrite: str) -> tuple[list[Change], list[Change]]:
    """Negations of `source` that the rewrite affirms, and negations of `rewrite` that the source affirms. English."""
    return list(_affirmed(source, rewrite)), list(_affirmed(rewrite, source))


def _affirmed(text: str, other: str) -> Iterator[Change]:
    sentences: list[tuple[frozenset[str], bool]] | None = None
    mentions: dict[str, list[int]] = {}
    other_lower: str | None = None
    for cue in _CUE.finditer(text):
        word = _negated(text, cue.end())
        if not word or _questions(text, cue.end()):
            continue
        if other_lower is None:
            other_lower = other.lower()
        if _stem(word) not in other_lower:
            continue
        at = text.find(word, cue.end(), cue.end() + 60)
        if at >= 0 and text[cue.start() : at + len(word)] in other:
            continue  # denied there in the same words
        if sentences is None:
            sentences = _sentences(other, frozenset([word[:5] for word in split_words(text) if len(word) >= 5]))
            for number, (stems, _) in enumerate(sentences):
                for stem in stems:
                    mentions.setdefault(stem, []).append(number)
        places = mentions.get(_stem(word), ())
        if len(places) > _OFTEN or any(sentences[number][1] for number in places):
            continue
        around = _stems(text[max(0, cue.start() - 150) : cue.end() + 100])
        shared = max((len(around & sentences[number][0]) for number in places), default=0)
        if (
            shared >= _SHARED
            and not _WITHIN.match(text, cue.end())
            and (
                shared >= _CERTAIN
                or not any(
                    negative and len(around & stems) >= shared - 1 for stems, negative in _near(sentences, places)
                )
            )
        ):
            yield cue.start(), cue.end(), word


def _near(sentences: list[tuple[frozenset[str], bool]], places: Sequence[int]) -> Iterator[tuple[frozenset[str], bool]]:
    """The sentences at `places` and beside them: a paraphrase may deny there, in other words, what is denied here."""
    beside = {at for place in places for at in (place - 1, place, place + 1) if 0 <= at < len(sentences)}
    return (sentences[at] for at in sorted(beside))


def _negated(text: str, at: int) -> str:
    """The content word right after a negation, or after auxiliaries and adverbs that follow it."""
    window = text[at : at + 60]
    for count, token in enumerate(_TOKEN.finditer(window)):
        word = token[0].lower()
        if count == 4 or word in _LIMITED or any(mark in window[: token.start()] for mark in ".,;:!?\n"):
            return ""
        if word in _AUXILIARY or word.endswith("ly"):
            continue
        whole = at + token.end() < len(text) or len(window) < 60
        return word if whole and len(word) > 2 and word not in FUNCTION_WORDS else ""
    return ""


def _questions(text: str, at: int) -> bool:
    end = re.compile(r"[.!?\n]").search(text, at, at + 300)
    return end is not None and end[0] == "?"


_OPPOSED = ("in", "im", "ir", "il")


def _sentences(text: str, denied: Set[str]) -> list[tuple[frozenset[str], bool]]:
    """For each sentence the stems of its content words, and whether it has a negative word or asks. `denied` are the first
    five letters of the other text's words: "incorrect" is negative beside "correctly", "industry" is not."""
    found = []
    for sentence in _SENTENCE.findall(text):
        words = split_words(sentence)
        negative = (
            sentence.endswith("?")
            or not _NEGATIVE.isdisjoint(words)
            or any(w.startswith(("un", "dis")) or w.endswith("less") for w in words)
            or any(w.startswith(_OPPOSED) and w[2:7] in denied for w in words)
        )
        found.append((_stems(sentence), negative))
    return found


def _stems(text: str) -> frozenset[str]:
    return frozenset([_stem(word) for word in split_words(text) if word not in FUNCTION_WORDS])


def _stem(word: str) -> str:
    for ending in ("ing", "ied", "ies", "ed", "es", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word

"""Has a cleaned web page lost what was no text of it, and nothing else?

A page's lines are told apart by what stands in them: notes about cookies, menus, footers, invitations to subscribe
(`noise.txt`), and paragraphs. A paragraph is kept where enough of its words are, those that it shares with no other most.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar

from tokenmill.judges.form.copying import CHECK as COPYING
from tokenmill.judges.form.phrases import load
from tokenmill.judges.form.words import unspaced, words
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "cleaned"
_SEPARATED = re.compile(r"\s*[|·•»›>/]\s*|\s{3,}|\t")
_BULLET = re.compile(r"^\s*(?:[-*+•·▪◦]|\d{1,3}[.)])\s+")
_MARKUP = re.compile(r"^#{1,6}\s+|[*_`]+|\[|\]\([^)]*\)")
_END = re.compile(r"[.!?。！？…][\"'”’»)\]]*\s*$")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "\u00a0": " "})
_MENU = 3
"""Words of menus, in one line or in lines that follow each other, that make one."""
_SHOWN = 6


@dataclass(frozen=True)
class Cleaned:
    """Refuses with `noise_kept` a text in which a line of the page's noise stands, with `paragraph_lost` one in which a paragraph
    of the page does not."""

    least_words: int = 15
    """Of a paragraph that is looked for."""
    kept: float = 0.3
    """Share of a paragraph's own words that a text must have, by their beginnings."""
    spares: ClassVar[frozenset[str]] = frozenset({COPYING})  # what is text of the page may stay as it is

    def fits(self, source: str, language: str) -> bool:
        """Whether a passage has any text, so that what is noise alone is left out unpaid."""
        return any(_size(line) >= 6 for line in _text(source))

    def stated(self, text: str) -> str:
        return text

    def __call__(self, source: str, text: str, context: str, language: str) -> Verdict:
        if kept := _still_there(source, text):
            told = "Leave this out: it is no text of the page but of its frame."
            findings = [Finding("noise_kept", told, theirs[:200], ours[:200]) for theirs, ours in kept[:_SHOWN]]
            return Verdict(CHECK, False, 0.0, "noise_kept", tuple(findings))
        paragraphs = [p for p in _text(source) if _size(p) >= self.least_words and _END.search(p)]
        shares = _shares(paragraphs, text)
        lost = [paragraph for paragraph, share in zip(paragraphs, shares, strict=True) if share < self.kept]
        score = round(min(shares, default=1.0), 4)
        if not lost:
            return Verdict(CHECK, True, score)
        told = "Say what this paragraph says, too: it is text of the page."
        findings = [Finding("paragraph_lost", told, paragraph[:200]) for paragraph in lost[:_SHOWN]]
        return Verdict(CHECK, False, score, "paragraph_lost", tuple(findings))


@cache
def _noise() -> tuple[re.Pattern[str], re.Pattern[str]]:
    found = load(__package__, "noise")
    return re.compile(found["noise"].pattern, re.IGNORECASE | re.MULTILINE), found["menu"]


@lru_cache(maxsize=64)
def _sorted(source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of a page that are text, and those that are noise."""
    noise, menu = _noise()
    text: list[str] = []
    other: list[str] = []
    run: list[str] = []

    def close() -> None:
        (other if len(run) >= _MENU else text).extend(run)
        run.clear()

    for line in filter(None, map(str.strip, source.translate(_STRAIGHT).splitlines())):
        bare = _BULLET.sub("", _MARKUP.sub("", line)).strip()
        items = [item for item in _SEPARATED.split(bare) if item]
        of_menu = sum(menu.fullmatch(item) is not None for item in items)
        if len(items) == 1 and of_menu:
            run.append(line)
            continue
        close()
        is_menu = of_menu >= _MENU or (of_menu >= 2 and of_menu == len(items))
        (other if is_menu or (noise.search(bare) and not _mostly_text(bare)) else text).append(line)
    close()
    return tuple(text), tuple(other)


def _text(source: str) -> tuple[str, ...]:
    return _sorted(source)[0]


def _mostly_text(line: str) -> bool:
    """Whether a line that speaks of such things is a long paragraph, in which they are what it is about."""
    return _size(line) > 60


def _size(text: str) -> int:
    return len(words(text)) // (4 if unspaced(text) else 1)


def _still_there(source: str, text: str) -> list[tuple[str, str]]:
    """Lines of the page's noise that stand in a text, word for word or nearly, each with the line of the text."""
    noise = [(line, words(line)) for line in _sorted(source)[1]]
    found: list[tuple[str, str]] = []
    menu: list[tuple[str, str]] = []
    for ours in filter(None, map(str.strip, text.translate(_STRAIGHT).splitlines())):
        mine = words(ours)
        for theirs, told in noise:
            short = len(told) < 4
            if (short and told == mine) or (not short and _share(told, mine) >= 0.7 and _in_order(told, mine)):
                (menu if short else found).append((theirs, ours))
                break
    return found + (menu if len(menu) >= _MENU or (menu and not found and _standing_alone(menu)) else [])


def _standing_alone(menu: Sequence[tuple[str, str]]) -> bool:
    """Whether one of these short lines is noise by itself ("Subscribe", "Advertisement"), and not by its neighbours."""
    noise, _ = _noise()
    return any(noise.search(_BULLET.sub("", theirs)) for theirs, _ in menu)


def _share(wanted: Sequence[str], there: Iterable[str]) -> float:
    known = frozenset(there)
    return sum(word in known for word in wanted) / max(1, len(wanted))


def _in_order(wanted: Sequence[str], there: Sequence[str]) -> bool:
    """Whether at least half of a line's pairs of words stand together in the other, which chance does not bring about."""
    pairs = set(itertools.pairwise(wanted))
    return len(pairs & set(itertools.pairwise(there))) * 2 >= len(pairs)


def _shares(paragraphs: Sequence[str], text: str) -> list[float]:
    """How much of each paragraph a text holds: words by their beginnings, the rarer among the paragraphs the heavier."""
    own = [_stems(paragraph) for paragraph in paragraphs]
    often = Counter(stem for stems in own for stem in stems)
    there = _stems(text)
    shares: list[float] = []
    for stems in own:
        weights = {stem: 1 / often[stem] ** 2 for stem in stems}
        kept = sum(weight for stem, weight in weights.items() if stem in there)
        shares.append(kept / sum(weights.values()) if weights else 1.0)
    return shares


def _stems(text: str) -> frozenset[str]:
    """Beginnings of the longer words, and figures; pairs of characters in scripts without spaces, and the first two of
    Korean words."""
    tokens = words(text)
    if unspaced(text):
        return frozenset(map("".join, itertools.pairwise(tokens)))
    return frozenset(
        token[:2] if _HANGUL.match(token) else token[:5]
        for token in tokens
        if len(token) > 4 or token[0].isdigit() or (len(token) > 1 and _HANGUL.match(token))
    )

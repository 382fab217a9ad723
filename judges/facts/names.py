"""Names by their capitals: what a rewrite names that its source does not, and what it no longer names.

Words are compared by their beginnings ("Germany" and "German", "Иван" and "Ивана"), so that grammar makes no difference.
German capitalises every noun, and scripts without capitals show no names: there only words in Latin letters within
another script are read, and the judge model sees to the rest.
"""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from tokenmill.judges.facts.units import CJK, units_of
from tokenmill.judges.math.lexicon import vocabulary

_CASED = frozenset(("en", "fr", "es", "ru"))
_WORD = re.compile(r"[^\W\d_]+(?:['’.&-](?=[^\W\d_])[^\W\d_]+)*")
_ASCII_WORD = re.compile(r"[A-Za-z]++(?:['.&-][A-Za-z]++)*+")
"""`_WORD` in a text of ASCII alone, in two thirds of the time."""
_LATIN = re.compile(r"[A-Za-zÀ-ÖØ-öø-ɏ]+(?:['’.&-](?=[A-Za-z])[A-Za-zÀ-ÖØ-öø-ɏ]+)*")
_PARTS = re.compile(r"[-&.'’]")
_HEADED = re.compile(r"^#+ .*$|^\*\*[^*\n]+\*\*|^[^\n.!?]{1,80}$", re.MULTILINE)
_OPENERS = " \"'“‘«»([*_#>|—–-\t"
_ENDS = ".!?:;…\n"
_PLAIN = re.compile(r"\b(?:plain|simple|everyday|good) $")
MAX_NAMES = 400
"""Names of one text that are compared."""


@dataclass(frozen=True)
class Name:
    """A capitalised word at `text[start:end]`."""

    start: int
    end: int
    word: str
    first: bool
    """Whether it begins a sentence or heading, where a capital says little."""


@lru_cache(maxsize=64)
def _tokens(text: str) -> list[str]:
    """The words of a text in order, shared: not to be changed."""
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


@lru_cache(maxsize=64)
def _words(text: str, language: str) -> tuple[str, ...]:
    """The different words of a text that may be names."""
    if language in _CASED:
        found = dict.fromkeys(_tokens(text))
        capitals = [word for word in found if not word.islower() and word[0].isupper()]
        return tuple(word for word in capitals if len(word) > 1 or not word.isascii())
    if language in CJK:
        return tuple(word for word in dict.fromkeys(_LATIN.findall(text)) if word[0].isupper() and len(word) > 2)
    return ()


@lru_cache(maxsize=64)
def _lowered(text: str) -> frozenset[str]:
    return frozenset(" ".join(_tokens(text)).lower().split())


@lru_cache(maxsize=64)
def names(text: str, language: str = "en") -> tuple[Name, ...]:
    """Capitalised words, by place, `MAX_NAMES` at most; none in a language without capitals for names alone."""
    return tuple(_found(text, language[:2], frozenset(_words(text, language[:2]))))


def _found(text: str, language: str, words: frozenset[str]) -> list[Name]:
    """Where those of `words` stand that are names."""
    found: list[Name] = []
    titled: list[tuple[int, int]] | None = None
    end = 0
    for word in (_tokens(text) if language in _CASED else _LATIN.findall(text)) if words else ():
        start = text.index(word, end)  # what lies between two words has no letter
        end = start + len(word)
        if word not in words:
            continue
        first = language in _CASED and ((word.isupper() and len(word) > 4) or _begins(text, start))
        if language in _CASED and not first:
            # Headings and bold labels, whose words may all be capitalised.
            titled = titled if titled is not None else [h.span() for h in _HEADED.finditer(text) if len(h[0]) < 120]
            at = bisect(titled, (start, len(text))) - 1
            first = at >= 0 and start < titled[at][1]
        found.append(Name(start, end, word, first))
        if len(found) == MAX_NAMES:
            break
    return found


def _begins(text: str, start: int) -> bool:
    before = text[max(0, start - 8) : start]
    bare = before.rstrip(_OPENERS)
    return not bare or bare[-1] in _ENDS or "\n" in before


@lru_cache(maxsize=1 << 15)
def stem(word: str) -> str:
    """What of a word stays the same in other cases, numbers and derivations."""
    word = word.lower().replace("’", "'").removesuffix("'s").replace(".", "").strip("'")
    return word[: max(4, len(word) - 3)] if len(word) > 4 else word


@lru_cache(maxsize=64)
def _by_letters(text: str) -> dict[str, list[str]]:
    """The words of a text and the parts of compounds, by their first two letters."""
    found: dict[str, list[str]] = {}
    for word in _lowered(text):
        for part in (word,) if word.isalpha() else (word, *_PARTS.split(word)):
            if len(part) > 1:
                found.setdefault(part[:2], []).append(part)
    return found


def _has_stem(word: str, text: str) -> bool:
    own = stem(word)
    return any(stem(other) == own for other in _by_letters(text).get(word[:2].lower(), ()))


_SAME = (
    ("us", "usa", "united", "america", "american", "americans", "states"),
    ("uk", "britain", "british", "kingdom", "english", "anglo"),
    ("un", "nations"), ("eu", "europe", "european", "union"), ("dutch", "netherlands", "holland"),
    ("french", "france"), ("spanish", "spain", "spaniards"), ("welsh", "wales"), ("irish", "ireland"), ("danish", "denmark"),
    ("swiss", "switzerland"), ("greek", "greece"), ("polish", "poland", "poles"), ("turkish", "turkey", "turks"),
    ("rome", "roman", "romans"),
    ("swedish", "sweden", "swedes"), ("scottish", "scotland", "scots"), ("ussr", "soviet"), ("moon", "lunar"),
    ("sun", "solar"), ("jewish", "jew", "jews", "judaism"), ("oscar", "oscars", "academy"), ("bible", "biblical"),
    ("wwii", "ww2", "war"), ("wwi", "ww1", "war"), ("thai", "thailand"), ("filipino", "philippines"), ("peruvian", "peru"),
)  # fmt: skip
"""Words for one thing that share no beginning."""
_GROUPS: dict[str, set[int]] = {}
for _number, _group in enumerate(_SAME):
    for _word in _group:
        _GROUPS.setdefault(_word, set()).add(_number)


@lru_cache(maxsize=64)
def _groups(text: str) -> frozenset[int]:
    return frozenset(
        g for w in _WORD.findall(text.lower()) for part in (w, *_PARTS.split(w)) for g in _GROUPS.get(part, ())
    )


@lru_cache(maxsize=64)
def _acronyms(text: str) -> frozenset[str]:
    """What any run of words would be abbreviated to."""
    initials = "".join(word[0] for word in re.findall(r"[^\W\d_]+", text) if word.lower() not in _SMALL).lower()
    return frozenset(initials[i : i + n] for n in (2, 3, 4, 5) for i in range(len(initials) - n + 1))


_SMALL = vocabulary("of the and for de du des la in a an to et y von und")


@lru_cache(maxsize=1)
def _dictionary() -> frozenset[str]:
    from english_words import get_english_words_set

    return frozenset(word for word in get_english_words_set(["web2"]) if word.islower())


_INFLECTED = (("ies", "y"), ("ied", "y"), ("ier", "y"), ("iest", "y"), ("es", ""), ("s", ""), ("ed", ""), ("ed", "e"),
              ("ing", ""), ("ing", "e"), ("ers", ""), ("er", ""), ("er", "e"), ("est", ""), ("ly", ""), ("d", ""))  # fmt: skip
_COMMON = vocabulary("okay ok email website online tv dj faq q a")


@lru_cache(maxsize=1 << 15)
def ordinary(word: str) -> bool:
    """Whether an English dictionary has a word in small letters, itself or less an inflection."""
    words, word = _dictionary(), word.lower()
    if word in words or word in _COMMON:
        return True
    return any(
        word.endswith(end) and len(word) > len(end) + 1 and word[: -len(end)] + base in words
        for end, base in _INFLECTED
    )


def known(name: Name, text: str) -> bool:
    """Whether a text has the name, in another form, as an acronym or as another word for the same."""
    lowered = name.word.lower()
    if lowered in _lowered(text):
        return True
    own, bare = stem(name.word), lowered.replace(".", "")
    parts = [part for part in _PARTS.split(name.word) if len(part) > 1]
    if _has_stem(name.word, text) or (parts and all(_has_stem(part, text) for part in parts)):
        return True
    if len(bare) > 3:
        others = map(stem, _by_letters(text).get(bare[:2], ()))
        if any(len(other) > 3 and (bare.startswith(other) or other.startswith(own)) for other in others):
            return True
    groups = _GROUPS.get(lowered)
    return bool(groups and groups & _groups(text)) or (name.word.isupper() and bare in _acronyms(text))


def alike(one: Name, other: Name) -> bool:
    """Whether two names may be spellings of one: Nahshon and Naashon, Paddan Aram and Padan-aram, Mon-Fri and Monday."""
    first, second = ([word, *filter(None, _PARTS.split(word))] for word in (one.word.lower(), other.word.lower()))
    return any(
        a.startswith(b) or b.startswith(a) or SequenceMatcher(None, a, b, autojunk=False).ratio() >= _ALIKE
        for a in first
        for b in second
        if len(a) > 2 and len(b) > 2
    )


_ALIKE = 0.7


def unknown(text: str, *others: str, language: str = "en") -> list[Name]:
    """Names of `text` that none of `others` has, each word once. Ordinary words that a sentence or heading begins with, or that
    the others have in small letters, are no names."""
    language = language[:2]
    there = [_lowered(other) for other in others]
    fresh = frozenset([word for word in _words(text, language) if not any(word.lower() in known for known in there)])
    found: dict[str, Name] = {}
    for name in _found(text, language, fresh):
        if (
            name.word.lower() not in found
            and not _no_name(name, text, language)
            and not any(known(name, o) for o in others)
        ):
            found[name.word.lower()] = name
    return list(found.values())


def _no_name(name: Name, text: str, language: str) -> bool:
    """Whether a capital does not make a name of a word: at the beginning of a sentence, or as the name of a unit."""
    if name.word in units_of(language) or name.word in units_of("en"):
        return True
    if language != "en":
        return name.first
    if name.word == "English" and _PLAIN.search(text[max(0, name.start - 10) : name.start]):
        return True
    parts = _PARTS.split(name.word)
    if name.first or len(parts) > 1:
        return all(map(ordinary, parts))
    return len(name.word) < 3 and ordinary(name.word)

"""Names by their capitals: what a rewrite names that its source does not, and what it no longer names.

Words are compared by their beginnings ("Germany" and "German", "Иван" and "Ивана"), so that grammar makes no difference.
German capitalises every noun, and scripts without capitals show no names: there only words in Latin letters within
another script are read, and the judge model sees to the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tokenmill.judges.math.lexicon import vocabulary

_CASED = frozenset(("en", "fr", "es", "ru"))
_WORD = re.compile(r"[^\W\d_]+(?:['’.&-](?=[^\W\d_])[^\W\d_]+)*")
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]+(?:['’.&-](?=[A-Za-z])[A-Za-zÀ-ɏ]+)*")
_OPENERS = " \"'“‘«»([*_#>|—–-\t"
_ENDS = ".!?:;…\n"
_MAX = 400


@dataclass(frozen=True)
class Name:
    """A capitalised word at `text[start:end]`."""

    start: int
    end: int
    word: str
    first: bool
    """Whether it begins a sentence or heading, where a capital says little."""


@lru_cache(maxsize=64)
def names(text: str, language: str = "en") -> tuple[Name, ...]:
    """Capitalised words, by place."""
    found = []
    if language[:2] in _CASED:
        titled = _titled_lines(text)
        for m in _WORD.finditer(text):
            word = m[0]
            if word[0].isupper() and (len(word) > 1 or not word.isascii()):
                shouted = word.isupper() and len(word) > 4
                first = shouted or _begins(text, m.start()) or any(s <= m.start() < e for s, e in titled)
                found.append(Name(m.start(), m.end(), word, first))
    elif language[:2] in ("zh", "ja", "ko"):
        found = [
            Name(m.start(), m.end(), m[0], False) for m in _LATIN.finditer(text) if m[0][0].isupper() and len(m[0]) > 2
        ]
    return tuple(found[:_MAX])


def _begins(text: str, start: int) -> bool:
    before = text[max(0, start - 8) : start].rstrip(_OPENERS)
    return not before or before[-1] in _ENDS or "\n" in text[max(0, start - 8) : start]


def _titled_lines(text: str) -> list[tuple[int, int]]:
    """Headings and bold labels, whose words may all be capitalised."""
    spans = [m.span() for m in re.finditer(r"^#+ .*$|^\*\*[^*\n]+\*\*|^[^\n.!?]{1,80}$", text, re.MULTILINE)]
    return [(s, e) for s, e in spans if e - s < 120]


def stem(word: str) -> str:
    """What of a word stays the same in other cases, numbers and derivations."""
    word = word.lower().replace("’", "'").removesuffix("'s").replace(".", "").strip("'")
    return word[: max(4, len(word) - 3)] if len(word) > 4 else word


@lru_cache(maxsize=64)
def _stems(text: str) -> frozenset[str]:
    words = [w.lower() for w in _WORD.findall(text)]
    parts = [part for word in words for part in re.split(r"[-&.'’]", word) if len(part) > 1]
    return frozenset(stem(word) for word in (*words, *parts))


@lru_cache(maxsize=64)
def _beginnings(text: str) -> frozenset[str]:
    return frozenset(s[:4] for s in _stems(text))


_SAME = (
    ("us", "usa", "united", "america", "american", "americans", "states"), ("uk", "britain", "british", "kingdom", "english"),
    ("un", "nations"), ("eu", "europe", "european", "union"), ("dutch", "netherlands", "holland"),
    ("french", "france"), ("spanish", "spain", "spaniards"), ("welsh", "wales"), ("irish", "ireland"), ("danish", "denmark"),
    ("swiss", "switzerland"), ("greek", "greece"), ("polish", "poland", "poles"), ("turkish", "turkey", "turks"),
    ("swedish", "sweden", "swedes"), ("scottish", "scotland", "scots"), ("ussr", "soviet"), ("moon", "lunar"),
    ("sun", "solar"), ("jewish", "jews", "judaism"), ("oscar", "oscars", "academy"), ("bible", "biblical"),
    ("wwii", "ww2", "war"), ("wwi", "ww1", "war"), ("thai", "thailand"), ("filipino", "philippines"), ("peruvian", "peru"),
)  # fmt: skip
"""Words for one thing that share no beginning."""
_GROUPS: dict[str, set[int]] = {}
for _number, _group in enumerate(_SAME):
    for _word in _group:
        _GROUPS.setdefault(_word, set()).add(_number)


@lru_cache(maxsize=64)
def _groups(text: str) -> frozenset[int]:
    return frozenset(g for w in _WORD.findall(text) for g in _GROUPS.get(w.lower(), ()))


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
    parts = [p for p in re.split(r"[-&'’]", name.word) if len(p) > 1] or [name.word]
    stems = _stems(text)
    lowered = name.word.lower().replace(".", "")
    if stem(name.word) in stems or all(stem(part) in stems for part in parts):
        return True
    if any(
        len(s) > 3 and (lowered.startswith(s) or s.startswith(stem(lowered))) for s in stems if s[:1] == lowered[:1]
    ):
        return True
    if _GROUPS.get(lowered, set()) & _groups(text):
        return True
    return name.word.isupper() and lowered in _acronyms(text)


def unknown(text: str, *others: str, language: str = "en") -> list[Name]:
    """Names of `text` that none of `others` has, each word once. Ordinary words that a sentence or heading begins with, or that
    the others have in small letters, are no names."""
    found: dict[str, Name] = {}
    for name in names(text, language):
        if name.word.lower() in found or any(known(name, other) for other in others):
            continue
        if (
            language[:2] == "en"
            and (name.first or "-" in name.word)
            and all(map(ordinary, re.split(r"[-'’]", name.word)))
        ):
            continue
        if language[:2] != "en" and name.first:
            continue
        if language[:2] == "en" and ordinary(name.word) and len(name.word) < 3:
            continue
        found[name.word.lower()] = name
    return list(found.values())

"""Different names of the same thing that any reader knows: "the Oscars" are the Academy Awards, "the Great War" is World War I.

Only pairs that no spelling rule can relate; adjectives of countries are in `judges.facts.tables`, acronyms are worked out.
"""

from __future__ import annotations

from tokenmill.judges.facts.extract import Facts
from tokenmill.judges.facts.tables import stem
from tokenmill.judges.facts.text import split_words

_GROUPS = """
academy award, academy awards, oscar, oscars, oscar's
world war i, world war one, first world war, great war, wwi, ww1
world war ii, world war two, second world war, wwii, ww2
middle ages, medieval, mediaeval
united states, u.s., us, usa, u.s.a., america, american, americans
united kingdom, u.k., uk, britain, great britain, british, brit, brits, briton, britons
soviet union, ussr, u.s.s.r., soviet, soviets
east germany, gdr, german democratic republic, east german, east germans
west germany, frg, federal republic of germany, west german, west germans
european union, eu, e.u.
united nations, un, u.n.
new york city, nyc
los angeles, l.a., la
washington, d.c.
conservative, conservatives, tory, tories
republican, republicans, republican party, gop
democrat, democrats, democratic party
labour, labour party
royal air force, raf
royal navy, rn
holy see, vatican
olympic, olympics, olympic games, games, olympiad
phd, ph.d., doctorate, doctoral, doctorates
tv, television, televised, televisions
australia, australian, australians, aussie, aussies
new zealand, new zealander, new zealanders, kiwi, kiwis
ceylon, sri lanka
constantinople, istanbul
peking, beijing
bombay, mumbai
saigon, ho chi minh city
leningrad, st petersburg, saint petersburg, st. petersburg
siam, thailand, thai
persia, persian, iran
czech republic, czechia
ivory coast, côte d'ivoire
turkey, türkiye
roman catholic, catholic, catholics, catholicism
solar system, sun
north pole, arctic
south pole, antarctic
grand prix, formula one, formula 1
jewish people, jew, jews, jewish
native american, native americans, american indian, american indians
african-american, african american, african americans, african-americans, black
bible, scripture, scriptures
christ, jesus
nazi, nazis, third reich
confederacy, confederate, confederates, confederate states
union army, union, unionist
american civil war, civil war, war between the states
american revolution, revolutionary war, american revolutionary war, war of independence
south korea, south korean, south koreans, republic of korea, rok
north korea, north korean, north koreans, dprk
"""
_BY_FIRST: dict[str, list[tuple[str, int]]] = {}
"""Phrases by their first word, as `split_words` gives it, each with the number of its group."""
_WORDS: list[frozenset[str]] = []
for _number, _line in enumerate(_GROUPS.strip().splitlines()):
    _phrases = _line.split(", ")
    for _phrase in _phrases:
        _BY_FIRST.setdefault(split_words(_phrase)[0], []).append((_phrase, _number))
    _WORDS.append(frozenset(stem(word) for phrase in _phrases for word in split_words(phrase) if len(word) > 1))
_CASED = {"us": "US", "la": "LA", "un": "UN", "rn": "RN", "eu": "EU", "u.s.": "U.S."}
"""Phrases that are another word in lower case."""


def _things(text: str, words: frozenset[str]) -> frozenset[int]:
    found = set()
    lower = ""
    for first in _BY_FIRST.keys() & words:
        for phrase, number in _BY_FIRST[first]:
            if number in found:
                continue
            if phrase in _CASED:
                present = _stands(_CASED[phrase], text)
            elif phrase == first:
                present = True
            else:
                lower = lower or text.lower()
                present = _stands(phrase, lower)
            if present:
                found.add(number)
    return frozenset(found)


def _stands(phrase: str, text: str) -> bool:
    """Whether a phrase stands in a text as words of its own; of its places the first few are looked at."""
    at = text.find(phrase)
    for _ in range(20):
        if at < 0:
            return False
        end = at + len(phrase)
        if not text[at - 1 : at].isalnum() and not text[end : end + 1].isalnum():
            return True
        at = text.find(phrase, end)
    return False


def same_things(source: str, before: Facts, rewrite: str, after: Facts) -> frozenset[str]:
    """Stems of the words in the names of all things that both texts mention, each by whichever name."""
    theirs = _things(source, before.words)
    both = theirs & _things(rewrite, after.words) if theirs else theirs
    return frozenset().union(*(_WORDS[number] for number in both))

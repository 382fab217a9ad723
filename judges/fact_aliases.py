"""Different names of the same thing that any reader knows: "the Oscars" are the Academy Awards, "the Great War" is World War I.

Only pairs that no spelling rule can relate; adjectives of countries are in `judges.fact_words`, acronyms are worked out.
"""

from __future__ import annotations

import re
from functools import lru_cache

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
_GROUP_OF: dict[str, int] = {}
_WORDS: list[frozenset[str]] = []
for _line in _GROUPS.strip().splitlines():
    _phrases = _line.split(", ")
    _GROUP_OF |= dict.fromkeys(_phrases, len(_WORDS))
    _WORDS.append(frozenset(word for p in _phrases for word in re.split(r"[ .'-]", p) if len(word) > 1))
_PHRASE = re.compile(
    r"(?<!\w)(?:" + "|".join(re.escape(p) for p in sorted(_GROUP_OF, key=len, reverse=True)) + r")(?!\w)"
)
_CASED = {"us": "US", "la": "LA", "un": "UN", "rn": "RN", "eu": "EU"}
"""Common words in lower case."""


@lru_cache(maxsize=256)
def _things(text: str) -> frozenset[int]:
    found = set()
    for match in _PHRASE.finditer(text.lower()):
        cased = _CASED.get(match[0])
        if not cased or text[match.start() : match.end()] == cased:
            found.add(_GROUP_OF[match[0]])
    return frozenset(found)


def same_things(source: str, rewrite: str) -> frozenset[str]:
    """Words of the names of all things that both texts mention, each by whichever name."""
    both = _things(source[:_LONGEST]) & _things(rewrite[:_LONGEST])
    return frozenset().union(*(_WORDS[number] for number in both))


_LONGEST = 100_000
"""Characters read; aliases of still longer texts are left to the judge model."""

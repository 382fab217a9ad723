"""Quotations of a rewrite: are they the source's words, and does the source give them to the same speaker?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tokenmill.judges.facts import names as naming
from tokenmill.judges.model.quotes import stands_in

_QUOTED = re.compile(r"[\"“„«「『]([^\"“”„«»「」『』\n]{12,400})[\"”“»」』]")
_CLAUSE_ENDS = re.compile(r"[.!?。！？\n\"“”„«»「」『』]")
_LEAST_WORDS = 4
"""Shorter quotations are names and terms."""
_CLAUSE = 120
"""Characters beside a quotation in which its speaker is looked for."""
_MOST = 40
"""Quotations of one text that are compared."""

Quotation = re.Match[str]


def reworded(source: str, rewrite: str) -> Iterator[Quotation]:
    """Quotations of the rewrite whose words are not the source's, where the source has quotations, too."""
    if _QUOTED.search(source):
        yield from (quote for quote in _quotations(rewrite) if not stands_in(quote[1], source))


def reattributed(source: str, rewrite: str, language: str) -> Iterator[tuple[Quotation, str]]:
    """Quotations of both texts that have other names beside them in the source; and their speaker in the rewrite."""
    theirs = _quotations(source)
    for quote in _quotations(rewrite) if theirs else ():
        there = next((q for q in theirs if stands_in(quote[1], q[1]) or stands_in(q[1], quote[1])), None)
        mine = _speakers(rewrite, quote, language) if there else []
        other = _speakers(source, there, language) if there and mine else []
        if other and set(map(naming.stem, mine)).isdisjoint(map(naming.stem, other)):
            yield quote, " ".join(mine)


def _quotations(text: str) -> list[Quotation]:
    found = (
        quote for quote in _QUOTED.finditer(text) if len(quote[1].split()) >= _LEAST_WORDS or not quote[1].isascii()
    )
    return [quote for quote, _ in zip(found, range(_MOST), strict=False)]


def _speakers(text: str, quote: Quotation, language: str) -> list[str]:
    """The names in the clause around a quotation: before it, and behind it where its sentence goes on."""
    start, end = quote.span()
    before = _CLAUSE_ENDS.split(text[max(0, start - _CLAUSE) : start])[-1]
    behind = "" if quote[1][-1] in ".!?。！？" else _CLAUSE_ENDS.split(text[end : end + _CLAUSE])[0]
    low, high = start - len(before), end + len(behind)
    beside = (n for n in naming.names(text, language) if low <= n.start < start or end <= n.start < high)
    return [n.word for n in beside if not (n.first and naming.ordinary(n.word))]

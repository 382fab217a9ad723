"""What a corpus weighs: rows and tokens by domain, by how often one epoch shows the source of a row, and by length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tokenmill.pipelines.transforms.counts import Tallying, tally
from tokenmill.schemas.corpus import CorpusDocument

LENGTHS = (0, *(1 << power for power in range(10, 18)))
"""Tokens at which classes of length begin."""
_COUNTERS = ("rows in", "tokens in")


class Weigh(Tallying):
    """Documents, as they are; counted on the way."""

    def process(self, document: CorpusDocument) -> Iterator[CorpusDocument]:
        length = max(least for least in LENGTHS if document.tokens >= least)
        stratum = f"{document.domain} {document.source_rows} {length}"
        for counter, amount in zip(_COUNTERS, (1, document.tokens), strict=True):
            tally(f"{counter} {stratum}", amount)
        yield document


def strata(counters: Mapping[str, int]) -> list[dict[str, Any]]:
    """What was counted, for the manifest: see `Manifest.strata`."""
    found = []
    for name, tokens in sorted(counters.items()):
        if name.startswith(f"{_COUNTERS[1]} "):
            stratum = name.removeprefix(f"{_COUNTERS[1]} ")
            domain, rows, length = stratum.split(" ")
            counted = counters.get(f"{_COUNTERS[0]} {stratum}", 0)
            place = {"domain": domain, "source_rows": int(rows), "least_tokens": int(length)}
            found.append({**place, "rows": counted, "tokens": tokens})
    return found

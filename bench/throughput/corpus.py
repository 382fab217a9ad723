"""Documents by the thousand out of real passages, and for each the answer that a writer gave.

The passages are the fidelity bench's: English Wikipedia of about 90 words, each with one to four honest paraphrases that others
wrote (`bench/fidelity/data`). Document N is pair N, begun anew when all have come, under a title of its own so that no two
requests are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tokenmill.bench.fidelity.data import Pair, pairs

WORDS = range(75, 106)
"""Words of a passage."""
NUMBER = re.compile(rb"\(document (\d+)\)")
"""By which an answer is found: every request carries the title."""


@cache
def chosen() -> tuple[Pair, ...]:
    return tuple(pair for pair in pairs() if len(pair.source.split()) in WORDS)


def document(number: int) -> dict[str, Any]:
    pair = chosen()[number % len(chosen())]
    return {
        "id": f"doc-{number:06d}",
        "title": f"{pair.title} (document {number})",
        "text": pair.source,
        "language": "en",
        "license": "cc-by-sa-3.0",
    }


def documents(count: int) -> Iterator[dict[str, Any]]:
    """The first rows of a corpus without end."""
    return map(document, range(count))


def answer(number: int) -> str:
    """The paraphrase of document `number`."""
    return chosen()[number % len(chosen())].rewrite

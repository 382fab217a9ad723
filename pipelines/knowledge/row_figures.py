"""Figures that a row has about its text: how long it is, how much of it is copied, and how like it is to its siblings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from tokenmill.judges.form.words import words
from tokenmill.pipelines.rollouts.chunking import count_tokens

N = 5
"""Words, or characters of scripts without spaces, in the n-grams that are compared."""
_SIBLINGS = 64
"""Rephrasings of one document that are compared with each other; further ones only with these."""


def figures_of(source: str, text: str, source_tokens: int = 0) -> dict[str, Any]:
    """The columns of a row that follow from its text and its source.

    Args:
        source_tokens: where they have been counted.
    """
    return {
        "source_tokens": source_tokens or count_tokens(source),
        "tokens": count_tokens(text),
        "length_ratio": round(len(text) / max(1, len(source)), 4),
        "copy_rate": copy_rate(source, text),
        "sibling_similarity": None,
    }


def copy_rate(source: str, text: str) -> float:
    """Share of the n-grams of a text, each counted as often as it occurs, that its source has."""
    there, grams = frozenset(_ngrams(source)), list(_ngrams(text))
    return round(sum(map(there.__contains__, grams)) / len(grams), 4) if grams else 0.0


def with_similarity(table: pa.Table) -> pa.Table:
    """Rows of whole documents with `sibling_similarity` filled in: the greatest share of n-grams that a text has in common
    with another kept rephrasing of its document, of those that either has (Jaccard). Null for the only one."""
    ids = table["source_id"].to_pylist()
    order = sorted(range(len(ids)), key=ids.__getitem__)
    found: list[float | None] = [None] * len(ids)
    texts = table["text"]
    for _, group in groupby(order, key=ids.__getitem__):
        rows = list(group)
        if len(rows) > 1:
            grams = [frozenset(_ngrams(texts[row].as_py())) for row in rows]
            for place, row in enumerate(rows):
                others = (other for i, other in enumerate(grams[:_SIBLINGS]) if i != place)
                found[row] = round(max(_jaccard(grams[place], other) for other in others), 4)
    name = "sibling_similarity"
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), _column(found))


def _column(values: list[float | None]) -> pa.Array:
    """An Arrow column of these. `pa.array` would do, but it imports pandas first, which takes each worker a third of a second."""
    known = np.array([value is not None for value in values], bool)
    data = np.array([value or 0.0 for value in values], np.float64)
    valid = np.packbits(known, bitorder="little")
    return pa.Array.from_buffers(pa.float64(), len(values), [pa.py_buffer(valid), pa.py_buffer(data)])


def _jaccard(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0


def _ngrams(text: str) -> Iterator[tuple[str, ...]]:
    tokens = words(text)
    return zip(*(tokens[i:] for i in range(N)), strict=False)

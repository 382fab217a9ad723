"""Rows of one source: how many stay, which, and what they are told."""

import numpy as np
from tokenmill.pipelines.corpus import sources


def records(*rows):
    """(source, whether it is a rephrasing, rank) by number of the row."""
    made = [(s << 20 << 16 | synthetic << 15 | rank, row) for row, (s, synthetic, rank) in enumerate(rows)]
    return np.array(made, sources._ROW)


def test_a_source_keeps_its_text_and_two_rephrasings_and_all_are_told_how_many_they_are():
    given = records((1, 0, 9), (1, 1, 5), (1, 1, 2), (1, 1, 7), (2, 0, 0), (3, 1, 1), (3, 1, 1), (3, 1, 0))
    blocks = [given[:3].tobytes(), given[3:].tobytes()]
    told = {one.key: one for one in sources.exposures(0, blocks, 2)}
    assert {key for key, one in told.items() if one.reason} == {3, 6}, "the worst ranked, then the later"
    assert {key: one.source_rows for key, one in told.items() if not one.reason} == {0: 3, 1: 3, 2: 3, 5: 2, 7: 2}
    dropped = [np.frombuffer(block, sources.DROP)["row"].tolist() for _, block in sources.too_many(0, blocks, 2)]
    assert dropped == [[3, 6]]


def test_rows_of_their_own_are_told_nothing():
    assert not list(sources.exposures(0, [records((1, 0, 0), (2, 0, 0)).tobytes()], 2))

"""The quick look at a pair says yes only where the full reading of its facts finds nothing."""

from __future__ import annotations

import random
import re
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.bench.fidelity.data import pairs
from tokenmill.bench.fidelity.faults import FAULTS, plant
from tokenmill.judges.facts.coverage import Coverage
from tokenmill.judges.facts.unchanged import plainly_covers

check = Coverage()
SENTENCES = (
    "NY 93 leaves the town. ",
    "CR 83 and NY 104 meet in Porter. ",
    "It is 2 km (1.2 mi) from Rome. ",
    "It is 5 km (3.1 mi) from Oslo. ",
    "They won 12 games, and 14 matches. ",
    "They won 14 games. ",
    "It made 5 miles per hour. ",
    "It ran for 5 miles. ",
    "Hill 209 was held by 38 men. ",
    "Hill 38 was held by 209 men. ",
    "The ship left. Bell knew it. ",
    "The ship left. Bell rang. ",
    "The ship left. Porter knew it. ",
    "The three sports were golf, polo and chess. ",
    "In 7 sports, 3 men led. ",
    "In 3 sports, 7 men led. ",
    "On 14 May they met. ",
    "On May 12 they met 14 men. ",
    "Porter said that it was not so. ",
    "It weighed 12 tons. ",
    "There were 12 of them. ",
)


def fully(source: str, rewrite: str) -> bool:
    """Whether the full reading finds nothing."""
    with patch("tokenmill.judges.facts.coverage.plainly_covers", lambda source, rewrite: False):
        return check(source, rewrite).passed


def holds(source: str, rewrite: str) -> bool:
    return not plainly_covers(source, rewrite) or fully(source, rewrite)


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(SENTENCES), max_size=6), st.lists(st.sampled_from(SENTENCES), max_size=6))
def test_of_made_up_sentences(source, rewrite):
    assert holds("".join(source), "".join(rewrite))


def test_of_the_benchs_pairs_and_their_faults():
    for pair in pairs("dev")[::4]:
        texts = [pair.rewrite, *(text for fault in FAULTS for text in plant(pair, fault, 1))]
        assert all(holds(pair.source, text) for text in texts), pair.id


def test_of_passages_whose_sentences_and_numbers_trade_places():
    seen = 0
    for number, pair in enumerate(pairs("dev")[::3]):
        draw = random.Random(number)
        sentences = re.split(r"(?<=[a-z]{3}\.) ", pair.source)
        draw.shuffle(sentences)
        shuffled = " ".join(sentences)
        parts = re.split(r"(\d+)", shuffled)
        digits = parts[1::2]
        draw.shuffle(digits)
        parts[1::2] = digits
        traded = "".join(parts)
        seen += plainly_covers(pair.source, shuffled)
        assert holds(pair.source, shuffled) and holds(pair.source, traded), pair.id
    assert seen > 10, "the quick look answers at all"


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("Here NY 93 meets CR 83 and ends.", "Here NY 83 and CR 93 meet."),
        ("It is 2 km (1.2 mi) long and 5 km (3.1 mi) off.", "It is 2 km (3.1 mi) long and 5 km (1.2 mi) off."),
        ("The crew was afraid. They left.", "They left. Bell knew that the crew was afraid."),
    ],
)
def test_it_leaves_to_the_full_reading_what_that_would_find(source, rewrite):
    assert not plainly_covers(source, rewrite)

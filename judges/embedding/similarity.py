"""Cheap fidelity check of knowledge rephrasing: does the rewrite still mean what the source means?

    similarity = Similarity(Embedder())
    verdict = await similarity(source, rewrite)

The embedding check of knowledge rephrasing (K2 report, section 2.2, "fidelity verification").

Most pairs are settled by their words (`static.py`); the transformer, and with it torch, is loaded when the first pair is
in doubt. Its callers on one event loop share batches, so that many documents in flight keep it busy. A text's embedding does not
depend, to the last bit, on what it was batched with nor on how many processes share the machine: batches have one fixed
shape per length, and each is computed by one thread, as many at a time as the process has cores to itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tokenmill.judges.embedding import static
from tokenmill.judges.embedding.lanes import lanes
from tokenmill.judges.embedding.loading import PACKAGED, find, load
from tokenmill.schemas.verdicts import Finding, Verdict

if TYPE_CHECKING:
    import numpy as np

CHECK = "similarity"

_STEP, _LONGEST = 32, 512
"""Texts are padded to a multiple of the one, in tokens, and windows are no longer than the other."""


@dataclass(frozen=True)
class Embedder:
    """Sentence embeddings from one model per process, computed in batches on one background thread.

    The object is only configuration: it pickles, and the model is loaded where and when it is first used.
    """

    model: str = PACKAGED
    """`minilm` for the packaged all-MiniLM-L6-v2, or any name or folder that sentence-transformers loads."""
    batch_tokens: int = 256
    """Tokens in a forward pass, padding included; a larger number suits an accelerator."""
    wait_ms: float = 4.0
    """How long the first text waits for company."""
    batch_texts: int = 64
    """Texts that start a batch at once, without waiting."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("Embedder.model is empty; give `minilm` or a sentence-transformers name")
        if self.batch_tokens < 1 or self.batch_texts < 1 or self.wait_ms < 0:
            raise ValueError("Embedder.batch_tokens and batch_texts must be positive and wait_ms not negative")

    def find(self) -> None:
        """Make sure, without loading it, that there is such a model: on this machine or on the Hub.

        Raises:
            OSError: there is none; one line.
        """
        if self.model != PACKAGED:  # whose package is slow to import
            find(self.model)

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors (len(texts), dimension), float32. Long texts are cut into windows, whose vectors are averaged.

        Raises:
            OSError: no such model.
        """
        import numpy as np

        if not texts:
            return np.zeros((0, 0), np.float32)
        vectors = await _batcher(self).submit(list(texts))
        return np.stack(vectors)


_SHORT, _LONG = 100, 400
"""Characters between which the least similarity grows with a text's length."""
_CYRILLIC = re.compile("[\u0400-\u052f]")
_MEASURED = 0.6
"""Greatest `minimum` for which it has been measured that words settle a pair as the transformer would."""


@dataclass(frozen=True)
class Similarity:
    """Cosine of the embeddings of source and rewrite; refuses below `minimum_of` their length with `drifts_from_source`."""

    embedder: Embedder = field(default_factory=Embedder)
    minimum: float = 0.6
    """For texts of at least 400 characters; `minimum_of` says how much less is asked of shorter ones."""
    alike: float = 0.73
    """With the packaged model and a `minimum` of at most 0.6: cosine of averaged word vectors from which a pair passes unread by
    the transformer (bench/fidelity/README.md); above 1 it reads every pair."""

    def __post_init__(self) -> None:
        if not 0 <= self.minimum <= 1:
            raise ValueError(f"Similarity.minimum is a cosine in [0, 1], not {self.minimum}")

    def preload(self) -> None:
        """Load plain data, which worker processes may share when they are forked."""
        if self._by_words:
            static.vectors()

    def reads(self, text: str) -> bool:
        """Whether the model can tell what a text is about. The packaged one knows single letters of Cyrillic: in Russian it
        passes rewrites of other passages (bench/fidelity/README.md), and is not worth its time."""
        if self.embedder.model != PACKAGED or text.isascii():
            return True
        sample = text[:_LONG]
        return 2 * len(_CYRILLIC.findall(sample)) <= sum(map(str.isalpha, sample))

    @property
    def _by_words(self) -> bool:
        return self.embedder.model == PACKAGED and self.minimum <= _MEASURED

    def minimum_of(self, length: int) -> float:
        """The least cosine when the shorter text has `length` characters: three quarters of `minimum` up to 100.

        In a sentence or two a few other words move the embedding far, while unrelated ones stay as far apart as ever.
        """
        share = (min(max(length, _SHORT), _LONG) - _SHORT) / (_LONG - _SHORT)
        return self.minimum * (0.75 + 0.25 * share)

    async def __call__(self, source: str, rewrite: str) -> Verdict:
        """Judge `rewrite`; the score is the cosine that decided, of words or of embeddings, at least 0, to 4 decimals."""
        likeness = static.cosine(source, rewrite) if self._by_words else None
        if likeness is not None and likeness >= self.alike:
            return Verdict(CHECK, True, round(min(1.0, likeness), 4))
        first, second = await self.embedder.embed((source, rewrite))
        score = round(min(1.0, max(0.0, float(first @ second))), 4)
        if score >= self.minimum_of(min(len(source.strip()), len(rewrite.strip()))):
            return Verdict(CHECK, True, score)
        detail = f"Stay with what the source says: the rewrite is about something else (similarity {score:.2f})."
        return Verdict(CHECK, False, score, "drifts_from_source", (Finding("drifts_from_source", detail),))


class _Batcher:
    """Collects texts on one event loop and hands them, many at a time, to the model's thread."""

    def __init__(self, config: Embedder) -> None:
        self._config = config
        self._waiting: list[tuple[str, asyncio.Future[np.ndarray]]] = []
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, texts: list[str]) -> list[np.ndarray]:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in texts]
        self._waiting += zip(texts, futures, strict=True)
        if len(self._waiting) >= self._config.batch_texts:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._drain())
        return await asyncio.gather(*futures)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            if not self._full.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), self._config.wait_ms / 1000)
            self._full.clear()
            batch = self._waiting[: 4 * self._config.batch_texts]
            del self._waiting[: len(batch)]
            if len(self._waiting) >= self._config.batch_texts:
                self._full.set()
            batch = [(text, future) for text, future in batch if not future.done()]
            try:
                vectors = await loop.run_in_executor(_thread(), _encode, self._config, [text for text, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), vector in zip(batch, vectors, strict=True):
                if not future.done():
                    future.set_result(vector)


_batchers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Embedder, _Batcher]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _batcher(config: Embedder) -> _Batcher:
    with _lock:
        mine = _batchers.setdefault(asyncio.get_running_loop(), {})
    if config not in mine:
        mine[config] = _Batcher(config)
    return mine[config]


@lru_cache(maxsize=1)
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="embedder")


@lru_cache(maxsize=2)
def _load(name: str) -> Any:
    """The sentence-transformers model; called on the embedder's thread only."""
    return load(name)


def _encode(config: Embedder, texts: list[str]) -> list[np.ndarray]:
    """Unit vectors of `texts`, in batches of one shape per length so that no text's result depends on the others."""
    import numpy as np

    model = _load(config.model)
    longest = min(int(model.max_seq_length or 512), _LONGEST)
    windows = model.tokenizer(texts, truncation=True, max_length=longest, return_overflowing_tokens=True)
    ids: list[list[int]] = windows["input_ids"]
    owners = windows["overflow_to_sample_mapping"]
    by_length: dict[int, list[int]] = {}
    for row, tokens in enumerate(ids):
        by_length.setdefault(-(-len(tokens) // _STEP) * _STEP, []).append(row)
    batches: list[tuple[list[int], int, int]] = []
    for length, rows in by_length.items():
        size = max(1, config.batch_tokens // length)
        batches += ((rows[start : start + size], size, length) for start in range(0, len(rows), size))
    done = lanes().map(lambda batch: _forward(model, [ids[row] for row in batch[0]], *batch[1:]), batches)
    vectors: dict[int, np.ndarray] = {}
    for (rows, *_), found in zip(batches, done, strict=True):
        vectors |= zip(rows, found, strict=False)
    sums = np.zeros((len(texts), len(vectors[0])), np.float32)
    for row, owner in enumerate(owners):  # in the order of the text, so that the sum is always the same
        sums[owner] += vectors[row] * np.float32(len(ids[row]))
    return list(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12))


def _forward(model: Any, rows: list[list[int]], size: int, length: int) -> np.ndarray:
    """Embeddings (size, dimension) of token rows, filled up to `size` rows of `length` tokens."""
    import torch

    tokenizer = model.tokenizer
    filler = rows[0]
    padded = tokenizer.pad(
        {"input_ids": [*rows, *[filler] * (size - len(rows))]},
        padding="max_length",
        max_length=length,
        return_tensors="pt",
    )
    features = {name: tensor.to(model.device) for name, tensor in padded.items()}
    with torch.inference_mode():
        return model(features)["sentence_embedding"].float().cpu().numpy()

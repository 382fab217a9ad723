"""Probabilities of entailment and contradiction from one cross-encoder per process, in batches on one background thread.

Callers on one event loop share batches, so that many documents in flight keep the model busy. What a pair scores does not
depend on what it was batched with, nor on how many processes share the machine: batches have one fixed shape per length, and
each is computed by one thread, as many at a time as the process has cores to itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

from tokenmill.judges.embedding.lanes import lanes
from tokenmill.judges.entailment.loading import Labels, labels_of, load

Pair = tuple[str, str]
"""Premise and hypothesis."""

_STEP, _LONGEST = 32, 512
"""Pairs are padded to a multiple of the one, in tokens, and cut off at the other, the longer text of a pair first."""
_WAIT = 0.004
"""Seconds that the first pair waits for company."""
_FULL = 64
"""Pairs that start a batch at once."""


class Scored(NamedTuple):
    """Probabilities, in [0, 1]."""

    entailment: float
    contradiction: float


async def scored(model: str, batch_tokens: int, pairs: Sequence[Pair]) -> list[Scored]:
    """The scores of pairs, in their order.

    Raises:
        OSError: no such model, or not one for natural-language inference.
    """
    if not pairs:
        return []
    with _lock:
        mine = _batchers.setdefault(asyncio.get_running_loop(), {})
    batcher = mine.setdefault((model, batch_tokens), _Batcher(model, batch_tokens))
    return await batcher.submit(pairs)


class _Batcher:
    """Collects pairs on one event loop and hands them, many at a time, to the model's thread."""

    def __init__(self, model: str, batch_tokens: int) -> None:
        self._model, self._batch_tokens = model, batch_tokens
        self._waiting: list[tuple[Pair, asyncio.Future[Scored]]] = []
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, pairs: Sequence[Pair]) -> list[Scored]:
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Scored]] = [loop.create_future() for _ in pairs]
        self._waiting += zip(pairs, futures, strict=True)
        if len(self._waiting) >= _FULL:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._drain())
        return list(await asyncio.gather(*futures))

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), _WAIT)
            self._full.clear()
            batch = [(pair, future) for pair, future in self._waiting[: 4 * _FULL] if not future.done()]
            del self._waiting[: 4 * _FULL]
            if len(self._waiting) >= _FULL:
                self._full.set()
            pairs = [pair for pair, _ in batch]
            try:
                results = await loop.run_in_executor(_thread(), _score, self._model, self._batch_tokens, pairs)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


_batchers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], _Batcher]] = (
    weakref.WeakKeyDictionary()
)
_lock = threading.Lock()


@lru_cache(maxsize=1)
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="entailment")


@lru_cache(maxsize=2)
def _loaded(name: str) -> tuple[Any, Labels]:
    """The model and its labels; called on the model's thread only."""
    return load(name), labels_of(name)


def _score(name: str, batch_tokens: int, pairs: Sequence[Pair]) -> list[Scored]:
    """Scores of pairs, each batch filled up to one size and one length, so that no pair's result depends on the others."""
    model, labels = _loaded(name)
    longest = min(int(model.max_seq_length or _LONGEST), _LONGEST)
    premises, hypotheses = [premise for premise, _ in pairs], [hypothesis for _, hypothesis in pairs]
    encoded = model.tokenizer(premises, hypotheses, truncation="longest_first", max_length=longest)
    by_length: dict[int, list[int]] = {}
    for row, tokens in enumerate(encoded["input_ids"]):
        by_length.setdefault(min(-(-len(tokens) // _STEP) * _STEP, longest), []).append(row)
    batches: list[tuple[list[int], int, int]] = []
    for length, rows in by_length.items():
        size = max(1, batch_tokens // length)
        batches += ((rows[start : start + size], size, length) for start in range(0, len(rows), size))

    def forward(batch: tuple[list[int], int, int]) -> list[Scored]:
        rows, size, length = batch
        filled = [*rows, *[rows[0]] * (size - len(rows))]
        features = {key: [values[row] for row in filled] for key, values in encoded.items()}
        return _forward(model, labels, features, length)

    results: dict[int, Scored] = {}
    for (rows, *_), found in zip(batches, lanes().map(forward, batches), strict=True):
        results |= zip(rows, found, strict=False)
    return [results[row] for row in range(len(pairs))]


def _forward(model: Any, labels: Labels, features: dict[str, list[list[int]]], length: int) -> list[Scored]:
    """Scores of token rows, padded to `length`."""
    import torch

    padded = model.tokenizer.pad(features, padding="max_length", max_length=length, return_tensors="pt")
    with torch.inference_mode():
        logits = model.transformers_model(**{key: tensor.to(model.device) for key, tensor in padded.items()}).logits
        chances = logits.float().softmax(-1).cpu().tolist()
    return [Scored(row[labels.entailment], row[labels.contradiction]) for row in chances]

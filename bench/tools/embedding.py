"""A stand-in for a sentence-embedding model where its cost would hide what is measured: hashed words, projected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from tokenmill.schemas.draws import digest


@dataclass(frozen=True)
class HashedWords:
    """Unit vectors that are close for texts with many words in common."""

    dimension: int = 384

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        """(len(texts), dimension), float32."""
        vectors = np.stack([self._one(text) for text in texts])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _one(self, text: str) -> np.ndarray:
        words = set(re.findall(r"\w+", text.lower())) or {""}
        return np.sum([_vector(word, self.dimension) for word in words], axis=0)


@lru_cache(maxsize=20_000)
def _vector(word: str, dimension: int) -> np.ndarray:
    return np.random.default_rng(digest(word)).standard_normal(dimension, np.float32)

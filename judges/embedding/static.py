"""What two texts are about, by their words alone: a cosine of averaged vectors of words, some hundred times as fast as the
transformer, good enough to see that two texts are on the same subject.

    cosine(source, rewrite)  ->  0.91, or None where the packaged model's vocabulary does not know the language

The vectors are the packaged model's own input embeddings, weighted by how rare a piece of a word is; nothing is built or stored.
Vectors distilled by a forward pass over the vocabulary settle no more honest pairs (bench/fidelity/README.md).
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from tokenmill.judges.embedding.loading import packaged
from tokenmill.judges.form.words import release, words

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

LEAST_KNOWN = 4.0
"""Characters of a text for each piece that the vocabulary cuts it into. English has 4.2 and more; German, French and Spanish
3.0 to 3.6, Russian, Chinese, Japanese and Korean under 2: their pieces mean nothing, and any two texts are alike."""
_FIRST_WORD = 1996
"""Index of the first word in the vocabulary, which goes from frequent to rare behind marks and single characters."""
_LONGEST = 40
"""Characters of a word that are looked at: a longer one is none, and would not be worth remembering."""
_MANY = 4096
"""Pieces of a text beyond which only the different ones are looked up: there are never more than the table has."""


def cosine(source: str, rewrite: str) -> float | None:
    """How alike two texts are, in [-1, 1]; None for texts whose language the vocabulary does not know.

    The same in every process: it depends on the two texts alone.

    Raises:
        OSError: the packaged model is not installed.
    """
    first, pieces = _vector(source)
    second, more = _vector(rewrite)
    release()
    if len(source) + len(rewrite) < LEAST_KNOWN * (pieces + more) or not pieces or not more:
        return None
    return float(first @ second)


@lru_cache(maxsize=32)  # a document is rephrased several times, and repaired
def _vector(text: str) -> tuple[np.ndarray, int]:
    """Unit vector of a text, and of how many pieces it is made."""
    import numpy as np

    found = words(text)
    if found and len(max(found, key=len)) > _LONGEST:
        found = [word[:_LONGEST] for word in found]
    pieces = np.fromiter(chain.from_iterable(map(_pieces, found)), np.intp)
    if len(pieces) > _MANY:
        different, counts = np.unique(pieces, return_counts=True)
        vector = counts.astype(np.float32) @ vectors().take(different, axis=0)
    else:
        vector = np.add.reduce(vectors().take(pieces, axis=0))
    return vector / max(math.sqrt(vector @ vector), 1e-12), len(pieces)


@lru_cache(maxsize=1 << 15)
def _pieces(word: str) -> list[int]:
    return _tokenizer().encode(word, add_special_tokens=False).ids


@cache
def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(packaged() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@cache
def vectors() -> np.ndarray:
    """The model's embedding of each piece of its vocabulary (30522, 384), float32, each weighted by how rare it is.

    Raises:
        OSError: the packaged model is not installed.
    """
    import numpy as np
    from safetensors import safe_open

    _tokenizer()
    with safe_open(packaged() / "model.safetensors", "np") as file:
        name = next(name for name in file.keys() if name.endswith("word_embeddings.weight"))  # noqa: SIM118 (no dict)
        table: np.ndarray = file.get_tensor(name)
    rank = np.maximum(np.arange(len(table)) - _FIRST_WORD + 1, 1)
    table *= np.log1p(rank).astype(np.float32)[:, None]
    return table

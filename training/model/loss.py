"""Cross entropy of a linear head, without ever holding all logits of a large batch."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_LOGITS = 1 << 27
"""At most this many logits at a time (half a gigabyte in fp32); larger batches go in chunks, recomputed backward."""


def linear_cross_entropy(x: Tensor, weight: Tensor, targets: Tensor, chunk_logits: int = CHUNK_LOGITS) -> Tensor:
    """Summed, in fp32. x: (tokens, hidden); weight: (vocabulary, hidden); targets: (tokens,), those of -100 ignored."""
    tokens = max(1, chunk_logits // weight.shape[0])
    if x.shape[0] <= tokens:
        return _summed(x, weight, targets)
    parts = zip(x.split(tokens), targets.split(tokens), strict=True)
    return sum(checkpoint(_summed, part, weight, wanted, use_reentrant=False) for part, wanted in parts)


def _summed(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x, weight).float(), targets, reduction="sum", ignore_index=-100)

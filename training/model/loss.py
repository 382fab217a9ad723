"""Cross entropy of a linear head, without ever holding all logits of a large batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

CHUNK_LOGITS = 1 << 27
"""At most this many logits at a time (half a gigabyte in fp32); larger batches go in chunks, recomputed backward."""
IGNORED = -100


def linear_cross_entropy(x: Tensor, weight: Tensor, targets: Tensor, chunk_logits: int = CHUNK_LOGITS) -> Tensor:
    """Summed, in fp32 at least. x: (tokens, hidden); weight: (vocabulary, hidden); targets: (tokens,), -100 ignored."""
    tokens = max(1, chunk_logits // weight.shape[0])
    if x.shape[0] <= tokens:
        return _summed(x, weight, targets)
    parts = zip(x.split(tokens), targets.split(tokens), strict=True)
    return sum(checkpoint(_summed, part, weight, wanted, use_reentrant=False) for part, wanted in parts)


def _summed(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return _CrossEntropy.apply(F.linear(x, weight), targets)


class _CrossEntropy(torch.autograd.Function):
    """Summed cross entropy that keeps the logits alone and turns them into their own gradient in place.

    torch's keeps log-probabilities beside the logits and fills two further arrays of that size backward. Autograd
    refuses a second backward by itself, as it sees that the logits were overwritten.
    """

    @staticmethod
    def forward(ctx, logits: Tensor, targets: Tensor) -> Tensor:
        log_z = _exact(logits).logsumexp(dim=-1)
        counted = targets != IGNORED
        index = targets.where(counted, 0).unsqueeze(1)
        ctx.save_for_backward(logits, log_z, index, counted)
        loss = log_z - _exact(logits.gather(1, index).squeeze(1))
        return loss.where(counted, 0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor):
        logits, log_z, index, counted = ctx.saved_tensors
        out = _exact(logits).sub_(log_z.unsqueeze(1)).exp_()
        out.scatter_add_(1, index, torch.full_like(index, -1, dtype=out.dtype))
        return out.mul_((gradient * counted).unsqueeze(1)).to(logits.dtype), None


def _exact(tensor: Tensor) -> Tensor:
    """In fp32 at least; itself where it is that already."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))

"""QK-Clip: bring back exactly those heads whose logits grew too large (K2 report, section 2.1, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tokenmill.training.model import Model
from tokenmill.training.model.attention import LatentAttention
from tokenmill.training.model.sharded import shard_like, world_maximum
from torch import Tensor


@dataclass(frozen=True)
class ClipReport:
    """What the forward passes since the last step saw, and what was done about it."""

    max_logits: Tensor
    """(layers, heads), largest scaled logit; minus infinity where no forward ran."""
    clipped: Tensor
    """(layers, heads), True where the head was scaled down."""


@torch.no_grad()
def qk_clip(model: Model, tau: float | None) -> ClipReport:
    """Scale query and key weights of every head with S_max > tau by what makes its logits tau / S_max of themselves.

    Reads `model.max_logits`, the maximum over all ranks, and resets it. `tau=None` only reports.
    """
    largest = world_maximum(model.max_logits.clone())
    model.max_logits.fill_(-torch.inf)
    if tau is None:
        return ClipReport(largest, torch.zeros_like(largest, dtype=torch.bool))
    clipped = largest > tau
    gamma = torch.where(clipped, tau / largest, 1.0)
    for layer, factor, touched in zip(model.blocks(), gamma, clipped, strict=True):
        # Asking a GPU would wait for it; there a product with exact ones is cheaper.
        if factor.is_cuda or touched.any():
            scale_head_logits(layer.self_attn, factor)
    return ClipReport(largest, clipped)


@torch.no_grad()
def scale_head_logits(attention: LatentAttention, gamma: Tensor) -> None:
    """Multiply each head's logits by gamma (heads,): content query and key by its root, the rotary query by all of it.

    The rotary key is shared by all heads and stays as it is; so do the values.
    """
    heads, nope, rope, value = attention.heads, attention.nope, attention.rope, attention.value
    root = gamma.sqrt()
    query = torch.cat([root.unsqueeze(1).expand(heads, nope), gamma.unsqueeze(1).expand(heads, rope)], dim=1)
    ones = torch.ones_like(root).unsqueeze(1).expand(heads, value)
    key = torch.cat([root.unsqueeze(1).expand(heads, nope), ones], dim=1)
    for weight, rows in ((attention.query_weight, query), (attention.kv_b_proj.weight, key)):
        weight.mul_(shard_like(weight, rows.reshape(-1, 1).to(weight.dtype)))

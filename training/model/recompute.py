"""Activation checkpointing: trade a second forward for memory, all of it or all but the matrix products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts, noop_context_fn

Recompute = Literal["none", "selective", "full"]

_aten = torch.ops.aten
KEPT = {
    _aten.mm.default,
    _aten.bmm.default,
    _aten.addmm.default,
    _aten._grouped_mm.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.higher_order.flex_attention,
}
"""Results worth keeping: they cost products; norms, activations, rotations and sorting are cheap to repeat."""


def _policy(context: object, op: Any, *args: object, **kwargs: object) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint_context(recompute: Recompute) -> Callable[[], Any]:
    """`context_fn` for `torch.utils.checkpoint.checkpoint`."""
    if recompute == "full":
        return noop_context_fn
    if recompute == "selective":
        return partial(create_selective_checkpoint_contexts, _policy)
    raise ValueError(f"recompute: give 'none', 'selective' or 'full', not {recompute!r}")

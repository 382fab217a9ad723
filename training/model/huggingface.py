"""Weights in the layout DeepSeek-V3 was published in: one matrix per expert, gate and up apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import torch
from tokenmill.training.model.model import Model
from tokenmill.training.model.sharded import full, shard_like
from torch import Tensor

_STACKED = re.compile(r"^(?P<at>.*\.experts)\.(?P<kind>gate_up_proj|down_proj)$")
_FUSED = re.compile(r"^(?P<at>.*)\.gate_up_proj\.weight$")


def published_names(name: str, experts: int) -> list[str]:
    """The published tensors, in order along the rows, that make up our entry `name` of the state dictionary."""
    prefixed = name if name.startswith("lm_head.") else f"model.{name}"
    if stacked := _STACKED.match(prefixed):
        parts = ["gate_proj", "up_proj"] if stacked["kind"] == "gate_up_proj" else ["down_proj"]
        return [f"{stacked['at']}.{expert}.{part}.weight" for expert in range(experts) for part in parts]
    if fused := _FUSED.match(prefixed):
        return [f"{fused['at']}.gate_proj.weight", f"{fused['at']}.up_proj.weight"]
    return [prefixed]


def export_weights(model: Model) -> Iterator[tuple[str, Tensor]]:
    """Published name and tensor, one after the other; on every rank when parameters are sharded."""
    config = model.config
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        whole = full(tensor).detach()
        names = published_names(name, config.n_routed_experts)
        rows = whole.flatten(0, 1) if whole.ndim == 3 else whole
        yield from zip(names, rows.chunk(len(names)) if len(names) > 1 else [rows], strict=True)
    if config.is_moe and not config.n_shared_experts:
        # transformers builds a shared expert even of width 0, and asks for its (empty) weights.
        for index in range(config.first_k_dense_replace, config.num_hidden_layers):
            at = f"model.layers.{index}.mlp.shared_experts"
            yield f"{at}.gate_proj.weight", torch.empty(0, config.hidden_size)
            yield f"{at}.up_proj.weight", torch.empty(0, config.hidden_size)
            yield f"{at}.down_proj.weight", torch.empty(config.hidden_size, 0)


@torch.no_grad()
def import_weights(model: Model, read: Callable[[str], Tensor]) -> None:
    """Fill the model from published tensors, one entry at a time. `read` raises `KeyError` for a missing name.

    Raises `ValueError` when a tensor's size is not the model's. Tensors of further layers (multi-token prediction)
    are never asked for.
    """
    config = model.config
    for name, entry in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        names = published_names(name, config.n_routed_experts)
        whole = torch.cat([read(part) for part in names]) if len(names) > 1 else read(names[0])
        if whole.numel() != entry.numel():
            raise ValueError(
                f"{names[0]}: the checkpoint's size {tuple(whole.shape)} does not fit {tuple(entry.shape)}"
            )
        entry.copy_(shard_like(entry, whole.to(entry.dtype).reshape(entry.shape)))

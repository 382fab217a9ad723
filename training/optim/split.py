"""Which parameter is whose: matrices go to Muon, the rest to AdamW."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Split:
    """Names with parameters, in the model's order; every parameter is in exactly one list."""

    muon: list[tuple[str, nn.Parameter]]
    """Projections of attention, MLPs and experts."""
    decayed: list[tuple[str, nn.Parameter]]
    """AdamW with weight decay: embedding, head, gates."""
    kept: list[tuple[str, nn.Parameter]]
    """AdamW without: norms, whose natural value is 1 and not 0."""


def split_parameters(model: nn.Module) -> Split:
    split = Split([], [], [])
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.ndim < 2:
            split.kept.append((name, parameter))
        elif name.split(".")[-2] in ("embed_tokens", "lm_head", "gate"):
            split.decayed.append((name, parameter))
        else:
            split.muon.append((name, parameter))
    return split


def as_matrices(name: str, tensor: Tensor) -> Tensor:
    """The matrices inside a parameter, (count, rows, columns), sharing storage.

    Experts are stacked along the first dimension; gate and up are two matrices stored as one and are
    orthogonalised apart, as they would be if stored apart.
    """
    stacked = tensor if tensor.ndim == 3 else tensor.unsqueeze(0)
    if "gate_up_proj" in name.split("."):
        return stacked.reshape(2 * stacked.shape[0], stacked.shape[1] // 2, stacked.shape[2])
    return stacked

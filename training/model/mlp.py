"""The gated feed-forward of dense layers and shared experts."""

from __future__ import annotations

import torch.nn.functional as F
from tokenmill.training.model.products import Linear
from torch import Tensor, nn


class SwiGLU(nn.Module):
    """down(silu(gate x) * up x), gate above up in one matrix so that x is read once."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_up_proj = Linear(width, 2 * inner)
        self.down_proj = Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)

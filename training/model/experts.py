"""All routed experts of a layer as two stacked weights and grouped matrix products."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Implementation = Literal["grouped", "loop"]


class Experts(nn.Module):
    """Tokens are sorted by expert once; each product then runs over contiguous groups of rows.

    `implementation="loop"` is the plain reference: one expert after the other, for tests and for reading.
    """

    def __init__(self, count: int, width: int, inner: int) -> None:
        super().__init__()
        self.count = count
        self.gate_up_proj = nn.Parameter(torch.empty(count, 2 * inner, width))
        """Gate rows above up rows, per expert."""
        self.down_proj = nn.Parameter(torch.empty(count, width, inner))
        self.implementation: Implementation = "grouped"

    def forward(self, x: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        """x: (tokens, hidden); experts, weights: (tokens, k). Returns the weighted sum, shape and dtype as x."""
        forward = self._grouped if self.implementation == "grouped" else self._loop
        return forward(x, experts, weights).to(x.dtype)

    def _grouped(self, x: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        tokens, k = experts.shape
        dtype = compute_dtype(x)
        order = experts.flatten().argsort(stable=True)
        back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=x.device))
        sizes = torch.zeros(self.count, dtype=torch.int32, device=x.device)
        sizes.scatter_add_(0, experts.flatten(), torch.ones_like(experts.flatten(), dtype=torch.int32))
        ends = sizes.cumsum(0, dtype=torch.int32)
        rows = _Dispatch.apply(x.to(dtype), order, back, k)
        gate, up = F.grouped_mm(rows, self.gate_up_proj.to(dtype).mT, offs=ends).chunk(2, dim=-1)
        # The weight goes on before the way down, where rows are narrow; the product is linear, so it is the same sum.
        inner = F.silu(gate) * up * weights.flatten()[order].unsqueeze(1).to(dtype)
        out = F.grouped_mm(inner, self.down_proj.to(dtype).mT, offs=ends)
        return _Combine.apply(out, order, back).view(tokens, k, -1).sum(dim=1)

    def _loop(self, x: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        dtype = compute_dtype(x)
        out = torch.zeros_like(x, dtype=dtype)
        for expert in range(self.count):
            token, slot = (experts == expert).nonzero(as_tuple=True)
            gate, up = F.linear(x[token].to(dtype), self.gate_up_proj[expert].to(dtype)).chunk(2, dim=-1)
            y = F.linear(F.silu(gate) * up, self.down_proj[expert].to(dtype))
            out = out.index_add(0, token, y * weights[token, slot].unsqueeze(1).to(dtype))
        return out


class _Dispatch(torch.autograd.Function):
    """Copy each token to its k places in the order of experts; backward gathers and sums, in a fixed order.

    (Autograd's own backward of a gather scatters with atomic adds: slower, and in no fixed order on a GPU.)
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, back: Tensor, k: int) -> Tensor:
        ctx.save_for_backward(back)
        ctx.k = k
        return x[order // k]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (back,) = ctx.saved_tensors
        return gradient[back].unflatten(0, (-1, ctx.k)).sum(dim=1), None, None, None


class _Combine(torch.autograd.Function):
    """Put rows back in the order of tokens; backward is the opposite permutation."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return rows[back]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (order,) = ctx.saved_tensors
        return gradient[order], None, None


def compute_dtype(x: Tensor) -> torch.dtype:
    """Autocast does not know grouped products, so its type is applied by hand."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype

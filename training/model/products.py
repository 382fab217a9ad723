"""Matrix products of linear layers, on a CPU in fp32 by oneDNN.

`torch.mm` calls MKL, which keeps its AVX-512 kernels for Intel's processors: on an AMD EPYC (Zen 5) oneDNN, which torch
brings and its own compiler uses for linear layers, is twice as fast (`bench/training`). On an accelerator, in another
type, under autocast or without oneDNN these are torch's own products.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

WORTH = 1 << 20
"""Multiplications from which oneDNN is asked; below, what a call costs counts for more."""


def product(a: Tensor, b: Tensor) -> Tensor:
    """a b^T for a (m, k) and b (n, k), of any strides."""
    if _by_onednn(a, b):
        return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    return a @ b.mT


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b^T, without a temporary where torch adds up by itself."""
    if total.dtype == a.dtype and not _by_onednn(a, b):
        total.addmm_(a, b.mT)
    else:
        total += product(a, b)


class Linear(nn.Linear):
    """A linear layer without bias whose three products, forward and backward, are `product`s. Cannot be differentiated
    twice on a CPU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., inputs). Returns (..., outputs)."""
        rows = x.reshape(-1, x.shape[-1])
        if torch.is_autocast_enabled(x.device.type) or not _by_onednn(rows, self.weight):
            return F.linear(x, self.weight)
        return _Linear.apply(rows, self.weight).view(*x.shape[:-1], -1)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        dx = product(gradient, weight.mT) if ctx.needs_input_grad[0] else None
        dw = product(gradient.mT, x.mT) if ctx.needs_input_grad[1] else None
        return dx, dw


def _by_onednn(a: Tensor, b: Tensor) -> bool:
    return (
        a.device.type == "cpu"
        and a.dtype == b.dtype == torch.float32
        and a.shape[0] * a.shape[1] * b.shape[0] >= WORTH
        and torch.backends.mkldnn.is_available()
        and not torch.compiler.is_compiling()
    )

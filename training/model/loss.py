"""Cross entropy of a linear head, without ever holding all logits."""

from __future__ import annotations

from typing import Any

import torch
from tokenmill.training.model.experts import compute_dtype
from tokenmill.training.model.products import add_product, product
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORED = -100
CPU_LOGITS, OTHER_LOGITS = 1 << 22, 1 << 27
"""Logits at a time: 16 megabytes in fp32 on a CPU, half a gigabyte elsewhere."""


def linear_cross_entropy(x: Tensor, weight: Tensor, targets: Tensor, chunk_logits: int | None = None) -> Tensor:
    """Summed over tokens, in fp32 at least; targets of -100 do not count.

    x: (tokens, hidden); weight: (vocabulary, hidden); targets: (tokens,). Its gradient is taken on the way forward,
    a chunk of tokens at a time, so that logits are made once and never kept (the idea of Liger-Kernel, arXiv
    2410.10989). A second backward raises `RuntimeError`.
    """
    if chunk_logits is None:
        chunk_logits = CPU_LOGITS if x.device.type == "cpu" else OTHER_LOGITS
    rows = max(1, chunk_logits // weight.shape[0])
    dtype = compute_dtype(x)
    return _LinearCrossEntropy.apply(x, weight, targets, rows, dtype, torch.is_grad_enabled())


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, rows: int, dtype: torch.dtype, learning: bool
    ) -> Tensor:
        ctx.gradients = None
        exact = torch.promote_types(dtype, torch.float32)
        narrow = weight.to(dtype)
        total = torch.zeros((), dtype=exact, device=x.device)
        dx, dw = torch.empty_like(x) if learning else None, None
        with torch.autocast(x.device.type, enabled=False):
            for start in range(0, x.shape[0], rows):
                part = x[start : start + rows].to(dtype)
                loss, slope = _chunk(product(part, narrow), targets[start : start + rows], exact, learning)
                total += loss
                if dx is not None and slope is not None:
                    slope = slope.to(dtype)
                    dx[start : start + rows] = product(slope, narrow.mT)
                    if dw is None:
                        dw = product(slope.mT, part.mT).to(weight.dtype)
                    else:
                        add_product(dw, slope.mT, part.mT)
        if dx is not None:
            ctx.gradients = (dx, torch.zeros_like(weight) if dw is None else dw)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("this loss was differentiated already, and its gradients are used up")
        (dx, dw), ctx.gradients = ctx.gradients, None
        return dx.mul_(gradient), dw.mul_(gradient), None, None, None, None


def _chunk(logits: Tensor, targets: Tensor, exact: torch.dtype, learning: bool) -> tuple[Tensor, Tensor | None]:
    """Summed loss of one chunk, and its derivative by the logits, which are overwritten: softmax minus one-hot."""
    logits = logits.to(exact)
    counted = targets != IGNORED
    index = targets.where(counted, 0).unsqueeze(1)
    wanted = logits.gather(1, index).squeeze(1)
    largest = logits.amax(dim=1, keepdim=True)
    powers = logits.sub_(largest).exp_()
    total = powers.sum(dim=1)
    loss = (total.log() + largest.squeeze(1) - wanted).where(counted, 0).sum()
    if not learning:
        return loss, None
    slope = powers.mul_((counted / total).unsqueeze(1))
    slope.scatter_add_(1, index, -counted.to(exact).unsqueeze(1))
    return loss, slope

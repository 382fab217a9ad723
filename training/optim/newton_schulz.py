"""Orthogonalisation by the quintic Newton-Schulz iteration, many matrices in one product (K2 report, algorithm 1)."""

from __future__ import annotations

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Steep at zero rather than exact at one: singular values end near 1, between 0.7 and 1.2 (Keller Jordan's Muon)."""
STEPS = 5
EPSILON = 1e-7
CACHE_ELEMENTS = 1 << 19
"""Numbers that a CPU works on at a time, so that they stay in its cache: half as fast again here."""


def orthogonalize(matrices: Tensor, steps: int = STEPS, dtype: torch.dtype | None = torch.bfloat16) -> Tensor:
    """Each matrix U S V^T of (..., m, n) becomes about U V^T, computed and returned in `dtype` (None: as given).

    Cost: `steps` times 4 m m n + 2 m m m floating-point operations a matrix, m the shorter side.
    """
    x = matrices.to(dtype or matrices.dtype)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    shape = x.shape
    x = x.reshape(-1, *shape[-2:])
    if x.device.type == "cpu" and x.numel() > CACHE_ELEMENTS:
        few = max(1, CACHE_ELEMENTS // (shape[-2] * shape[-1]))
        x = torch.cat([_iterate(part, steps) for part in x.split(few)])
    else:
        x = _iterate(x, steps)
    x = x.view(shape)
    return x.mT if tall else x


def _iterate(x: Tensor, steps: int) -> Tensor:
    """x: (count, m, n) with m <= n."""
    a, b, c = COEFFICIENTS
    x = x / torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True).clamp(min=EPSILON)
    gram = x.new_empty(*x.shape[:-1], x.shape[-2])
    polynomial, y = torch.empty_like(gram), torch.empty_like(x)
    for _ in range(steps):
        torch.bmm(x, x.mT, out=gram)
        torch.baddbmm(gram, gram, gram, beta=b, alpha=c, out=polynomial)
        polynomial.diagonal(dim1=-2, dim2=-1).add_(a)  # a I here spares a pass over x
        x, y = torch.bmm(polynomial, x, out=y), x
    return x

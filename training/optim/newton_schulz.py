"""Orthogonalisation by the quintic Newton-Schulz iteration, many matrices in one product (K2 report, algorithm 1)."""

from __future__ import annotations

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Steep at zero rather than exact at one: singular values end near 1, between 0.7 and 1.2 (Keller Jordan's Muon)."""
STEPS = 5
EPSILON = 1e-7


def orthogonalize(matrices: Tensor, steps: int = STEPS, dtype: torch.dtype | None = torch.bfloat16) -> Tensor:
    """Each matrix U S V^T of (..., m, n) becomes about U V^T, computed and returned in `dtype` (None: as given).

    Cost: 5 steps of 4 m m n + 2 m m m floating-point operations a matrix, m the shorter side.
    """
    x = matrices.to(dtype or matrices.dtype)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    shape = x.shape
    x = x.reshape(-1, *shape[-2:])
    norms = torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True, dtype=torch.promote_types(x.dtype, torch.float32))
    x = x / norms.clamp(min=EPSILON).to(x.dtype)
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    x = x.view(shape)
    return x.mT if tall else x

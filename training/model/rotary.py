"""Rotary positions on interleaved pairs, with YaRN's frequencies (arXiv 2309.00071; K2 report, section 2.5)."""

from __future__ import annotations

import math

import torch
from tokenmill.training.model.config import ModelConfig, Yarn
from torch import Tensor


def yarn_mscale(factor: float, mscale: float) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def inverse_frequencies(config: ModelConfig) -> Tensor:
    """Angle per position of each rotary pair, fp32, shape (rope_dim / 2,)."""
    dim, theta = config.qk_rope_head_dim, config.rope_theta
    # Never on the meta device: these few numbers are wanted even where the weights are not.
    extrapolated = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float32, device="cpu") / dim)
    if config.yarn is None:
        return extrapolated
    low, high = _correction_range(config.yarn, dim, theta)
    ramp = (torch.arange(dim // 2, dtype=torch.float32, device="cpu") - low) / (high - low)
    interpolate = ramp.clamp(0, 1)
    return extrapolated / config.yarn.factor * interpolate + extrapolated * (1 - interpolate)


def _correction_range(yarn: Yarn, dim: int, theta: float) -> tuple[float, float]:
    """Pairs below turn more than `beta_fast` times within the old context and stay; those above are interpolated."""

    def pair_turning(turns: float) -> float:
        return dim * math.log(yarn.original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair_turning(yarn.beta_fast)), 0)
    high = min(math.ceil(pair_turning(yarn.beta_slow)), dim - 1)
    return float(low), float(high) if high != low else high + 0.001


def rotary_scale(config: ModelConfig) -> float:
    """Factor on cos and sin (1 without YaRN)."""
    yarn = config.yarn
    if yarn is None:
        return 1.0
    if yarn.mscale and yarn.mscale_all_dim:
        return yarn_mscale(yarn.factor, yarn.mscale) / yarn_mscale(yarn.factor, yarn.mscale_all_dim)
    return yarn_mscale(yarn.factor, 1.0)


def softmax_scale(config: ModelConfig) -> float:
    """Factor on q.k before the softmax: 1/sqrt(head dim), and YaRN's temperature squared."""
    scale = config.qk_head_dim**-0.5
    if config.yarn is not None and config.yarn.mscale_all_dim:
        scale *= yarn_mscale(config.yarn.factor, config.yarn.mscale_all_dim) ** 2
    return scale


def cos_sin(positions: Tensor, frequencies: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """fp32 tables for positions (batch, time): two of shape (batch, time, 1, rope_dim / 2), to broadcast over heads."""
    angles = positions[..., None, None].float() * frequencies
    return angles.cos() * scale, angles.sin() * scale


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs (x0, x1), (x2, x3), ... of x (batch, time, heads, rope_dim).

    The result lists all first halves of the pairs, then all second ones. Queries and keys share the order, so their
    products do not see it, and no re-interleaving copy is paid.
    """
    a, b = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)

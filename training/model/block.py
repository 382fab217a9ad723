"""One layer: attention and feed-forward, each behind its norm and added to the stream."""

from __future__ import annotations

from typing import NamedTuple

from tokenmill.training.model.attention import LatentAttention
from tokenmill.training.model.cache import LayerCache
from tokenmill.training.model.config import ModelConfig
from tokenmill.training.model.mask import AttentionMask
from tokenmill.training.model.mlp import SwiGLU
from tokenmill.training.model.moe import Load, MixtureOfExperts
from tokenmill.training.model.norm import RMSNorm
from torch import Tensor, nn


class LayerStats(NamedTuple):
    """Returned, not stored: a checkpointed layer runs twice, and must not be counted twice."""

    max_logits: Tensor | None
    load: Load | None


class Block(nn.Module):
    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = LatentAttention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.is_moe = index >= config.first_k_dense_replace
        self.mlp: MixtureOfExperts | SwiGLU = (
            MixtureOfExperts(config) if self.is_moe else SwiGLU(config.hidden_size, config.intermediate_size)
        )

    def forward(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        mask: AttentionMask,
        real: Tensor | None = None,
        cache: LayerCache | None = None,
        want_maxima: bool = False,
    ) -> tuple[Tensor, LayerStats]:
        """x: (batch, time, hidden)."""
        mixed, max_logits = self.self_attn(
            self.input_layernorm(x), rotation, mask, cache=cache, want_maxima=want_maxima
        )
        x = x + mixed
        inner = self.post_attention_layernorm(x)
        if not self.is_moe:
            return x + self.mlp(inner), LayerStats(max_logits, None)
        out, load = self.mlp(inner, real)
        return x + out, LayerStats(max_logits, load)

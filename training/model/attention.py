"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434; K2 report, section 2.3)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from tokenmill.training.model.cache import LayerCache
from tokenmill.training.model.config import ModelConfig
from tokenmill.training.model.mask import AttentionMask, flex
from tokenmill.training.model.norm import RMSNorm
from tokenmill.training.model.products import Linear
from tokenmill.training.model.rotary import rotate, softmax_scale
from torch import Tensor, nn

WRITTEN_LENGTH = 2048
"""Up to here a CPU writes its logits out, block by block: faster than its fused kernel where keys and values differ in
width, and the maxima cost one read."""
BLOCK = 128
LATENT_EPS = 1e-6
"""The latents' norms have their own epsilon in DeepSeek-V3, whatever `rms_norm_eps` says."""


class LatentAttention(nn.Module):
    """Keys and values come from one small latent per token; only it and one shared rotary key need caching."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.nope, self.rope, self.value = config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim
        self.rank = config.kv_lora_rank
        self.scale = softmax_scale(config)
        width, query_width = config.hidden_size, self.heads * config.qk_head_dim
        if config.q_lora_rank is None:
            self.q_proj = Linear(width, query_width)
        else:
            self.q_a_proj = Linear(width, config.q_lora_rank)
            self.q_a_layernorm = RMSNorm(config.q_lora_rank, LATENT_EPS)
            self.q_b_proj = Linear(config.q_lora_rank, query_width)
        self.kv_a_proj_with_mqa = Linear(width, self.rank + self.rope)
        self.kv_a_layernorm = RMSNorm(self.rank, LATENT_EPS)
        self.kv_b_proj = Linear(self.rank, self.heads * (self.nope + self.value))
        self.o_proj = Linear(self.heads * self.value, width)

    @property
    def query_weight(self) -> Tensor:
        """Rows in order of heads, each head's `nope` content rows before its `rope` rotary rows."""
        return self.q_b_proj.weight if hasattr(self, "q_b_proj") else self.q_proj.weight

    def forward(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        mask: AttentionMask,
        *,
        cache: LayerCache | None = None,
        want_maxima: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """x: (batch, time, hidden). Returns the same shape, and the largest logit of each head (heads,) if wanted."""
        batch, time = x.shape[:2]
        query = self._query(x).view(batch, time, self.heads, self.nope + self.rope)
        q_content, q_rotary = query.split([self.nope, self.rope], dim=-1)
        q_rotary = rotate(q_rotary, *rotation)
        latent, k_rotary = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], dim=-1)
        latent = self.kv_a_layernorm(latent)
        k_rotary = rotate(k_rotary.unsqueeze(2), *rotation).squeeze(2)
        if cache is not None:
            latent, k_rotary = cache.append(latent, k_rotary)
            if time == 1:
                return self._decode(q_content, q_rotary, latent, k_rotary, mask), None

        keys, values = self.kv_b_proj(latent).unflatten(-1, (self.heads, -1)).split([self.nope, self.value], dim=-1)
        query = torch.cat((q_content, q_rotary), dim=-1)
        key = torch.cat((keys, k_rotary.unsqueeze(2).expand(-1, -1, self.heads, -1)), dim=-1)
        out, maxima = attend(
            query.transpose(1, 2), key.transpose(1, 2), values.transpose(1, 2), mask, self.scale, want_maxima
        )
        return self.o_proj(out.transpose(1, 2).flatten(2)), maxima

    def _query(self, x: Tensor) -> Tensor:
        if hasattr(self, "q_proj"):
            return self.q_proj(x)
        return self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))

    def _decode(
        self, q_content: Tensor, q_rotary: Tensor, latent: Tensor, k_rotary: Tensor, mask: AttentionMask
    ) -> Tensor:
        """Attention in latent space: the up-projections move to the query's side, so no key or value is expanded.

        latent: (batch, keys, rank); k_rotary: (batch, keys, rope).
        """
        up = self.kv_b_proj.weight.to(latent.dtype).view(self.heads, self.nope + self.value, self.rank)
        to_key, to_value = up.split([self.nope, self.value], dim=1)
        absorbed = torch.einsum("bthd,hdr->bhtr", q_content, to_key)
        logits = torch.einsum("bhtr,bsr->bhts", absorbed, latent) + torch.einsum("bthd,bsd->bhts", q_rotary, k_rotary)
        logits = logits.float() * self.scale
        if mask.allowed is not None:
            logits = logits.masked_fill(~mask.allowed, -torch.inf)
        mixed = torch.einsum("bhts,bsr->bhtr", logits.softmax(dim=-1).to(latent.dtype), latent)
        return self.o_proj(torch.einsum("bhtr,hdr->bthd", mixed, to_value).flatten(2))


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask, scale: float, want_maxima: bool
) -> tuple[Tensor, Tensor | None]:
    """Softmax attention by the cheapest exact way here; all of shape (batch, heads, time, dim).

    Returns the mixed values and, if wanted, each head's largest logit after scaling, (heads,) in fp32 and detached.
    """
    if mask.block is not None:
        return flex(query, key, value, mask, scale, want_maxima)
    if query.device.type == "cpu" and query.shape[-2] == key.shape[-2] <= WRITTEN_LENGTH:
        return _written_out(query, key, value, mask, scale, want_maxima)
    causal = mask.allowed is None
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask.allowed, is_causal=causal, scale=scale)
    return out, logit_maxima(query, key, mask, scale) if want_maxima else None


def _written_out(
    query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask, scale: float, want_maxima: bool
) -> tuple[Tensor, Tensor | None]:
    """Plain attention, a block of queries at a time over the keys up to its end: half of the products are saved."""
    query, key, value = query * scale, key.contiguous(), value.contiguous()
    parts, maxima = [], None
    for start, end in _blocks(query.shape[-2], BLOCK):
        logits = (query[:, :, start:end] @ key[:, :, :end].mT).float()
        logits = logits.masked_fill(~_visible(mask, start, end, query.device), -torch.inf)
        if want_maxima:
            largest = logits.detach().amax(dim=(0, 2, 3))
            maxima = largest if maxima is None else torch.maximum(maxima, largest)
        parts.append(logits.softmax(dim=-1).to(value.dtype) @ value[:, :, :end])
    return torch.cat(parts, dim=2), maxima


@torch.no_grad()
def logit_maxima(query: Tensor, key: Tensor, mask: AttentionMask, scale: float, block: int = 512) -> Tensor:
    """Each head's largest logit beside a fused kernel that does not tell it: one more q.k product, block by block.

    Only keys up to a block's end are visited, so this is half of one of attention's seven products, without gradient.
    """
    best = query.new_full((query.shape[1],), -torch.inf, dtype=torch.float32)
    for start, end in _blocks(query.shape[-2], block):
        logits = query[:, :, start:end] @ key[:, :, :end].mT
        logits = logits.masked_fill(~_visible(mask, start, end, query.device), -torch.inf)
        best = torch.maximum(best, logits.float().amax(dim=(0, 2, 3)))
    return best * scale


def _blocks(time: int, size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + size, time)) for start in range(0, time, size))


def _visible(mask: AttentionMask, start: int, end: int, device: torch.device) -> Tensor:
    """Which keys up to `end` the queries from `start` to `end` may look at; broadcasts over batch and heads."""
    if mask.allowed is not None:
        return mask.allowed[:, :, start:end, :end]
    return torch.ones(end - start, end, dtype=torch.bool, device=device).tril(start)

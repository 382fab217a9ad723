"""The language model: embedding, layers, head, loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from tokenmill.training.model.block import Block, LayerStats
from tokenmill.training.model.cache import LatentCache
from tokenmill.training.model.config import ModelConfig
from tokenmill.training.model.experts import Experts
from tokenmill.training.model.loss import linear_cross_entropy
from tokenmill.training.model.mask import PADDING, attention_mask, cached_mask, restart_positions
from tokenmill.training.model.moe import Gate
from tokenmill.training.model.norm import RMSNorm
from tokenmill.training.model.products import Linear
from tokenmill.training.model.recompute import Recompute, checkpoint_context
from tokenmill.training.model.rotary import cos_sin, inverse_frequencies, rotary_scale
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Attention = Literal["auto", "sdpa", "flex"]


@dataclass
class Output:
    """`logits` without targets; the losses with them."""

    logits: Tensor | None = None
    """(batch, time, vocabulary)"""
    loss: Tensor | None = None
    """What to differentiate: cross entropy and the weighted balance and router losses; scalar, fp32."""
    cross_entropy: Tensor | None = None
    """Nats a target token, mean (or as `normalizer` says); scalar, detached."""
    balance_loss: Tensor | None = None
    """N sum f_i P_i, mean over MoE layers; scalar, detached."""
    z_loss: Tensor | None = None
    target_count: Tensor | None = None
    """Tokens that count in the loss."""


class Model(nn.Module):
    """`model(tokens)` gives logits, `model(tokens, targets=...)` losses.

    In training mode each forward also adds to two statistics that the optimizer and the balancer read and reset:
    `max_logits` (layers, heads), the largest attention logit since the last step, and `expert_counts`
    (MoE layers, experts), tokens since the last bias update.
    """

    def __init__(self, config: ModelConfig, *, attention: Attention = "auto") -> None:
        super().__init__()
        self.config = config
        self.attention = attention
        self.recompute: Recompute = "none"
        self.track_max_logits = True
        self.balance_loss_coef = config.balance_loss_coef
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, index) for index in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = Linear(config.hidden_size, config.vocab_size)
        self.tie_weights()
        self.frequencies: Tensor
        self.max_logits: Tensor
        self.expert_counts: Tensor
        shape = (config.num_hidden_layers, config.num_attention_heads)
        self.register_buffer("frequencies", torch.empty(config.qk_rope_head_dim // 2), persistent=False)
        self.register_buffer("max_logits", torch.empty(shape), persistent=False)
        counts = torch.empty(config.num_moe_layers, config.n_routed_experts, dtype=torch.int64)
        self.register_buffer("expert_counts", counts, persistent=False)
        self.reset_parameters()

    def blocks(self) -> list[Block]:
        """The layers, of which a `ModuleList` tells only that they are modules."""
        return [layer for layer in self.layers if isinstance(layer, Block)]

    def tie_weights(self) -> None:
        """Make head and embedding one tensor again where the configuration says so; `to_empty` parts them."""
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.embed_tokens.weight

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw fresh weights; also to be called after `to_empty` on a model built on the meta device."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding | Gate | Experts):
                for weight in module.parameters(recurse=False):
                    nn.init.normal_(weight, std=self.config.initializer_range)
            if isinstance(module, RMSNorm):
                nn.init.ones_(module.weight)
            if isinstance(module, Gate):
                module.e_score_correction_bias.zero_()
        self.reset_buffers()

    @torch.no_grad()
    def reset_buffers(self) -> None:
        """What no checkpoint brings: rotary frequencies, empty statistics, the tie of head and embedding."""
        self.tie_weights()
        if not self.frequencies.is_meta:
            self.frequencies = inverse_frequencies(self.config).to(self.frequencies.device)
        self.max_logits.fill_(-torch.inf)
        self.expert_counts.zero_()

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        document_ids: Tensor | None = None,
        targets: Tensor | None = None,
        loss_mask: Tensor | None = None,
        *,
        normalizer: Tensor | float | None = None,
        cache: LatentCache | None = None,
    ) -> Output:
        """All inputs (batch, time).

        document_ids: a packed row's document of each token; attention stays inside it, -1 is padding.
        positions: default 0, 1, ..., from 0 again in each document.
        targets: the token that should follow each token; those where `loss_mask` is False, at padding, or negative
        do not count. normalizer: divide the summed cross entropy by this instead of by the count of this batch's
        targets, so that accumulated micro-batches weigh every token alike.
        """
        x, stats = self.hidden(tokens, positions, document_ids, cache=cache)
        if targets is None:
            return Output(logits=self.lm_head(x))
        ignored = targets < 0
        if loss_mask is not None:
            ignored = ignored | ~loss_mask.bool()
        if document_ids is not None:
            ignored = ignored | (document_ids == PADDING)
        count = (~ignored).sum()
        total = linear_cross_entropy(x.flatten(0, 1), self.lm_head.weight, targets.masked_fill(ignored, -100).flatten())
        cross_entropy = total / (count.clamp(min=1) if normalizer is None else normalizer)
        output = Output(loss=cross_entropy, cross_entropy=cross_entropy.detach(), target_count=count)
        return self._with_router_losses(output, stats)

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        document_ids: Tensor | None = None,
        *,
        cache: LatentCache | None = None,
    ) -> tuple[Tensor, list[LayerStats]]:
        """The normed last hidden state (batch, time, hidden), and each layer's statistics."""
        batch, time = tokens.shape
        if positions is None:
            positions = self._positions(tokens, document_ids, cache)
        if cache is None:
            flex = self.attention == "flex" or (self.attention == "auto" and tokens.is_cuda and self.training)
            mask = attention_mask(document_ids, time, batch=batch, device=tokens.device, flex=flex)
        else:
            mask = cached_mask(cache.valid[:, : cache.length + time], time)
        rotation = cos_sin(positions, self.frequencies, rotary_scale(self.config))
        real = None if document_ids is None else document_ids != PADDING
        learning = self.training and torch.is_grad_enabled()
        x = self.embed_tokens(tokens)
        stats = []
        for index, layer in enumerate(self.layers):
            cached = cache.layers[index] if cache else None
            arguments = (x, rotation, mask, real, cached, learning and self.track_max_logits)
            if learning and self.recompute != "none":
                context = checkpoint_context(self.recompute)
                x, layer_stats = checkpoint(layer, *arguments, use_reentrant=False, context_fn=context)
            else:
                x, layer_stats = layer(*arguments)
            stats.append(layer_stats)
        if learning:
            self._record(stats)
        return self.norm(x), stats

    @staticmethod
    def _positions(tokens: Tensor, document_ids: Tensor | None, cache: LatentCache | None) -> Tensor:
        if document_ids is not None:
            return restart_positions(document_ids)
        start = cache.length if cache else 0
        return torch.arange(start, start + tokens.shape[1], device=tokens.device).expand_as(tokens)

    @torch.no_grad()
    def _record(self, stats: list[LayerStats]) -> None:
        if self.track_max_logits:
            now = torch.stack([layer.max_logits for layer in stats if layer.max_logits is not None])
            self.max_logits.copy_(torch.maximum(self.max_logits, now))
        counts = [layer.load.counts for layer in stats if layer.load is not None]
        if counts:
            self.expert_counts += torch.stack(counts)

    def _with_router_losses(self, output: Output, stats: list[LayerStats]) -> Output:
        loads = [layer.load for layer in stats if layer.load is not None]
        if output.loss is None or not loads:
            return output
        balance = torch.stack([load.balance_loss for load in loads])
        z_loss = torch.stack([load.z_loss for load in loads])
        output.loss = output.loss + self.balance_loss_coef * balance.sum() + self.config.z_loss_coef * z_loss.sum()
        output.balance_loss, output.z_loss = balance.detach().mean(), z_loss.detach().mean()
        return output

    @torch.no_grad()
    def update_selection_bias(self, rate: float | None = None) -> Tensor:
        """Raise the bias of experts that got less than the mean, lower the others', and forget the counts.

        Call once an optimizer step (arXiv 2408.15664, algorithm 1). Returns the counts (MoE layers, experts) it used,
        summed over all ranks when training is distributed.
        """
        counts = self.expert_counts.clone()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(counts)
        load = counts.float()
        step = (load.mean(dim=1, keepdim=True) - load).sign()
        gates = [module for module in self.modules() if isinstance(module, Gate)]
        for gate, change in zip(gates, step, strict=True):
            rate_now = self.config.bias_update_rate if rate is None else rate
            # Centred, so that the biases cannot drift together: only their differences select.
            gate.e_score_correction_bias += rate_now * (change - change.mean())
        self.expert_counts.zero_()
        return counts

    def compile_layers(self) -> None:
        """Compile each layer in place; worth its minutes on a GPU in bf16, where grouped products compile too."""
        for layer in self.layers:
            layer.compile()

"""Fine-grained experts behind a sigmoid gate (DeepSeek-V3, arXiv 2412.19437, section 2.1.2; K2 report, section 2.3)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from tokenmill.training.model.config import ModelConfig
from tokenmill.training.model.experts import Experts
from tokenmill.training.model.mlp import SwiGLU
from torch import Tensor, nn


class Routing(NamedTuple):
    """What the gate decided for (tokens, k) slots."""

    experts: Tensor
    """Selected experts, int64, (tokens, k)."""
    weights: Tensor
    """Their weights, fp32, (tokens, k)."""
    scores: Tensor
    """Sigmoid scores of all experts, fp32, (tokens, experts)."""
    logits: Tensor
    """Gate logits, fp32, (tokens, experts)."""


class Load(NamedTuple):
    """What one MoE layer tells the training loop."""

    counts: Tensor
    """Tokens sent to each expert, int64, (experts,)."""
    balance_loss: Tensor
    """N sum f_i P_i, 1 at perfect balance; scalar with gradient."""
    z_loss: Tensor
    """Mean squared logsumexp of the gate logits (ST-MoE, arXiv 2202.08906); scalar with gradient."""


class Gate(nn.Module):
    """Scores by sigmoid, selects by score plus bias, weighs by score alone."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.empty(config.n_routed_experts, config.hidden_size))
        self.e_score_correction_bias: Tensor
        self.register_buffer("e_score_correction_bias", torch.zeros(config.n_routed_experts))

    def forward(self, x: Tensor) -> Routing:
        """x: (tokens, hidden). Always in fp32: near ties between experts must not turn on rounding."""
        config = self.config
        with torch.autocast(x.device.type, enabled=False):
            logits = F.linear(x.float(), self.weight.float())
            scores = logits.sigmoid()
            choice = scores.detach() + self.e_score_correction_bias.float()
            if config.n_group > 1:
                choice = self._within_best_groups(choice)
            experts = choice.topk(config.num_experts_per_tok, dim=-1, sorted=False).indices
            weights = scores.gather(1, experts)
            if config.norm_topk_prob:
                weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
            return Routing(experts, weights * config.routed_scaling_factor, scores, logits)

    def _within_best_groups(self, choice: Tensor) -> Tensor:
        """A group's worth is the sum of its two best experts; experts of other groups become unselectable."""
        grouped = choice.unflatten(1, (self.config.n_group, -1))
        worth = grouped.topk(2, dim=-1).values.sum(dim=-1)
        best = worth.topk(self.config.topk_group, dim=-1, sorted=False).indices
        open_groups = torch.zeros_like(worth, dtype=torch.bool).scatter_(1, best, True)
        return grouped.masked_fill(~open_groups.unsqueeze(-1), -torch.inf).flatten(1)


class MixtureOfExperts(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate = Gate(config)
        self.experts = Experts(config.n_routed_experts, config.hidden_size, config.moe_intermediate_size)
        self.shared_experts = (
            SwiGLU(config.hidden_size, config.n_shared_experts * config.moe_intermediate_size)
            if config.n_shared_experts
            else None
        )

    def forward(self, x: Tensor, real: Tensor | None = None) -> tuple[Tensor, Load]:
        """x: (batch, time, hidden); `real` (batch, time) is False at padding, which no statistic counts."""
        tokens = x.flatten(0, -2)
        routing = self.gate(tokens)
        out = self.experts(tokens, routing.experts, routing.weights).view_as(x)
        if self.shared_experts is not None:
            out = out + self.shared_experts(x)
        return out, load(routing, None if real is None else real.flatten())


def load(routing: Routing, real: Tensor | None = None) -> Load:
    """Balance of one layer's routing: f_i the share of slots expert i got, P_i its mean share of the scores."""
    experts = routing.scores.shape[1]
    share = routing.scores / routing.scores.sum(dim=-1, keepdim=True)
    log_z = routing.logits.logsumexp(dim=-1).square()
    if real is None:
        slots = torch.ones_like(routing.experts)
        mean_share, z_loss = share.mean(dim=0), log_z.mean()
    else:
        weight = real.to(share.dtype)
        weight = weight / weight.sum().clamp(min=1)
        slots = real.long().unsqueeze(1).expand_as(routing.experts)
        mean_share, z_loss = (weight.unsqueeze(1) * share).sum(dim=0), (weight * log_z).sum()
    counts = torch.zeros(experts, dtype=torch.int64, device=share.device)
    counts.scatter_add_(0, routing.experts.flatten(), slots.flatten())
    fraction = counts / counts.sum().clamp(min=1)
    return Load(counts, experts * (fraction * mean_share).sum(), z_loss)

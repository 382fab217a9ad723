"""The compressed cache of latent attention: rank + rope numbers a token and layer, whatever the number of heads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tokenmill.training.model.config import ModelConfig
from torch import Tensor


@dataclass
class LayerCache:
    """One layer's view of a `LatentCache`."""

    latent: Tensor
    """(batch, capacity, kv_lora_rank)"""
    rotary: Tensor
    """(batch, capacity, qk_rope_head_dim), already rotated."""
    length: int = 0

    def append(self, latent: Tensor, rotary: Tensor) -> tuple[Tensor, Tensor]:
        """Write new tokens behind the old ones; returns everything so far. Raises `ValueError` when full."""
        end = self.length + latent.shape[1]
        if end > self.latent.shape[1]:
            raise ValueError(f"cache holds {self.latent.shape[1]} tokens, {end} were to be kept")
        self.latent[:, self.length : end] = latent
        self.rotary[:, self.length : end] = rotary
        self.length = end
        return self.latent[:, :end], self.rotary[:, :end]


class LatentCache:
    """Room for `capacity` tokens in each of `batch` rows, padding marked as not valid."""

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        capacity: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        def room(width: int) -> Tensor:
            return torch.zeros(batch, capacity, width, device=device, dtype=dtype)

        self.layers = [
            LayerCache(room(config.kv_lora_rank), room(config.qk_rope_head_dim))
            for _ in range(config.num_hidden_layers)
        ]
        self.valid = torch.ones(batch, capacity, dtype=torch.bool, device=device)

    @property
    def length(self) -> int:
        return self.layers[0].length

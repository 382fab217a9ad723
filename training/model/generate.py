"""Sampling from the model with its compressed cache, optionally under a grammar."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from tokenmill.training.model.cache import LatentCache
from tokenmill.training.model.model import Model
from torch import Tensor

Constraint = Callable[[int, Sequence[int]], Tensor | None]
"""(row, tokens generated so far) -> booleans (vocabulary,), True where a token may come next, or None for any."""


@torch.no_grad()
def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    top_p: float = 1.0,
    stop: Collection[int] = (),
    constrain: Constraint | None = None,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """The new tokens of each prompt, a stop token included; greedy at temperature 0.

    Raises `ValueError` for an empty prompt, or when a constraint leaves no token.
    """
    if not prompts or not all(prompts):
        raise ValueError("prompts: each needs at least one token")
    if temperature < 0 or not 0 < top_p <= 1:
        raise ValueError("temperature must be 0 or more, top_p in (0, 1]")
    if max_new_tokens < 1:
        return [[] for _ in prompts]
    was_training = model.training
    model.eval()
    try:
        return _generate(model, prompts, max_new_tokens, temperature, top_p, frozenset(stop), constrain, generator)
    finally:
        model.train(was_training)


def _generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    temperature: float,
    top_p: float,
    stop: Collection[int],
    constrain: Constraint | None,
    generator: torch.Generator | None,
) -> list[list[int]]:
    weight = model.embed_tokens.weight
    device, longest = weight.device, max(map(len, prompts))
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    # Prompts end together: padding goes in front, where no later query sees it.
    padded = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    step = torch.tensor(padded, device=device)
    index = torch.arange(longest, device=device)
    offset = longest - lengths[:, None]
    dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else weight.dtype
    cache = LatentCache(model.config, len(prompts), longest + max_new_tokens, device=device, dtype=dtype)
    cache.valid[:, :longest] = index >= offset
    positions = (index - offset).clamp(min=0)

    made: list[list[int]] = [[] for _ in prompts]
    done = [False] * len(prompts)
    for _ in range(max_new_tokens):
        x, _ = model.hidden(step, positions, cache=cache)
        logits = model.lm_head(x[:, -1]).float()
        if constrain is not None:
            for row in (row for row in range(len(prompts)) if not done[row]):
                _apply(constrain(row, made[row]), logits[row])
        chosen = sample(logits, temperature, top_p, generator)
        for row, token in enumerate(chosen.tolist()):
            if not done[row]:
                made[row].append(token)
                done[row] = token in stop
        if all(done):
            break
        step, positions = chosen[:, None], positions[:, -1:] + 1
    return made


def _apply(allowed: Tensor | None, logits: Tensor) -> None:
    if allowed is None:
        return
    if not allowed.any():
        raise ValueError("the constraint leaves no token to choose")
    logits.masked_fill_(~allowed.to(logits.device), -torch.inf)


def sample(logits: Tensor, temperature: float, top_p: float, generator: torch.Generator | None = None) -> Tensor:
    """One token of each row of logits (batch, vocabulary): greedy at temperature 0, else from the nucleus `top_p`."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    if top_p < 1:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        # A token stays while those before it have not yet reached top_p; the first always stays.
        outside = ordered.cumsum(dim=-1) - ordered >= top_p
        probabilities = probabilities.masked_fill(torch.zeros_like(outside).scatter(1, order, outside), 0)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)

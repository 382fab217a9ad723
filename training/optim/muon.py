"""Muon's update over many parameters at once, matrices of one shape in one batch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from training.model.sharded import full, local, rows_are_whole, shard_like
from training.optim.newton_schulz import orthogonalize
from training.optim.split import as_matrices

BATCH_ELEMENTS = 1 << 26
"""Numbers in one batch of matrices; bounds the scratch memory to a few hundred megabytes in bf16."""


@dataclass(frozen=True)
class MuonSettings:
    lr: float
    weight_decay: float
    momentum: float
    nesterov: bool
    steps: int
    dtype: torch.dtype | None


def muon_update(
    names: Sequence[str],
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    buffers: Sequence[Tensor],
    settings: MuonSettings,
) -> None:
    """One step in place: M = mu M + G; W = W - lr (0.2 sqrt(max(rows, columns)) NS(M) + weight decay W).

    (K2 report, algorithm 1, lines 3 to 6; `nesterov` orthogonalises G + mu M instead.) Parameters, gradients and
    momentum buffers may be DTensors: whole matrices are updated where they lie; a matrix cut across ranks is
    gathered, and the ranks share the orthogonalising between them.
    """
    torch._foreach_mul_(buffers, settings.momentum)
    torch._foreach_add_(buffers, gradients)
    directions: Sequence[Tensor] = buffers
    if settings.nesterov:
        directions = torch._foreach_add(gradients, buffers, alpha=settings.momentum)
    torch._foreach_mul_(parameters, 1 - settings.lr * settings.weight_decay)
    here: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = defaultdict(list)
    cut: list[int] = []
    for index, (name, parameter, direction) in enumerate(zip(names, parameters, directions, strict=True)):
        if isinstance(parameter, DTensor) and not (parameter.ndim == 3 and rows_are_whole(parameter)):
            cut.append(index)
            continue
        target, update = as_matrices(name, local(parameter)), as_matrices(name, local(direction))
        if target.numel():
            here[min(target.shape[1:]), max(target.shape[1:])].append((target, update))
    for pairs in here.values():
        _update_batch(pairs, settings)
    for index in cut:
        _update_cut(names[index], parameters[index], directions[index], settings)


def rms_scale(rows: int, columns: int) -> float:
    """Makes an update's root mean square about AdamW's, so that both share one learning rate (report, section 2.1)."""
    return 0.2 * math.sqrt(max(rows, columns))


def _update_batch(pairs: list[tuple[Tensor, Tensor]], settings: MuonSettings) -> None:
    """Orthogonalise all matrices of one shape (up to transposition) together, in batches of bounded size."""
    rows, columns = pairs[0][0].shape[1:]
    step = -settings.lr * rms_scale(rows, columns)
    limit = max(1, BATCH_ELEMENTS // (rows * columns))
    pieces = [piece for pair in pairs for piece in zip(*(t.split(limit) for t in pair), strict=True)]
    while pieces:
        batch, count = [], 0
        while pieces and count + len(pieces[0][0]) <= limit:
            batch.append(pieces.pop(0))
            count += len(batch[-1][0])
        wide = [update if update.shape[1] <= update.shape[2] else update.mT for _, update in batch]
        # Converted before they are joined: half the bytes to move.
        joined = torch.cat([update.to(settings.dtype or update.dtype) for update in wide])
        parts = orthogonalize(joined, settings.steps, settings.dtype).split([len(update) for update in wide])
        for (target, update), part in zip(batch, parts, strict=True):
            target.add_(part if update.shape[1] <= update.shape[2] else part.mT, alpha=step)


def _update_cut(name: str, parameter: DTensor, direction: DTensor, settings: MuonSettings) -> None:
    whole = full(direction)
    matrices = as_matrices(name, whole)
    group = parameter.device_mesh.get_group(0)
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if len(matrices) < size:
        result = orthogonalize(matrices, settings.steps, settings.dtype)
    else:
        share = -(-len(matrices) // size)
        padded = torch.cat([matrices, matrices.new_zeros(share * size - len(matrices), *matrices.shape[1:])])
        mine = orthogonalize(padded[rank * share : (rank + 1) * share], settings.steps, settings.dtype).contiguous()
        result = mine.new_empty(padded.shape)
        dist.all_gather_into_tensor(result, mine, group=group)
        result = result[: len(matrices)]
    scaled = result.to(whole.dtype) * (-settings.lr * rms_scale(*matrices.shape[1:]))
    parameter.add_(shard_like(parameter, scaled.reshape(whole.shape)))

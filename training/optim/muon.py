"""Muon's update over many parameters at once, matrices of one shape in one batch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.distributed as dist
from tokenmill.training.model.sharded import full, local, rows_are_whole, shard_like
from tokenmill.training.optim.newton_schulz import CACHE_ELEMENTS, orthogonalize
from tokenmill.training.optim.split import as_matrices
from torch import Tensor
from torch.distributed.tensor import DTensor

BATCH_ELEMENTS = 1 << 26
"""Numbers in one batch of matrices on an accelerator; bounds the scratch memory to a few hundred megabytes in bf16."""


@dataclass(frozen=True)
class MuonSettings:
    lr: float
    weight_decay: float
    momentum: float
    nesterov: bool
    steps: int
    dtype: torch.dtype | None


class Matrices(NamedTuple):
    """Stacks of matrices (count, rows, columns): parts of a parameter, of its gradient and of its momentum."""

    target: Tensor
    gradient: Tensor
    buffer: Tensor


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
    here: dict[tuple[int, int], list[Matrices]] = defaultdict(list)
    for name, parameter, gradient, buffer in zip(names, parameters, gradients, buffers, strict=True):
        if isinstance(parameter, DTensor) and not (parameter.ndim == 3 and rows_are_whole(parameter)):
            (direction,) = _directions([gradient], [buffer], settings)
            parameter.mul_(1 - settings.lr * settings.weight_decay)
            _update_cut(name, parameter, direction, settings)
            continue
        matrices = Matrices(*(as_matrices(name, local(tensor)) for tensor in (parameter, gradient, buffer)))
        if matrices.target.numel():
            here[min(matrices.target.shape[1:]), max(matrices.target.shape[1:])].append(matrices)
    for alike in here.values():
        for batch in _batches(alike):
            _update_batch(batch, settings)


def rms_scale(rows: int, columns: int) -> float:
    """Makes an update's root mean square about AdamW's, so that both share one learning rate (report, section 2.1)."""
    return 0.2 * math.sqrt(max(rows, columns))


def _batches(alike: list[Matrices]) -> Iterator[list[Matrices]]:
    """Matrices of one shape (up to transposition) in batches of bounded size; on a CPU so small that gradient, momentum
    and weights of a batch pass through the cache once for all that is done to them."""
    target = alike[0].target
    elements = CACHE_ELEMENTS if target.device.type == "cpu" else BATCH_ELEMENTS
    limit = max(1, elements // target[0].numel())
    batch: list[Matrices] = []
    count = 0
    for whole in alike:
        for piece in map(Matrices, *(tensor.split(limit) for tensor in whole)):
            if count + len(piece.target) > limit:
                yield batch
                batch, count = [], 0
            batch.append(piece)
            count += len(piece.target)
    yield batch


def _directions(gradients: list[Tensor], buffers: list[Tensor], settings: MuonSettings) -> Sequence[Tensor]:
    """What is orthogonalised, once the momentum has taken in the gradients."""
    torch._foreach_mul_(buffers, settings.momentum)
    torch._foreach_add_(buffers, gradients)
    if settings.nesterov:
        return torch._foreach_add(gradients, buffers, alpha=settings.momentum)
    return buffers


def _update_batch(batch: Sequence[Matrices], settings: MuonSettings) -> None:
    targets, gradients, buffers = (list(tensors) for tensors in zip(*batch, strict=True))
    directions = _directions(gradients, buffers, settings)
    wide = [update if update.shape[1] <= update.shape[2] else update.mT for update in directions]
    # Converted before they are joined: half the bytes to move.
    joined = torch.cat([update.to(settings.dtype or update.dtype) for update in wide])
    parts = orthogonalize(joined, settings.steps, settings.dtype).split([len(update) for update in wide])
    torch._foreach_mul_(targets, 1 - settings.lr * settings.weight_decay)
    step = -settings.lr * rms_scale(*targets[0].shape[1:])
    for target, part in zip(targets, parts, strict=True):
        target.add_(part if target.shape[1] <= target.shape[2] else part.mT, alpha=step)


def _update_cut(name: str, parameter: DTensor, direction: Tensor, settings: MuonSettings) -> None:
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

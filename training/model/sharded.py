"""Plain tensors and FSDP2's DTensors behind one face, for optimizer and checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard


def full(tensor: Tensor) -> Tensor:
    """All of it on every rank (a collective call for a DTensor)."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local(tensor: Tensor) -> Tensor:
    """This rank's part, sharing storage."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def shard_like(reference: Tensor, whole: Tensor) -> Tensor:
    """Cut `whole`, equal on every rank, as `reference` is cut; no communication."""
    if not isinstance(reference, DTensor):
        return whole.to(reference.device)
    mesh = reference.device_mesh
    replicated = DTensor.from_local(whole.to(reference.device), mesh, [Replicate()] * mesh.ndim, run_check=False)
    return replicated.redistribute(mesh, reference.placements)


def rows_are_whole(tensor: Tensor) -> bool:
    """True where every rank holds whole slices along dimension 0: plain tensors, and those cut only there."""
    if not isinstance(tensor, DTensor):
        return True
    return all(isinstance(p, Replicate) or (isinstance(p, Shard) and p.dim == 0) for p in tensor.placements)


def world_maximum(tensor: Tensor) -> Tensor:
    """Largest over all ranks, in place; itself when training is not distributed."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(tensor, op=torch.distributed.ReduceOp.MAX)
    return tensor

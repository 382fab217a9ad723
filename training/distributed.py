"""Data parallel training over several processes: weights, gradients and optimizer state sharded by torch's FSDP2.

Start with `torchrun --nproc-per-node N -m tokenmill.training.pretrain ...`; alone, everything here does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from tokenmill.training.model import Model
from torch import Tensor


@dataclass(frozen=True)
class Context:
    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """True in the one process that writes files."""
        return self.rank == 0

    def barrier(self) -> None:
        if self.world > 1:
            dist.barrier()

    def total(self, tensor: Tensor) -> Tensor:
        """Summed over all processes, in place."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor


@contextmanager
def start(device: str | None = None) -> Iterator[Context]:
    """Join the group that torchrun set up, if it did. `device` is cpu or cuda, by default what there is."""
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Context(torch.device(kind))
        return
    place = torch.device(kind, int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    try:
        yield Context(place, dist.get_rank(), world)
    finally:
        dist.destroy_process_group()


def shard(model: Model, context: Context) -> Model:
    """Cut every parameter over the processes, in place; call before the optimizer is made.

    A layer's weights are gathered once a step and kept until its backward pass (ZeRO-2 in the usual count: optimizer
    state and gradients stay cut at all times).
    """
    if context.world == 1:
        return model
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(context.device.type, (context.world,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    return model


def synchronize_gradients(model: Model, context: Context, wanted: bool) -> None:
    """Whether the next backward pass ends in a reduction; accumulated micro-batches need it only once."""
    if context.world > 1:
        from torch.distributed.fsdp import FSDPModule

        assert isinstance(model, FSDPModule)  # since `shard`
        model.set_requires_gradient_sync(wanted)

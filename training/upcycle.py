"""Make a mixture of experts out of a dense checkpoint. Run as
`python -m tokenmill.training.upcycle DENSE --output CKPT --slices 8 --copies 8`.

After Kanana-MoE: the MLP's inner width is cut into slices, each slice copied, so that 9216 becomes 8 x 8 experts of
1152, of which a token uses 8. The gate starts with equal rows for all slices of one copy ("virtual groups", He et
al., arXiv 2410.07524): the experts tied for the first place are then exactly one whole MLP, each with weight 1, and the
new model computes what the old one did. Copies part ways as they see different tokens.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenmill.training.checkpoint import CheckpointError, load_model, save_checkpoint
from tokenmill.training.model import Model, ModelConfig
from tokenmill.training.model.mlp import SwiGLU
from tokenmill.training.model.moe import MixtureOfExperts
from torch import Tensor


def upcycled_config(
    dense: ModelConfig, slices: int, copies: int, *, keep_dense: int = 0, shared: int = 0
) -> ModelConfig:
    """The new model's shape. Raises `ValueError` where the cut is impossible."""
    if dense.is_moe:
        raise ValueError("the model to upcycle has experts already; give a dense one")
    if slices < 1 or copies < 1:
        raise ValueError("slices and copies: give at least 1 each")
    if dense.intermediate_size % slices:
        raise ValueError(f"slices: {slices} does not divide the MLP's inner width ({dense.intermediate_size})")
    if not 0 <= keep_dense < dense.num_hidden_layers:
        raise ValueError(f"keep_dense: give 0 to {dense.num_hidden_layers - 1}")
    return dense.replace(
        first_k_dense_replace=keep_dense,
        n_routed_experts=slices * copies,
        num_experts_per_tok=slices,
        n_shared_experts=shared,
        moe_intermediate_size=dense.intermediate_size // slices,
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
        # Normalised weights of `slices` equal scores are 1 / slices each; an MLP's slices add up with weight 1.
        routed_scaling_factor=float(slices),
    )


@torch.no_grad()
def upcycle(dense: Model, slices: int, copies: int, *, keep_dense: int = 0, shared: int = 0) -> Model:
    """A new model on the same device whose output equals `dense`'s.

    `keep_dense` leading layers stay dense; `shared` shared experts start silent (zero way out). The gate is drawn from
    torch's global generator. Raises `ValueError` where the cut is impossible.
    """
    config = upcycled_config(dense.config, slices, copies, keep_dense=keep_dense, shared=shared)
    weight = dense.embed_tokens.weight
    model = Model(config).to(weight.device, weight.dtype)
    same = {name: tensor for name, tensor in dense.state_dict().items() if ".mlp." not in name}
    model.load_state_dict(same, strict=False)
    for old, new in zip(dense.blocks(), model.blocks(), strict=True):
        if isinstance(new.mlp, SwiGLU):
            new.mlp.load_state_dict(old.mlp.state_dict())
        elif isinstance(old.mlp, SwiGLU):
            _fill(new.mlp, old.mlp, slices, copies)
    model.reset_buffers()
    return model


def _fill(moe: MixtureOfExperts, mlp: SwiGLU, slices: int, copies: int) -> None:
    """Expert number copy * slices + slice holds that slice; gate rows are equal within a copy."""
    gate, up = mlp.gate_up_proj.weight.chunk(2)
    cut = torch.cat([gate.unflatten(0, (slices, -1)), up.unflatten(0, (slices, -1))], dim=1)
    down: Tensor = mlp.down_proj.weight.unflatten(1, (slices, -1)).movedim(1, 0)
    moe.experts.gate_up_proj.copy_(cut.repeat(copies, 1, 1))
    moe.experts.down_proj.copy_(down.repeat(copies, 1, 1))
    moe.gate.weight.copy_(moe.gate.weight[::slices].repeat_interleave(slices, dim=0))
    if moe.shared_experts is not None:
        moe.shared_experts.down_proj.weight.zero_()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.training.upcycle", description="Cut a dense model into experts."
    )
    parser.add_argument("dense", type=Path, help="checkpoint without experts")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--slices", type=int, default=8, help="parts of each MLP, and experts a token uses")
    parser.add_argument("--copies", type=int, default=8, help="copies of each part")
    parser.add_argument("--keep-dense", type=int, default=0, help="leading layers left as they are")
    parser.add_argument("--shared", type=int, default=0, help="shared experts to add, silent at first")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args(argv)
    torch.manual_seed(flags.seed)
    try:
        dense = load_model(flags.dense)
        model = upcycle(dense, flags.slices, flags.copies, keep_dense=flags.keep_dense, shared=flags.shared)
    except (CheckpointError, ValueError) as error:
        parser.error(str(error))
    save_checkpoint(flags.output, model)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

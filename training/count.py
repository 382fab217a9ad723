"""Parameters of a model, all and those one token uses. Run as `python -m tokenmill.training.count PRESET`.

Counted on the meta device, from the real modules, so nothing is allocated. Total: every weight, selection biases
included. Active: all of these but the routed experts that a token is not sent to; embedding and head count in full.
DeepSeek-V3, published as 671B / 37B, counts so to 671.0B / 37.6B; K2, published as 1.04T / 32.6B, to 1.026T / 32.9B
from its published dimensions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenmill.training.model import PRESETS, Model, ModelConfig, preset
from tokenmill.training.model.experts import Experts


@dataclass(frozen=True)
class Count:
    total: int
    active: int
    """For one token."""


def count_parameters(config: ModelConfig) -> Count:
    with torch.device("meta"):
        model = Model(config)
    # The state dictionary rather than parameters(): selection biases are weights that are learnt, if not by gradient.
    # By identity, so that a tied table counts once.
    tensors = {id(tensor): tensor for tensor in model.state_dict(keep_vars=True).values()}
    total = sum(tensor.numel() for tensor in tensors.values())
    routed = sum(p.numel() for m in model.modules() if isinstance(m, Experts) for p in m.parameters())
    idle = routed - routed * config.num_experts_per_tok // max(1, config.n_routed_experts)
    return Count(total, total - idle)


def training_flops_per_token(config: ModelConfig, context: int) -> float:
    """Floating-point operations of forward and backward: 6 per active weight, and causal attention's products.

    The input embedding is read, not multiplied, so an untied table is left out; recomputation is not counted
    (the convention behind MFU: PaLM, arXiv 2204.02311, appendix B).
    """
    table = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    attention = 6 * layers * heads * (config.qk_head_dim + config.v_head_dim) * (context / 2)
    return 6 * (count_parameters(config).active - table) + attention


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.training.count", description="Count a model's parameters."
    )
    parser.add_argument("model", metavar="PRESET|CONFIG.json", help=f"{', '.join(PRESETS)}, or a config.json")
    wanted = parser.parse_args(argv).model
    try:
        if wanted.endswith(".json"):
            text = json.loads(Path(wanted).read_text())
            config = ModelConfig.from_hf(text) if "model_type" in text else ModelConfig.from_json(json.dumps(text))
        else:
            config = preset(wanted)
    except (OSError, ValueError, TypeError) as error:
        parser.error(str(error))
    print(json.dumps(asdict(count_parameters(config))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

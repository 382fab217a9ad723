"""Named configurations: two published models, built on the meta device only, and three to train."""

from __future__ import annotations

from tokenmill.training.model.config import ModelConfig, Yarn

DEEPSEEK_V3 = ModelConfig(
    vocab_size=129_280,
    hidden_size=7168,
    num_hidden_layers=61,
    num_attention_heads=128,
    intermediate_size=18_432,
    kv_lora_rank=512,
    q_lora_rank=1536,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    first_k_dense_replace=3,
    n_routed_experts=256,
    num_experts_per_tok=8,
    n_shared_experts=1,
    moe_intermediate_size=2048,
    n_group=8,
    topk_group=4,
    routed_scaling_factor=2.5,
    rope_theta=10_000.0,
    yarn=Yarn(factor=40),
    max_position_embeddings=163_840,
    balance_loss_coef=1e-4,
)
"""DeepSeek-V3 (arXiv 2412.19437): 671B parameters, 37B active."""

KIMI_K2 = DEEPSEEK_V3.replace(
    vocab_size=163_840,
    num_attention_heads=64,
    first_k_dense_replace=1,
    n_routed_experts=384,
    n_group=1,
    topk_group=1,
    routed_scaling_factor=2.827,
    rope_theta=50_000.0,
    yarn=Yarn(factor=32, beta_fast=1.0, beta_slow=1.0),
    max_position_embeddings=131_072,
)
"""Kimi K2 (report, table 2): more experts, half the heads, no groups; 1.04T parameters, 32.6B active."""

TINY = ModelConfig(
    vocab_size=512,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=160,
    kv_lora_rank=32,
    q_lora_rank=48,
    qk_nope_head_dim=16,
    qk_rope_head_dim=8,
    v_head_dim=16,
    first_k_dense_replace=1,
    n_routed_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    max_position_embeddings=512,
    routed_scaling_factor=1.0,
    balance_loss_coef=1e-3,
    z_loss_coef=1e-4,
)
"""For tests: a step takes milliseconds on a CPU."""

SMALL = TINY.replace(
    vocab_size=8192,
    hidden_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=640,
    kv_lora_rank=128,
    q_lora_rank=192,
    qk_nope_head_dim=64,
    qk_rope_head_dim=32,
    v_head_dim=64,
    n_routed_experts=32,
    num_experts_per_tok=4,
    moe_intermediate_size=128,
    max_position_embeddings=2048,
)
"""For a laptop CPU: learns small corpora in minutes."""

BASE = TINY.replace(
    vocab_size=32_768,
    hidden_size=1024,
    num_hidden_layers=16,
    num_attention_heads=8,
    intermediate_size=4096,
    kv_lora_rank=256,
    q_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    n_routed_experts=64,
    num_experts_per_tok=8,
    moe_intermediate_size=384,
    max_position_embeddings=4096,
    rope_theta=50_000.0,
    routed_scaling_factor=2.5,
)
"""For one GPU: about 1.3 billion parameters, 0.3 active."""

PRESETS: dict[str, ModelConfig] = {
    "tiny": TINY,
    "small": SMALL,
    "base": BASE,
    "deepseek-v3": DEEPSEEK_V3,
    "kimi-k2": KIMI_K2,
}


def preset(name: str) -> ModelConfig:
    """The configuration called `name` (`_` and `-` alike). Raises `ValueError` listing the names."""
    aliases = {"k2": "kimi-k2", "kimi_k2": "kimi-k2"}
    key = aliases.get(name, name.replace("_", "-"))
    if key not in PRESETS:
        raise ValueError(f"no preset {name!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[key]

"""The shape of a model, under the field's own names (those of DeepSeek-V3's published configuration)."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

HF_ARCHITECTURE = "DeepseekV3ForCausalLM"
_RENAMED = {
    "balance_loss_coef": "router_aux_loss_coef",
    "z_loss_coef": "router_z_loss_coef",
    "bias_update_rate": "router_bias_update_rate",
}
"""Our name -> the key written to `config.json` for what DeepSeek-V3's own configuration does not know."""


@dataclass(frozen=True)
class Yarn:
    """Context extension by YaRN (arXiv 2309.00071; K2 report, section 2.5: 32k to 128k).

    `mscale_all_dim` scales the attention logits, `mscale / mscale_all_dim` the rotary part, as in DeepSeek-V3.
    """

    factor: float
    original_max_position_embeddings: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    mscale_all_dim: float = 1.0

    def __post_init__(self) -> None:
        if self.factor < 1:
            raise ValueError(f"yarn.factor: {self.factor} would shorten the context; give 1 or more")
        if self.original_max_position_embeddings < 1:
            raise ValueError("yarn.original_max_position_embeddings: give the pre-training context, at least 1")
        if self.beta_fast < self.beta_slow or self.beta_slow <= 0:
            raise ValueError("yarn.beta_fast must be at least yarn.beta_slow, both above 0")
        if self.mscale < 0 or self.mscale_all_dim < 0:
            raise ValueError("yarn.mscale and yarn.mscale_all_dim: give 0 (none) or more")

    def to_hf(self) -> dict[str, Any]:
        return {"type": "yarn", "rope_type": "yarn", **dataclasses.asdict(self)}


@dataclass(frozen=True)
class ModelConfig:
    """Multi-head latent attention over fine-grained experts (K2 report, section 2.3 and table 2).

    Raises `ValueError` with one line that names the field and the fix.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    """Width of the MLP in the dense layers."""
    kv_lora_rank: int
    q_lora_rank: int | None
    """Rank of the query's latent, or None for one full projection."""
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int

    first_k_dense_replace: int = 0
    """Number of leading dense layers; equal to `num_hidden_layers` for a dense model."""
    n_routed_experts: int = 0
    num_experts_per_tok: int = 0
    n_shared_experts: int = 1
    moe_intermediate_size: int = 0
    n_group: int = 1
    """Experts are cut in this many groups, and a token selects within its `topk_group` best groups only."""
    topk_group: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.0

    rope_theta: float = 10_000.0
    yarn: Yarn | None = None
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-6
    initializer_range: float = 0.02
    tie_word_embeddings: bool = False
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    balance_loss_coef: float = 0.0
    """Weight of the load-balancing loss; 0 leaves balance to the selection bias, as DeepSeek-V3 does."""
    z_loss_coef: float = 0.0
    bias_update_rate: float = 1e-3
    """Step of the auxiliary-loss-free balancing of the selection bias (arXiv 2408.15664)."""

    def __post_init__(self) -> None:
        self._check_sizes()
        if self.is_moe:
            self._check_experts()

    def _check_sizes(self) -> None:
        positive = (
            "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size kv_lora_rank "
            "qk_nope_head_dim qk_rope_head_dim v_head_dim max_position_embeddings"
        )
        for name in positive.split():
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not a size; give at least 1")
        if self.q_lora_rank is not None and self.q_lora_rank < 1:
            raise ValueError("q_lora_rank: give at least 1, or None for a full query projection")
        if self.qk_rope_head_dim % 2:
            raise ValueError(f"qk_rope_head_dim: {self.qk_rope_head_dim} is odd; rotary dimensions come in pairs")
        if not 0 <= self.first_k_dense_replace <= self.num_hidden_layers:
            raise ValueError(f"first_k_dense_replace: give 0 to num_hidden_layers ({self.num_hidden_layers})")
        for name in ("rope_theta", "rms_norm_eps", "initializer_range", "routed_scaling_factor"):
            if not (value := getattr(self, name)) > 0 or not math.isfinite(value):
                raise ValueError(f"{name}: give a finite number above 0, not {value}")
        for name in ("balance_loss_coef", "z_loss_coef", "bias_update_rate"):
            if not (value := getattr(self, name)) >= 0 or not math.isfinite(value):
                raise ValueError(f"{name}: give a finite number, 0 or more, not {value}")

    def _check_experts(self) -> None:
        experts, groups = self.n_routed_experts, self.n_group
        if experts < 1 or self.moe_intermediate_size < 1:
            raise ValueError(
                "n_routed_experts and moe_intermediate_size: layers after first_k_dense_replace need both; "
                "for a dense model set first_k_dense_replace to num_hidden_layers"
            )
        if self.n_shared_experts < 0:
            raise ValueError("n_shared_experts: give 0 or more")
        if groups < 1 or experts % groups:
            raise ValueError(f"n_group: {groups} does not divide n_routed_experts ({experts})")
        if not 1 <= self.topk_group <= groups:
            raise ValueError(f"topk_group: give 1 to n_group ({groups})")
        if groups > 1 and experts // groups < 2:
            raise ValueError("n_group: a group is scored by its two best experts, so it needs at least two")
        if not 1 <= self.num_experts_per_tok <= self.topk_group * (experts // groups):
            most = self.topk_group * (experts // groups)
            raise ValueError(f"num_experts_per_tok: give 1 to {most}, the experts in topk_group groups")

    @property
    def is_moe(self) -> bool:
        return self.first_k_dense_replace < self.num_hidden_layers

    @property
    def num_moe_layers(self) -> int:
        return self.num_hidden_layers - self.first_k_dense_replace

    @property
    def qk_head_dim(self) -> int:
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    def replace(self, **changes: Any) -> ModelConfig:
        return dataclasses.replace(self, **changes)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> ModelConfig:
        fields = json.loads(text)
        unknown = set(fields) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(f"unknown model settings: {', '.join(sorted(unknown))}")
        if fields.get("yarn") is not None:
            fields["yarn"] = Yarn(**fields["yarn"])
        return cls(**fields)

    def to_hf(self) -> dict[str, Any]:
        """As transformers' `DeepseekV3Config` reads it, in the spelling that releases 4 and 5 (and vLLM) share."""
        fields = dataclasses.asdict(self)
        del fields["yarn"]
        for ours, theirs in _RENAMED.items():
            fields[theirs] = fields.pop(ours)
        return fields | {
            "architectures": [HF_ARCHITECTURE],
            "model_type": "deepseek_v3",
            "rope_scaling": self.yarn.to_hf() if self.yarn else None,
            "rope_interleave": True,
            "num_key_value_heads": self.num_attention_heads,
            "hidden_act": "silu",
            "scoring_func": "sigmoid",
            "topk_method": "noaux_tc",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "moe_layer_freq": 1,
            "num_nextn_predict_layers": 0,
        }

    @classmethod
    def from_hf(cls, hf: dict[str, Any]) -> ModelConfig:
        """From a DeepSeek-V3 (or K2) `config.json`. Raises `ValueError` on a setting this model does not have."""
        fixed = {"hidden_act": "silu", "attention_bias": False, "rope_interleave": True, "scoring_func": "sigmoid"}
        for key, value in fixed.items():
            if hf.get(key, value) != value:
                raise ValueError(f"config.json: {key}={hf[key]!r} is not supported, only {value!r}")
        names = {_RENAMED.get(field.name, field.name): field.name for field in dataclasses.fields(cls)}
        fields = {names[key]: value for key, value in hf.items() if key in names}
        # Release 5 of transformers keeps rotary settings in one dictionary; releases before it in two keys.
        rope = hf.get("rope_parameters") or (hf.get("rope_scaling") or {})
        fields["rope_theta"] = rope.get("rope_theta", hf.get("rope_theta", 10_000.0))
        kind = rope.get("rope_type", rope.get("type", "default"))
        if rope.get("attention_factor") is not None:
            raise ValueError("config.json: an explicit rotary attention_factor is not supported; remove it")
        if kind == "yarn":
            known = {field.name for field in dataclasses.fields(Yarn)}
            fields["yarn"] = Yarn(**{k: v for k, v in ({"mscale_all_dim": 0.0} | rope).items() if k in known})
        elif kind != "default":
            raise ValueError(f"config.json: rotary scaling {kind!r} is not supported, only 'yarn'")
        if isinstance(fields.get("eos_token_id"), list):
            fields["eos_token_id"] = fields["eos_token_id"][0]
        return cls(**fields)

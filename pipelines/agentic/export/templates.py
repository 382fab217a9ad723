"""Which of the chat templates that `trl` 1.16 ships takes trajectories as they are, and which in another format, and why.

The tests render a row with every one of them and hold this list to what `trl` ships.
"""

from __future__ import annotations

AS_THEY_ARE = ""

_GROUPS: tuple[tuple[str, str, str], ...] = (
    (
        AS_THEY_ARE,
        "",
        "glm4moe glm4moe_training lfm2_2_5 lfm2_2_5_v2 lfm2_2_5_vl lfm2_v2 lfm2_v2_training nemotron_3_5_lightning "
        "nemotron_3_5_lightning_training nemotron_3_nano nemotron_3_nano_training nemotron_3_super nemotron_3_super_training "
        "nemotron_3_ultra nemotron_3_ultra_training qwen2_5 qwen2_5_training qwen3 qwen3_5_nothink qwen3_5_nothink_training "
        "qwen3_5_think qwen3_5_think_training qwen3_6 qwen3_6_training qwen3_8 qwen3_8_training qwen3_instruct_2507 "
        "qwen3_instruct_2507_training qwen3_training qwen3_vl qwen3_vl_training",
    ),
    (
        "text_apart",
        "text beside a call is put behind the call and its result, or is left out",
        "diffusion_gemma diffusion_gemma_training gemma4 gemma4_v2 gemma4_v3 gemma4_v4 gemma4_v5 muse_glimmer "
        "muse_glimmer_training",
    ),
    (
        "one_call",
        "several calls in one message are an error, or all but the first are left out",
        "gptoss gptoss_training llama3_1 llama3_2",
    ),
    ("declared", "tools are not declared, and text beside later calls is left out", "deepseekv3_training"),
    ("declared_text", "the same, and arguments must be text", "deepseekv3"),
    (
        "plain",
        "no tool calling: another role than user and assistant is an error",
        "cohere cohere2 cohere2_training cohere_training gemma3 gemma3_training",
    ),
    (
        "plain",
        "no tool calling: calls or results are left out",
        "deepseek_r1_distill deepseek_r1_distill_training lfm2 lfm2_training llama3 llama3_training phi3 phi3_5 phi3_5_training "
        "phi3_training qwen2_5_vl qwen2_5_vl_training",
    ),
    (
        "plain",
        "no tool calling: every message must have contents in blocks",
        "idefics3 idefics3_training llava_next llava_next_training smolvlm smolvlm_training",
    ),
    ("plain_no_system", "no tool calling, no system prompt", "gemma gemma_training"),
)
"""(format, why, names of templates without `.jinja`)"""
TEMPLATES = {name: shape for shape, _, names in _GROUPS for name in names.split()}
"""Format by template; empty for the rows as they are."""
GROUPS = tuple((shape, why, tuple(names.split())) for shape, why, names in _GROUPS)

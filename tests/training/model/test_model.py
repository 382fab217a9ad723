"""The model against transformers' DeepSeek-V3 with the same weights, and against itself."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.training.model import PADDING, PRESETS, LatentCache, Model, ModelConfig, Yarn, generate, preset
from tokenmill.training.model.experts import Experts, Implementation
from tokenmill.training.model.generate import sample
from tokenmill.training.model.huggingface import export_weights
from tokenmill.training.model.loss import linear_cross_entropy
from tokenmill.training.model.mask import restart_positions

TINY = preset("tiny").replace(vocab_size=96, hidden_size=32, initializer_range=0.15)
VARIANTS = {
    "plain": TINY,
    "all-moe": TINY.replace(first_k_dense_replace=0),
    "dense": TINY.replace(first_k_dense_replace=2),
    "groups": TINY.replace(n_group=4, topk_group=2, routed_scaling_factor=2.5),
    "yarn": TINY.replace(
        yarn=Yarn(4, original_max_position_embeddings=16, beta_fast=4), rope_theta=100.0, qk_rope_head_dim=16
    ),
    "yarn-mscale": TINY.replace(yarn=Yarn(8, 32, mscale=0.7, mscale_all_dim=0.0)),
    "full-query": TINY.replace(q_lora_rank=None, norm_topk_prob=False, n_shared_experts=2),
    "no-shared": TINY.replace(n_shared_experts=0),
    "tied": TINY.replace(tie_word_embeddings=True),
}


def use_experts(model: Model, implementation: Implementation) -> Model:
    for module in model.modules():
        if isinstance(module, Experts):
            module.implementation = implementation
    return model


def random_model(config: ModelConfig, seed: int = 0) -> Model:
    """Random norms and biases too, or their misuse would not show."""
    torch.manual_seed(seed)
    model = Model(config)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "norm" in name:
                tensor.uniform_(0.5, 1.5)
            if name.endswith("bias"):
                tensor.uniform_(-0.2, 0.2)
    return model.eval()


def transformers_twin(model: Model):
    import transformers

    config = transformers.DeepseekV3Config.from_dict(model.config.to_hf())
    twin = transformers.DeepseekV3ForCausalLM(config).eval()
    weights = dict(export_weights(model))
    state = twin.state_dict()
    for name in state:
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        if name.endswith("experts.gate_up_proj"):
            at = name.removesuffix("gate_up_proj")
            state[name] = torch.stack(
                [
                    torch.cat([weights[f"{at}{e}.gate_proj.weight"], weights[f"{at}{e}.up_proj.weight"]])
                    for e in range(8)
                ]
            )
        elif name.endswith("experts.down_proj"):
            at = name.removesuffix("down_proj")
            state[name] = torch.stack([weights[f"{at}{e}.down_proj.weight"] for e in range(8)])
        else:
            state[name] = weights[name]
    twin.load_state_dict(state)
    return twin


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_equal_transformers(variant):
    model = random_model(VARIANTS[variant])
    twin = transformers_twin(model)
    tokens = torch.randint(0, 96, (2, 48))
    with torch.no_grad():
        ours, theirs = model(tokens).logits, twin(tokens).logits
    assert theirs.std() > 0.1
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", ["plain", "groups", "yarn"])
def test_gradients_equal_transformers(variant):
    config = VARIANTS[variant].replace(balance_loss_coef=0.0, z_loss_coef=0.0)
    model = random_model(config).train()
    twin = transformers_twin(model).train()
    tokens = torch.randint(0, 96, (2, 32))
    targets = tokens.roll(-1, 1)
    model(tokens, targets=targets).loss.backward()
    torch.nn.functional.cross_entropy(twin(tokens).logits.flatten(0, 1), targets.flatten()).backward()
    for ours, theirs in [
        (model.embed_tokens, twin.model.embed_tokens),
        (model.layers[1].self_attn.kv_b_proj, twin.model.layers[1].self_attn.kv_b_proj),
        (model.layers[0].self_attn.q_a_proj, twin.model.layers[0].self_attn.q_a_proj),
        (model.layers[1].mlp.gate, twin.model.layers[1].mlp.gate),
    ]:
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, atol=1e-6, rtol=1e-4)
    ours, theirs = model.layers[1].mlp.experts, twin.model.layers[1].mlp.experts
    torch.testing.assert_close(ours.gate_up_proj.grad, theirs.gate_up_proj.grad, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(ours.down_proj.grad, theirs.down_proj.grad, atol=1e-6, rtol=1e-4)


@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), padding=st.integers(0, 4))
def test_packed_documents_are_computed_as_if_alone(lengths, padding):
    model = random_model(VARIANTS["yarn"])
    documents = [torch.randint(0, 96, (length,)) for length in lengths]
    packed = torch.cat([*documents, torch.zeros(padding, dtype=torch.int64)])[None]
    ids = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)] + [torch.full((padding,), PADDING)])[None]
    with torch.no_grad():
        together = model(packed, document_ids=ids).logits[0]
        alone = torch.cat([model(document[None]).logits[0] for document in documents])
    torch.testing.assert_close(together[: len(alone)], alone, atol=1e-5, rtol=1e-4)
    assert torch.isfinite(together).all()


def test_positions_restart_with_each_document():
    ids = torch.tensor([[3, 3, 3, 5, 5, -1], [0, 1, 1, 1, 1, 1]])
    assert restart_positions(ids).tolist() == [[0, 1, 2, 0, 1, 0], [0, 0, 1, 2, 3, 4]]


def test_loss_counts_only_wanted_targets():
    model = random_model(TINY).train()
    tokens, targets = torch.randint(0, 96, (2, 12)), torch.randint(0, 96, (2, 12))
    ids = torch.zeros(2, 12, dtype=torch.int64)
    ids[:, 10:] = PADDING
    mask = torch.zeros(2, 12, dtype=torch.bool)
    mask[:, 4:] = True
    targets[0, 4] = -100
    output = model(tokens, document_ids=ids, targets=targets, loss_mask=mask)
    logits = model.eval()(tokens, document_ids=ids).logits.log_softmax(-1)
    wanted = [-logits[b, t, targets[b, t]] for b in range(2) for t in range(4, 10) if (b, t) != (0, 4)]
    assert output.target_count == len(wanted) == 11
    torch.testing.assert_close(output.cross_entropy, torch.stack(wanted).mean())
    config = model.config
    extra = config.balance_loss_coef * output.balance_loss + config.z_loss_coef * output.z_loss
    torch.testing.assert_close(output.loss.detach(), output.cross_entropy + extra)
    halved = model.train()(tokens, document_ids=ids, targets=targets, loss_mask=mask, normalizer=22)
    torch.testing.assert_close(halved.cross_entropy, output.cross_entropy / 2)


def test_chunked_head_loss_and_gradients_equal_the_whole():
    x, weight = torch.randn(50, 8, requires_grad=True), torch.randn(30, 8, requires_grad=True)
    targets = torch.randint(0, 30, (50,))
    targets[::7] = -100
    whole = torch.autograd.grad(linear_cross_entropy(x, weight, targets), (x, weight))
    chunked = torch.autograd.grad(linear_cross_entropy(x, weight, targets, chunk_logits=300), (x, weight))
    torch.testing.assert_close(chunked, whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_head_loss_equals_torch_cross_entropy(dtype):
    x, weight = (torch.randn(n, 8).to(dtype).requires_grad_() for n in (50, 30))
    targets = torch.randint(0, 30, (50,))
    targets[::7] = -100
    ours = linear_cross_entropy(x, weight, targets)
    logits = torch.nn.functional.linear(x, weight).to(torch.promote_types(dtype, torch.float32))
    theirs = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(ours, theirs, check_dtype=False)
    gradients = torch.autograd.grad(ours * 0.5, (x, weight), retain_graph=True)
    torch.testing.assert_close(gradients, torch.autograd.grad(theirs * 0.5, (x, weight)))
    with pytest.raises(RuntimeError, match="used up"):
        torch.autograd.grad(ours, (x, weight))
    with torch.no_grad():
        torch.testing.assert_close(linear_cross_entropy(x, weight, targets), ours)


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputing_changes_neither_gradients_nor_statistics(recompute):
    tokens = torch.randint(0, 96, (2, 24))
    results = []
    for mode in ("none", recompute):
        model = random_model(TINY).train()
        model.recompute = mode
        model(tokens, targets=tokens).loss.backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        results.append((gradients, model.max_logits, model.expert_counts))
    torch.testing.assert_close(results[1], results[0])


def test_generation_with_cache_equals_generation_without():
    model = random_model(VARIANTS["yarn"])
    prompts = [[1, 2, 3, 4, 5], [7], [9, 8, 7]]
    made = generate(model, prompts, 12)
    for prompt, got in zip(prompts, made, strict=True):
        row = list(prompt)
        for _ in range(12):
            with torch.no_grad():
                row.append(int(model(torch.tensor([row])).logits[0, -1].argmax()))
        assert row[len(prompt) :] == got


def test_cached_logits_equal_full_logits_and_the_cache_is_compressed():
    config = VARIANTS["plain"]
    model = random_model(config)
    tokens = torch.randint(0, 96, (2, 20))
    cache = LatentCache(config, 2, 20)
    with torch.no_grad():
        full = model(tokens).logits
        steps = [model(tokens[:, :9], cache=cache).logits, model(tokens[:, 9:12], cache=cache).logits]
        steps += [model(tokens[:, t : t + 1], cache=cache).logits for t in range(12, 20)]
    torch.testing.assert_close(torch.cat(steps, dim=1), full, atol=1e-5, rtol=1e-4)
    assert len(cache.layers) == config.num_hidden_layers
    assert {layer.latent.shape[2] + layer.rotary.shape[2] for layer in cache.layers} == {
        config.kv_lora_rank + config.qk_rope_head_dim
    }
    with pytest.raises(ValueError, match="cache holds 20"), torch.no_grad():
        model(tokens[:, :1], cache=cache)


def test_generation_stops_and_obeys_its_constraint():
    model = random_model(TINY)
    even = torch.arange(96) % 2 == 0
    made = generate(
        model,
        [[1], [2]],
        8,
        temperature=1.0,
        constrain=lambda row, sofar: even if row == 0 else None,
        generator=torch.Generator().manual_seed(1),
    )
    assert len(made[0]) == 8 and all(token % 2 == 0 for token in made[0])
    assert any(token % 2 for token in made[1])
    first = generate(model, [[1]], 1)[0][0]
    assert generate(model, [[1]], 8, stop=[first]) == [[first]]
    with pytest.raises(ValueError, match="no token"):
        generate(model, [[1]], 1, constrain=lambda row, sofar: torch.zeros(96, dtype=torch.bool))


@given(top_p=st.floats(0.05, 1.0), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_nucleus_is_the_smallest_set_reaching_top_p(top_p, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, 12, generator=generator) * 3
    token = int(sample(logits, 1.0, top_p, generator))
    probabilities = logits.softmax(-1)[0]
    ahead = probabilities[probabilities > probabilities[token]].sum()
    assert ahead < top_p + 1e-6


def test_tokens_do_not_see_the_future():
    model = random_model(TINY)
    tokens = torch.randint(0, 96, (1, 16))
    changed = tokens.clone()
    changed[0, 10:] = (changed[0, 10:] + 1) % 96
    with torch.no_grad():
        before, after = model(tokens).logits, model(changed).logits
    torch.testing.assert_close(before[:, :10], after[:, :10])
    assert not torch.allclose(before[:, 10:], after[:, 10:])


def test_bf16_autocast_stays_near_fp32():
    model = random_model(TINY.replace(initializer_range=0.05)).train()
    tokens = torch.randint(0, 96, (2, 32))
    exact = model(tokens, targets=tokens).loss
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(tokens, targets=tokens).loss
    rough.backward()
    assert model.layers[1].mlp.experts.down_proj.grad.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=2e-2, atol=0)


@pytest.mark.parametrize("name", PRESETS)
def test_configuration_survives_json_and_the_published_form(name):
    config = PRESETS[name]
    assert ModelConfig.from_json(config.to_json()) == config
    assert ModelConfig.from_hf(config.to_hf()) == config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 0}, "hidden_size"),
        ({"qk_rope_head_dim": 7}, "qk_rope_head_dim"),
        ({"n_group": 3}, "n_group"),
        ({"n_group": 8}, "n_group"),
        ({"num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({"first_k_dense_replace": 3}, "first_k_dense_replace"),
        ({"n_routed_experts": 0}, "n_routed_experts"),
        ({"balance_loss_coef": -1.0}, "balance_loss_coef"),
        ({"rope_theta": float("nan")}, "rope_theta"),
    ],
)
def test_a_wrong_setting_is_named(changes, words):
    with pytest.raises(ValueError, match=words):
        TINY.replace(**changes)


def test_unsupported_published_settings_are_refused():
    for changes in ({"hidden_act": "gelu"}, {"rope_scaling": {"type": "longrope"}}, {"attention_bias": True}):
        with pytest.raises(ValueError, match=r"config.json"):
            ModelConfig.from_hf(TINY.to_hf() | changes)

"""Gate, grouped experts and the balance statistics, against plain readings of their definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.training.model import PADDING, Model, preset
from tokenmill.training.model.experts import Experts
from tokenmill.training.model.moe import Gate, Routing, load

from tests.training.model.test_model import use_experts

CONFIG = preset("tiny").replace(vocab_size=96, hidden_size=32)


def random_gate(**changes) -> Gate:
    gate = Gate(CONFIG.replace(**changes))
    torch.nn.init.normal_(gate.weight)
    gate.e_score_correction_bias.uniform_(-0.5, 0.5)
    return gate


@settings(max_examples=25, deadline=None)
@given(
    tokens=st.integers(1, 40),
    experts=st.integers(2, 12),
    k=st.integers(1, 4),
    skew=st.sampled_from([0.0, 2.0, 50.0]),
    seed=st.integers(0, 1000),
)
def test_grouped_products_equal_the_loop(tokens, experts, k, skew, seed):
    """Whatever the routing: even, skewed, or all tokens to a few experts and none to the rest."""
    torch.manual_seed(seed)
    layer = Experts(experts, 16, 8)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    chance = torch.randn(tokens, experts) + skew * torch.linspace(0, 1, experts)
    weights, chosen = chance.softmax(-1).topk(min(k, experts), dim=-1)
    results = []
    for implementation in ("grouped", "loop"):
        layer.implementation = implementation
        x = torch.randn(tokens, 16, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        w = weights.clone().requires_grad_()
        out = layer(x, chosen, w)
        results.append((out, *torch.autograd.grad(out.square().sum(), [x, w, *layer.parameters()])))
    torch.testing.assert_close(results[0], results[1], atol=1e-4, rtol=1e-4)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), groups=st.sampled_from([1, 2, 4]), normalised=st.booleans())
def test_gate_selects_by_bias_and_weighs_without_it(seed, groups, normalised):
    torch.manual_seed(seed)
    top_groups = max(1, groups // 2)
    gate = random_gate(n_group=groups, topk_group=top_groups, norm_topk_prob=normalised, routed_scaling_factor=1.7)
    x = torch.randn(9, 32)
    routing = gate(x)
    size = 8 // groups
    for token in range(9):
        scores = torch.sigmoid(gate.weight @ x[token])
        choice = (scores + gate.e_score_correction_bias).tolist()
        worth = [sum(sorted(choice[g * size : (g + 1) * size])[-2:]) for g in range(groups)]
        best_groups = sorted(range(groups), key=worth.__getitem__)[-top_groups:]
        allowed = [e for e in range(8) if e // size in best_groups]
        expected = sorted(allowed, key=choice.__getitem__)[-2:]
        assert sorted(routing.experts[token].tolist()) == sorted(expected)
        picked = scores[routing.experts[token]]
        picked = picked / picked.sum() if normalised else picked
        torch.testing.assert_close(routing.weights[token], 1.7 * picked)


def test_the_gate_stays_in_full_precision_under_autocast():
    gate = random_gate()
    x = torch.randn(7, 32)
    with torch.autocast("cpu", torch.bfloat16):
        inside = gate(x)
    assert inside.logits.dtype == torch.float32
    torch.testing.assert_close(inside.logits, gate(x).logits, atol=0, rtol=0)


def routing_of(experts: torch.Tensor, logits: torch.Tensor) -> Routing:
    return Routing(experts, torch.ones(experts.shape), logits.sigmoid(), logits)


def test_balance_loss_is_one_when_even_and_grows_with_imbalance():
    even = torch.arange(8).view(4, 2)
    flat = torch.zeros(4, 8)
    torch.testing.assert_close(load(routing_of(even, flat)).balance_loss, torch.tensor(1.0))
    crowded = torch.tensor([[0, 1]] * 4)
    tilted = torch.full((4, 8), -4.0)
    tilted[:, :2] = 4.0
    heavy = load(routing_of(crowded, tilted)).balance_loss
    scores = tilted[0].sigmoid()
    torch.testing.assert_close(heavy, 8 * (scores[0] / scores.sum()))
    assert heavy > 3


def test_statistics_leave_padding_out():
    torch.manual_seed(0)
    logits, experts = torch.randn(6, 8), torch.randint(0, 8, (6, 2))
    real = torch.tensor([True, True, False, True, False, True])
    with_padding = load(routing_of(experts, logits), real)
    without = load(routing_of(experts[real], logits[real]))
    torch.testing.assert_close(tuple(with_padding), tuple(without))
    torch.testing.assert_close(without.z_loss, logits[real].exp().sum(-1).log().square().mean())


def test_model_counts_every_real_slot_once():
    model = Model(CONFIG).train()
    ids = torch.zeros(3, 20, dtype=torch.int64)
    ids[:, 15:] = PADDING
    tokens = torch.randint(0, 96, (3, 20))
    for _ in range(2):
        model(tokens, document_ids=ids, targets=tokens)
    assert model.expert_counts.sum() == 2 * 3 * 15 * 2
    model.eval()(tokens, document_ids=ids)
    assert model.expert_counts.sum() == 2 * 3 * 15 * 2


def test_selection_bias_moves_against_the_load_and_evens_it_out():
    torch.manual_seed(0)
    model = Model(CONFIG.replace(initializer_range=0.5)).train()
    tokens = torch.randint(0, 96, (4, 64))

    def violation() -> float:
        model(tokens)
        counts = model.update_selection_bias(rate=0.01)[0].float()
        return float(counts.max() / counts.mean())

    gate = next(module for module in model.modules() if isinstance(module, Gate))
    first = violation()
    bias = gate.e_score_correction_bias.clone()
    assert model.expert_counts.sum() == 0 and abs(float(bias.sum())) < 1e-6
    later = [violation() for _ in range(80)]
    assert first > 1.4 and max(later[-5:]) < 1.25
    assert bias.abs().max() > 0


def test_bias_rises_for_the_idle_and_falls_for_the_busy():
    model = Model(CONFIG)
    gate = next(module for module in model.modules() if isinstance(module, Gate))
    model.expert_counts[0] = torch.tensor([0, 0, 0, 0, 8, 8, 8, 8])
    model.update_selection_bias(rate=0.1)
    torch.testing.assert_close(gate.e_score_correction_bias, torch.tensor([0.1] * 4 + [-0.1] * 4))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_grouped_products_in_bf16_on_a_gpu():
    model = Model(preset("small")).cuda().train()
    tokens = torch.randint(0, 8192, (2, 256), device="cuda")
    losses = []
    for implementation in ("grouped", "loop"):
        use_experts(model, implementation)
        with torch.autocast("cuda", torch.bfloat16):
            losses.append(model(tokens, targets=tokens).cross_entropy)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-2, atol=0)

"""Linear layers by oneDNN: the same products as torch's own, forward and backward, wherever they are taken."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.training.model import products
from tokenmill.training.model.products import Linear, product
from torch import nn

SIZES = st.integers(1, 96)


@pytest.fixture
def always(monkeypatch):
    """oneDNN for any size."""
    monkeypatch.setattr(products, "WORTH", 0)


def close(a, b):
    """Within what the order of summation changes in fp32."""
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=40)
@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans(), st.integers(0, 9))
def test_a_product_is_a_product_whatever_the_strides(m, n, k, first, second, seed):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(k, m, generator=generator).mT if first else torch.randn(m, k, generator=generator)
    b = torch.randn(k, n, generator=generator).mT if second else torch.randn(n, k, generator=generator)
    worth, products.WORTH = products.WORTH, 0
    try:
        assert close(product(a, b), a.double() @ b.double().mT)
    finally:
        products.WORTH = worth


def learnt(layer, x, weights):
    x = x.clone().requires_grad_()
    y = layer(x)
    (y * weights).sum().backward()
    return y.detach(), x.grad, layer.weight.grad


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 5, 8), (1, 200, 8)])
def test_a_layer_learns_what_torchs_own_does(always, shape):
    torch.manual_seed(0)
    ours = Linear(8, 24)
    theirs = nn.Linear(8, 24, bias=False)
    theirs.weight = nn.Parameter(ours.weight.detach().clone())
    x = torch.randn(*shape)
    weights = torch.randn(*shape[:-1], 24)
    for mine, other in zip(learnt(ours, x, weights), learnt(theirs, x, weights), strict=True):
        assert mine.shape == other.shape and close(mine, other)


def test_large_products_go_to_onednn_and_small_ones_do_not(monkeypatch):
    layer, asked = Linear(256, 256), []
    real = products.product
    monkeypatch.setattr(products, "product", lambda a, b: asked.append(a.shape) or real(a, b))
    layer(torch.randn(512, 256, requires_grad=True)).sum().backward()
    assert len(asked) == (3 if torch.backends.mkldnn.is_available() else 0)
    asked.clear()
    layer(torch.randn(2, 256)).sum().backward()
    assert not asked


def test_other_types_and_autocast_are_torchs_own(always):
    layer = Linear(8, 8)
    exact = copy.deepcopy(layer).double()
    x = torch.randn(4, 8)
    assert torch.equal(exact(x.double()), x.double() @ exact.weight.mT)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


def test_frozen_weights_and_inputs_get_no_gradient(always):
    layer = Linear(8, 8)
    layer.weight.requires_grad_(False)
    x = torch.randn(4, 8, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None and close(x.grad, layer.weight.sum(0).expand(4, 8))

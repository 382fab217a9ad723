"""Latent attention: every way to compute it gives the same values and the same largest logits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.training.model import Model, preset
from tokenmill.training.model import attention as attention_module
from tokenmill.training.model.attention import attend, logit_maxima
from tokenmill.training.model.mask import AttentionMask, attention_mask


def random_parts(time: int, seed: int, heads: int = 3):
    generator = torch.Generator().manual_seed(seed)
    shape = (2, heads, time)
    return [torch.randn(*shape, width, generator=generator) for width in (12, 12, 8)]


def documents(time: int, seed: int) -> torch.Tensor:
    steps = torch.rand(2, time, generator=torch.Generator().manual_seed(seed)) < 0.2
    return steps.long().cumsum(1)


@settings(max_examples=20, deadline=None)
@given(
    time=st.sampled_from([1, 7, 40, 128, 150, 290]),
    chunk=st.integers(1, 50),
    packed=st.booleans(),
    seed=st.integers(0, 500),
)
def test_written_out_and_fused_attention_agree(time, chunk, packed, seed):
    query, key, value = random_parts(time, seed)
    ids = documents(time, seed) if packed else None
    mask = attention_mask(ids, time, batch=2, device=query.device, flex=False)
    written, maxima = attend(query, key, value, mask, 0.3, True)
    assert attend(query, key, value, mask, 0.3, False)[1] is None
    causal = mask.allowed is None
    fused = F.scaled_dot_product_attention(query, key, value, attn_mask=mask.allowed, is_causal=causal, scale=0.3)
    torch.testing.assert_close(written, fused, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logit_maxima(query, key, mask, 0.3, chunk), maxima)
    seen = torch.ones(time, time, dtype=torch.bool).tril() if ids is None else mask.allowed[:, 0]
    logits = torch.where(seen.unsqueeze(-3), query @ key.mT * 0.3, -torch.inf)
    torch.testing.assert_close(maxima, logits.amax((0, 2, 3)))


def test_maxima_ignore_pairs_that_are_masked():
    query, key, value = random_parts(8, 0)
    key[:, :, 7] = 1000 * query[:, :, 0]
    key[:, :, 0] = 500 * query[:, :, 6]
    ids = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]] * 2)
    query[:, :, 7] = 0
    mask = attention_mask(ids, 8, batch=2, device=query.device, flex=False)
    future_only = attend(query, key, value, mask, 1.0, True)[1]
    assert (future_only < 500 * query[:, :, 6].square().sum(-1).amax(0)).all()
    everything = attend(query, key, value, AttentionMask(), 1.0, True)[1]
    assert (everything >= 500 * query[:, :, 6].square().sum(-1).amax(0) * 0.999).all()


def test_long_rows_report_the_same_maxima_without_writing_logits_out(monkeypatch):
    torch.manual_seed(0)
    config = preset("tiny").replace(initializer_range=0.2)
    tokens = torch.randint(0, 512, (2, 48))
    model = Model(config).train()
    short_loss = model(tokens, targets=tokens).loss
    short = model.max_logits.clone()
    model.max_logits.fill_(-torch.inf)
    monkeypatch.setattr(attention_module, "WRITTEN_LENGTH", 8)
    long_loss = model(tokens, targets=tokens).loss
    torch.testing.assert_close(model.max_logits, short)
    torch.testing.assert_close(long_loss, short_loss)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("packed", [False, True])
def test_flex_attention_on_a_gpu_reports_the_same_maxima(packed):
    query, key, value = (part.cuda() for part in random_parts(256, 0))
    pad = [torch.nn.functional.pad(part, (0, 64 - part.shape[-1])) for part in (query, key, value)]
    ids = documents(256, 0).cuda() if packed else None
    plain = attention_mask(ids, 256, batch=2, device=query.device, flex=False)
    fused = attention_mask(ids, 256, batch=2, device=query.device, flex=True)
    out, maxima = attend(*pad, fused, 0.3, True)
    torch.testing.assert_close(maxima, logit_maxima(*pad[:2], plain, 0.3), atol=2e-2, rtol=1e-2)
    torch.testing.assert_close(out, attend(*pad, plain, 0.3, False)[0], atol=2e-2, rtol=1e-2)

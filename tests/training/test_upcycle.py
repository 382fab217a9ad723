"""Upcycling keeps the function; expert statistics say what the routing did."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.training import expert_load
from tokenmill.training.checkpoint import load_model, save_checkpoint
from tokenmill.training.expert_load import ExpertUsage, expert_usage, gini
from tokenmill.training.upcycle import main as upcycle_main
from tokenmill.training.upcycle import upcycle

from tests.training.model.test_model import VARIANTS, random_model

DENSE = VARIANTS["dense"]


@pytest.mark.parametrize(
    ("slices", "copies", "options"),
    [
        (8, 8, {}),
        (4, 2, {"keep_dense": 1}),
        (2, 3, {"shared": 1}),
        (1, 4, {}),
        (5, 1, {}),
    ],
)
def test_output_is_the_dense_models_at_the_start(slices, copies, options):
    dense = random_model(DENSE)
    torch.manual_seed(7)
    model = upcycle(dense, slices, copies, **options).eval()
    assert model.config.n_routed_experts == slices * copies and model.config.num_experts_per_tok == slices
    assert model.config.moe_intermediate_size == DENSE.intermediate_size // slices
    tokens = torch.randint(0, 96, (2, 64))
    with torch.no_grad():
        before, after = dense(tokens).logits, model(tokens).logits
    assert before.std() > 0.1
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-4)


def test_all_copies_are_used_and_training_moves_them_apart():
    torch.manual_seed(0)
    model = upcycle(random_model(DENSE), 2, 4).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    tokens = torch.randint(0, 96, (4, 64))
    first = model(tokens, targets=tokens.roll(-1, 1)).cross_entropy
    assert (model.expert_counts > 0).all()
    for _ in range(10):
        optimizer.zero_grad()
        output = model(tokens, targets=tokens.roll(-1, 1))
        output.loss.backward()
        optimizer.step()
    assert output.cross_entropy < first
    copies = model.layers[0].mlp.experts.down_proj[0::2]
    assert all((copies[0] - other).abs().max() > 1e-4 for other in copies[1:])


@pytest.mark.parametrize(
    ("slices", "copies", "options", "words"),
    [(3, 2, {}, "does not divide"), (0, 2, {}, "at least 1"), (2, 2, {"keep_dense": 2}, "keep_dense")],
)
def test_impossible_cuts_are_named(slices, copies, options, words):
    with pytest.raises(ValueError, match=words):
        upcycle(random_model(DENSE), slices, copies, **options)
    with pytest.raises(ValueError, match="experts already"):
        upcycle(random_model(VARIANTS["plain"]), 2, 2)


def test_the_command_writes_a_checkpoint_that_computes_the_same(tmp_path, capsys):
    dense = random_model(DENSE)
    save_checkpoint(tmp_path / "dense", dense)
    assert upcycle_main([str(tmp_path / "dense"), "--output", str(tmp_path / "moe"), "--slices", "4"]) == 0
    model = load_model(tmp_path / "moe").eval()
    assert model.config.n_routed_experts == 32
    tokens = torch.randint(0, 96, (1, 32))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens).logits, dense(tokens).logits, atol=1e-5, rtol=1e-4)
    with pytest.raises(SystemExit):
        upcycle_main([str(tmp_path / "moe"), "--output", str(tmp_path / "again")])
    assert "experts already" in capsys.readouterr().err


@given(amounts=st.lists(st.integers(0, 1000), min_size=1, max_size=12), factor=st.integers(1, 9))
def test_gini_is_half_the_relative_mean_difference(amounts, factor):
    value = float(gini(torch.tensor(amounts)))
    n, total = len(amounts), sum(amounts)
    pairs = sum(abs(a - b) for a in amounts for b in amounts)
    assert value == pytest.approx(pairs / (2 * n * total) if total else 0.0)
    assert float(gini(torch.tensor(amounts) * factor)) == pytest.approx(value)


def test_gini_at_its_ends():
    assert float(gini(torch.full((16,), 5))) == pytest.approx(0)
    assert float(gini(torch.tensor([0] * 15 + [7]))) == pytest.approx(15 / 16)


def test_usage_counts_each_domains_slots():
    model = random_model(VARIANTS["all-moe"]).train()
    low, high = torch.randint(0, 8, (3, 20)), torch.randint(88, 96, (2, 20))
    usage = expert_usage(model, {"low": [low[:1], low[1:]], "high": [high]})
    assert model.training and model.expert_counts.sum() == 0
    assert usage.counts.shape == (2, 2, 8)
    assert usage.counts.sum(-1).tolist() == [[120, 120], [80, 80]]
    assert usage.gini().shape == (2, 2) and usage.overall_gini().shape == (2,)
    torch.testing.assert_close(usage.shares().sum(-1), torch.ones(2, 2))
    assert not torch.allclose(usage.shares()[0], usage.shares()[1])
    with pytest.raises(ValueError, match="no experts"):
        expert_usage(random_model(DENSE), {})


def test_domains_weigh_alike_in_the_overall_index():
    counts = torch.tensor([[[1000, 0]], [[0, 1]]])
    assert float(ExpertUsage(["big", "small"], counts).overall_gini()) == pytest.approx(0)


def test_the_command_draws_both_figures(tmp_path, capsys):
    tokenizers = pytest.importorskip("tokenizers")
    checkpoint = save_checkpoint(tmp_path / "c", random_model(VARIANTS["all-moe"]))
    arguments = [str(checkpoint), "--output", str(tmp_path / "out")]
    for name, text in (("sums", "1 2 3 4 5"), ("words", "ab ba abba")):
        pq.write_table(pa.table({"text": [text] * 5}), tmp_path / f"{name}.parquet")
        arguments += ["--domain", f"{name}={tmp_path / name}.parquet"]
    with pytest.raises(SystemExit):
        expert_load.main(["/nowhere", *arguments[1:]])
    vocabulary = {letter: index for index, letter in enumerate("?12345ab ")}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    tokenizer.save(str(checkpoint / "tokenizer.json"))
    assert expert_load.main(arguments) == 0
    report = json.loads((tmp_path / "out" / "experts.json").read_text())
    assert report["domains"] == ["sums", "words"]
    assert sum(report["counts"][0][0]) == 2 * 5 * 9
    for picture in ("heatmap.png", "gini.png"):
        assert (tmp_path / "out" / picture).read_bytes().startswith(b"\x89PNG")

"""Parameter counts of the presets against the published figures and against real tensors."""

from __future__ import annotations

import json

import pytest
from tokenmill.training.count import count_parameters, main, training_flops_per_token
from tokenmill.training.model import Model, preset


@pytest.mark.parametrize(
    ("name", "total", "active"), [("deepseek-v3", 671e9, 37e9), ("kimi-k2", 1.04e12, 32.6e9), ("k2", 1.04e12, 32.6e9)]
)
def test_published_models_count_to_their_published_size(name, total, active, capsys):
    assert main([name]) == 0
    count = json.loads(capsys.readouterr().out)
    assert set(count) == {"total", "active"}
    assert count["total"] == pytest.approx(total, rel=0.015)
    assert count["active"] == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize("tied", [False, True])
def test_count_is_that_of_the_real_tensors(tied):
    config = preset("tiny").replace(tie_word_embeddings=tied)
    model = Model(config)
    biases = config.num_moe_layers * config.n_routed_experts
    total = sum(parameter.numel() for parameter in model.parameters()) + biases
    idle = (8 - 2) * 3 * config.hidden_size * config.moe_intermediate_size
    count = count_parameters(config)
    assert (count.total, count.active) == (total, total - idle)


def test_a_dense_model_is_all_active():
    count = count_parameters(preset("tiny").replace(first_k_dense_replace=2))
    assert count.total == count.active


def test_flops_are_six_a_multiplied_weight_and_grow_with_context():
    config = preset("small")
    table = config.vocab_size * config.hidden_size
    assert training_flops_per_token(config, 0) == 6 * (count_parameters(config).active - table)
    longer = training_flops_per_token(config, 2048) - training_flops_per_token(config, 1024)
    assert longer == 6 * 4 * 4 * (96 + 64) * 512


def test_a_configuration_file_is_counted_too(tmp_path, capsys):
    for text in (preset("tiny").to_json(), json.dumps(preset("tiny").to_hf())):
        (tmp_path / "config.json").write_text(text)
        main([str(tmp_path / "config.json")])
        assert json.loads(capsys.readouterr().out)["total"] == count_parameters(preset("tiny")).total


@pytest.mark.parametrize("wrong", ["no-such-preset", "/nowhere/config.json"])
def test_an_unknown_model_is_one_clear_line(wrong, capsys):
    with pytest.raises(SystemExit) as stop:
        main([wrong])
    assert stop.value.code == 2
    assert wrong in capsys.readouterr().err.splitlines()[-1]

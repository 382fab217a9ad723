"""Checkpoints: bit for bit back, readable by transformers, whole after a kill."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tokenmill.training import checkpoint
from tokenmill.training.checkpoint import (
    CheckpointError,
    latest_checkpoint,
    load_model,
    merge_checkpoints,
    read_config,
    resume,
    save_checkpoint,
    step_directory,
)
from tokenmill.training.model import Model
from tokenmill.training.optim import MuonClip

from tests.training.model.test_model import VARIANTS, random_model

TINY = VARIANTS["plain"]


def logits(model, tokens):
    with torch.no_grad():
        return model.eval()(tokens).logits


@pytest.mark.parametrize("variant", VARIANTS)
def test_transformers_loads_what_we_save(variant, tmp_path):
    import transformers

    model = random_model(VARIANTS[variant])
    save_checkpoint(tmp_path / "ours", model)
    twin, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(twin).__name__ == "DeepseekV3ForCausalLM"
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    tokens = torch.randint(0, 96, (2, 40))
    torch.testing.assert_close(logits(model, tokens), logits(twin, tokens), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", ["plain", "groups", "yarn", "full-query", "tied", "no-shared"])
def test_we_load_what_transformers_saves(variant, tmp_path):
    import transformers

    config = transformers.DeepseekV3Config.from_dict(VARIANTS[variant].to_hf())
    torch.manual_seed(0)
    twin = transformers.DeepseekV3ForCausalLM(config)
    for name, tensor in twin.state_dict().items():
        if name.endswith("bias"):
            tensor.uniform_(-0.2, 0.2)
    twin.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert model.config.yarn == VARIANTS[variant].yarn
    tokens = torch.randint(0, 96, (2, 40))
    torch.testing.assert_close(logits(model, tokens), logits(twin, tokens), atol=1e-5, rtol=1e-5)


def test_many_shards_and_bf16_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARD_SIZE", "20KB")
    model = random_model(TINY)
    save_checkpoint(tmp_path / "a", model)
    assert len(list((tmp_path / "a").glob("*.safetensors"))) > 2
    for ours, theirs in zip(load_model(tmp_path / "a").parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    save_checkpoint(tmp_path / "b", model, dtype=torch.bfloat16)
    assert json.loads((tmp_path / "b" / "config.json").read_text())["torch_dtype"] == "bfloat16"
    half = load_model(tmp_path / "b")
    assert torch.equal(half.lm_head.weight, model.lm_head.weight.bfloat16().float())
    assert torch.equal(
        half.layers[1].mlp.gate.e_score_correction_bias, model.layers[1].mlp.gate.e_score_correction_bias
    )


def train(model, optimizer, steps):
    losses = []
    for _ in range(steps):
        tokens = torch.randint(0, 96, (2, 24))
        shift = random.randint(1, 5)
        loss = model.train()(tokens, targets=tokens.roll(-shift, 1)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.update_selection_bias()
        losses.append(loss.item())
    return losses


def test_training_goes_on_exactly_where_it_stopped(tmp_path):
    torch.manual_seed(0)
    random.seed(0)
    model = Model(TINY)
    optimizer = MuonClip(model, lr=0.02, tau=1.0)
    train(model, optimizer, 3)
    save_checkpoint(tmp_path / "c", model, optimizer, {"step": 3, "position": {"file": "a.parquet", "row": 7}})
    undisturbed = train(model, optimizer, 4)

    torch.manual_seed(99)
    again = Model(read_config(tmp_path / "c"))
    optimizer = MuonClip(again, lr=0.5, tau=1.0)
    assert resume(tmp_path / "c", again, optimizer) == {"step": 3, "position": {"file": "a.parquet", "row": 7}}
    assert train(again, optimizer, 4) == undisturbed
    for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b)


WRITER = """
import sys, torch
from tokenmill.training.checkpoint import save_checkpoint, step_directory
from tokenmill.training.model import Model, preset
torch.set_num_threads(1)
model = Model(preset("small").replace(first_k_dense_replace=3))
print("ready", flush=True)
for step in range(1, 1000):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(step)
    save_checkpoint(step_directory(sys.argv[1], step % 2), model, state={"step": step})
"""


def test_a_killed_writer_never_leaves_a_torn_checkpoint(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    delays = random.Random(0)
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, env=environment, text=True
        )
        writer.stdout.readline()
        end = time.monotonic() + 60
        while latest_checkpoint(tmp_path) is None and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.3 + delays.random() * 0.5)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        found = latest_checkpoint(tmp_path)
        assert found is not None
        model = load_model(found)
        step = torch.load(found / "training.pt", weights_only=True)["state"]["step"]
        assert all((parameter == step).all() for parameter in model.parameters())


def test_a_failed_write_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    model = random_model(TINY)
    save_checkpoint(tmp_path / "c", model)
    before = sorted(path.name for path in tmp_path.iterdir())

    def disk_full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", disk_full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(tmp_path / "c", random_model(TINY, seed=5), state={"step": 1})
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert torch.equal(load_model(tmp_path / "c").lm_head.weight, model.lm_head.weight)


def test_latest_is_the_highest_step_and_ignores_other_names(tmp_path):
    assert latest_checkpoint(tmp_path / "nowhere") is None
    for name in ("step-00000009", "step-00000010", ".step-00000011.draft", "other"):
        (tmp_path / name).mkdir()
    assert latest_checkpoint(tmp_path) == step_directory(tmp_path, 10)


def test_merging_averages_every_weight(tmp_path):
    models = [random_model(TINY, seed) for seed in range(3)]
    paths = [save_checkpoint(tmp_path / str(i), model) for i, model in enumerate(models)]
    merge_checkpoints(paths, tmp_path / "merged")
    states = [model.state_dict() for model in models]
    for name, tensor in load_model(tmp_path / "merged").state_dict().items():
        torch.testing.assert_close(tensor, torch.stack([state[name] for state in states]).mean(0))
    other = save_checkpoint(tmp_path / "other", Model(TINY.replace(rope_theta=5.0)))
    with pytest.raises(CheckpointError, match="another configuration"):
        merge_checkpoints([paths[0], other], tmp_path / "wrong")


def test_what_cannot_be_read_is_said_in_one_line(tmp_path):
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_model(tmp_path)
    path = save_checkpoint(tmp_path / "c", random_model(TINY))
    with pytest.raises(CheckpointError, match=r"no training\.pt"):
        resume(path, Model(TINY), MuonClip(Model(TINY)))
    with pytest.raises(CheckpointError, match="does not fit"):
        checkpoint.load_weights(Model(TINY.replace(vocab_size=95)), path)
    with pytest.raises(CheckpointError, match="no tensor"):
        checkpoint.load_weights(Model(TINY.replace(num_hidden_layers=3)), path)
    (path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no \.safetensors"):
        load_model(path)
    for changes in ({"model_type": "llama"}, {"quantization_config": {"fmt": "e4m3"}}, {"hidden_act": "gelu"}):
        (path / "config.json").write_text(json.dumps(TINY.to_hf() | changes))
        with pytest.raises(CheckpointError, match=r"config\.json"):
            read_config(path)

"""Pre-training as a user runs it: real processes, a real SIGKILL, two processes over gloo."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tokenmill.training.checkpoint import load_model, read_config
from tokenmill.training.metrics import MetricsLog, read_metrics
from tokenmill.training.pretrain import main
from tokenmill.training.tokenizer import Tokenizer

from tests.training.shards import conversations, texts

ROOT = Path(__file__).resolve().parents[2]
SHAPE = ["--sequence-length", "64", "--batch-tokens", "256", "--micro-rows", "2", "--lr", "0.01"]


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"} | more


def command(*flags: object) -> list[str]:
    return [sys.executable, "-m", "tokenmill.training.pretrain", *map(str, flags)]


TIMED = ("seconds", "tokens_per_second")
"""Fields that differ from run to run; all others are the same for the same command on a CPU."""


def curve(folder: Path) -> list[dict]:
    return [{key: value for key, value in line.items() if key not in TIMED} for line in read_metrics(folder)]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return texts(tmp_path_factory.mktemp("data"), 36, files=2)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_run_learns_and_leaves_a_checkpoint_that_transformers_loads(tmp_path, data):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    held_out = texts(tmp_path / "held-out", 3)
    out = tmp_path / "out"
    flags = ["--data", f"mill:{data}@4", "--config", "tiny", "--output", str(out), *SHAPE, "--validate-every", "20"]
    assert main([*flags, "--validation", str(held_out)]) == 0
    lines = read_metrics(out)
    assert lines[-1]["cross_entropy"] < 0.7 * lines[0]["cross_entropy"]
    assert lines[-1]["epochs"] == {"mill": 4.0}
    held = [line["validation"] for line in lines if "validation" in line]
    assert len(held) == len(lines) // 20 and held[-1] < held[0]
    assert (out / "report.png").stat().st_size > 10_000
    assert sum(line["targets"] for line in lines) == json.loads((out / "length.json").read_text())["tokens"]

    theirs, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    tokens = torch.tensor([tokenizer("In 1750 the mine", add_special_tokens=False).input_ids])
    with torch.no_grad():
        torch.testing.assert_close(load_model(out).eval()(tokens).logits, theirs(tokens).logits, atol=1e-4, rtol=1e-4)
    assert read_config(out).eos_token_id == Tokenizer.load(out).eos == theirs.config.eos_token_id


def test_after_a_kill_the_same_command_gives_the_undisturbed_curve_exactly(tmp_path, data):
    flags = ["--data", f"a:{data}@2", "--config", "tiny", *SHAPE, "--save-every", "4", "--recompute", "selective"]
    flags += ["--late", "0.5", "--late-batch", "2", "--late-balance", "0.5"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(*flags, "--output", whole), check=True, cwd=ROOT, env=environment(), capture_output=True)
    process = subprocess.Popen(command(*flags, "--output", killed), cwd=ROOT, env=environment(), stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not any((killed / "steps").glob("step-*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stderr.close()
    assert 4 <= len(curve(killed)) < len(curve(whole)) and not (killed / "config.json").exists()
    (killed / "metrics.jsonl").open("a").write('{"step": 99, "torn')

    subprocess.run(command(*flags, "--output", killed), check=True, cwd=ROOT, env=environment(), capture_output=True)
    assert curve(killed) == curve(whole)
    one, other = load_model(whole).state_dict(), load_model(killed).state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_two_processes_train_as_one(tmp_path, data):
    """FSDP2 over gloo with accumulation and selective recomputation: the loss curve of a single process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    flags = ["--data", data, "--config", "tiny", "--sequence-length", "64", "--batch-tokens", "512", "--lr", "0.005"]
    flags += ["--tokens", "4096", "--save-every", "8", "--recompute", "selective", "--device", "cpu"]
    alone = subprocess.Popen(
        command(*flags, "--micro-rows", 4, "--output", tmp_path / "one"), cwd=ROOT, env=environment()
    )
    ranks = [
        subprocess.Popen(
            command(*flags, "--micro-rows", 2, "--output", tmp_path / "two"),
            cwd=ROOT,
            env=environment(
                RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port
            ),
        )
        for rank in range(2)
    ]
    assert [process.wait(timeout=240) for process in [alone, *ranks]] == [0, 0, 0]
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(one) == len(two) == 8
    for left, right in zip(one, two, strict=True):
        assert left["tokens"] == right["tokens"] and left["targets"] == right["targets"]
        assert right["cross_entropy"] == pytest.approx(left["cross_entropy"], rel=2e-3)
        assert right["gradient_norm"] == pytest.approx(left["gradient_norm"], rel=2e-2)
    assert two[0]["cross_entropy"] == pytest.approx(one[0]["cross_entropy"], rel=1e-5)
    assert (tmp_path / "two" / "config.json").exists() and (tmp_path / "two" / "steps" / "step-00000008").exists()


def test_micro_batches_change_nothing(tmp_path, data):
    curves = []
    for rows in (3, 8):
        out = tmp_path / str(rows)
        flags = ["--data", str(data), "--config", "tiny", "--output", str(out), "--tokens", "1536"]
        main([*flags, "--sequence-length", "64", "--batch-tokens", "512", "--micro-rows", str(rows), "--lr", "0.003"])
        curves.append([line["cross_entropy"] for line in read_metrics(out)])
    assert curves[1] == pytest.approx(curves[0], rel=1e-3)


def test_bf16_autocast_trains(tmp_path, data):
    flags = ["--data", str(data), "--config", "tiny", "--tokens", "3000", *SHAPE]
    main([*flags, "--output", str(tmp_path / "bf16"), "--precision", "bfloat16"])
    main([*flags, "--output", str(tmp_path / "fp32")])
    half, whole = ([line["cross_entropy"] for line in read_metrics(tmp_path / name)] for name in ("bf16", "fp32"))
    assert half != whole
    assert half[-1] == pytest.approx(whole[-1], rel=0.05)


def test_last_checkpoints_are_averaged_and_balance_follows_the_schedule(tmp_path, data):
    out = tmp_path / "out"
    flags = ["--data", str(data), "--config", "tiny", "--output", str(out), "--tokens", "3072", *SHAPE]
    main([*flags, "--save-every", "3", "--keep", "3", "--average-last", "3"])
    steps = [load_model(path).state_dict() for path in sorted((out / "steps").iterdir())]
    assert len(steps) == 3
    published = load_model(out).state_dict()
    for name, value in published.items():
        mean = torch.stack([step[name].double() for step in steps]).mean(0)
        torch.testing.assert_close(value.double(), mean, atol=1e-6, rtol=1e-5)


def test_a_file_of_settings_and_a_start_from_a_checkpoint_with_longer_context(tmp_path, data):
    settings = tmp_path / "run.json"
    settings.write_text(
        json.dumps(
            {
                "preset": "tiny",
                "model": {"num_hidden_layers": 1, "first_k_dense_replace": 0, "max_position_embeddings": 64},
                "training": {"sequence-length": 32, "batch_tokens": 128, "tokens": 1024, "lr": 0.005},
            }
        )
    )
    first, second = tmp_path / "first", tmp_path / "second"
    main(["--data", str(data), "--config", str(settings), "--output", str(first)])
    assert len(read_metrics(first)) == 8 and read_config(first).num_hidden_layers == 1
    flags = ["--init", str(first), "--yarn", "4", "--sequence-length", "256", "--tokens", "2048"]
    main(["--data", str(data), *flags, "--output", str(second)])
    assert read_config(second).yarn.factor == 4 and read_config(second).max_position_embeddings == 256
    assert read_metrics(second)[0]["cross_entropy"] < read_metrics(first)[0]["cross_entropy"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("declarations", "yaml", "declarations: give typescript, json, mixed, not 'yaml'"),
        ("device", "tpu", "device: give cpu, cuda, not 'tpu'"),
        ("tokens", "many", "tokens: 'many' is not of the right type"),
        ("colour", "red", "unknown settings: colour"),
    ],
)
def test_a_file_of_settings_is_held_to_what_flags_take(tmp_path, data, capsys, name, value, said):
    settings = tmp_path / "run.json"
    settings.write_text(json.dumps({"preset": "tiny", "training": {name: value}}))
    with pytest.raises(SystemExit) as stop:
        main(["--data", str(data), "--config", str(settings), "--output", str(tmp_path / "out")])
    assert stop.value.code == 2 and said in capsys.readouterr().err.splitlines()[-1]


def test_another_command_does_not_go_on_with_the_run(tmp_path, data, capsys):
    out = tmp_path / "out"
    flags = ["--data", str(data), "--config", "tiny", "--output", str(out), "--tokens", "600", *SHAPE]
    main(flags)
    for more, said in [(["--seed", "4"], "other settings (seed)"), ([], "is complete")]:
        with pytest.raises(SystemExit) as stop:
            main([*flags, *more])
        assert stop.value.code == 2
        assert said in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--config", "tinny"], "no preset 'tinny'"),
        ([], "--config: name the model"),
        (["--config", "tiny", "--lr", "-1"], "lr: give a number above 0"),
        (["--config", "tiny", "--sequence-length", "4096"], "the model takes at most 512"),
        (["--config", "tiny", "--micro-rows", "0"], "micro_rows: give at least 1"),
        (["--config", "tiny", "--warmup", "0.9", "--decay", "0.9"], "together they exceed"),
        (["--config", "tiny", "--vocab-size", "40"], "leaves no room"),
        (["--config", "tiny", "--data", "nowhere"], "nowhere: no such file"),
        (["--config", "tiny", "--data", "DATA=0.5"], "--tokens: give the length"),
        (["--config", "tiny", "--data", "a:DATA", "b:DATA=0.5", "--tokens", "100"], "all sources or to none"),
        (["--config", "tiny", "--average-last", "5"], "keep as many"),
        (["--config", "missing.json"], "missing.json"),
        (["--init", "nowhere"], "nowhere"),
        (["--config", "tiny", "--yarn", "2"], "give --init as well"),
        (["--config", "tiny", "--tokenizer", "nowhere"], "holds no tokenizer"),
    ],
)
def test_one_clear_line_for_what_cannot_be(tmp_path, data, capsys, flags, said):
    flags = [flag.replace("DATA", str(data)) for flag in flags]
    if "--data" not in flags:
        flags = ["--data", str(data), *flags]
    with pytest.raises(SystemExit) as stop:
        main([*flags, "--output", str(tmp_path / "out")])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert said in lines[-1] and "Traceback" not in "".join(lines)


def test_a_loss_that_is_no_number_ends_the_run(tmp_path, data, capsys):
    flags = ["--data", str(data), "--config", "tiny", "--tokens", "9000", "--output", str(tmp_path / "out"), *SHAPE]
    with pytest.raises(SystemExit) as stop:
        main([*flags, "--lr", "1e30"])
    assert stop.value.code == 2
    assert "try a lower --lr" in capsys.readouterr().err.splitlines()[-1]


def test_conversations_can_be_pretrained_on(tmp_path):
    chats = conversations(tmp_path / "chats", 30)
    out = tmp_path / "out"
    main(["--data", str(chats), "--config", "tiny", "--output", str(out), *SHAPE])
    lines = read_metrics(out)
    assert lines[-1]["cross_entropy"] < lines[0]["cross_entropy"]


def test_metrics_are_cut_back_to_the_step_resumed_from(tmp_path):
    log = MetricsLog(tmp_path)
    for step in range(1, 6):
        log.write({"step": step})
    log.close()
    (tmp_path / "metrics.jsonl").open("a").write('{"step": 6')
    MetricsLog(tmp_path, 3).close()
    assert read_metrics(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3}]

"""Exported rewards are ours: as `trl` calls them, and as `verl` and `verifiers` do."""

import importlib.util
import itertools
import json
from types import SimpleNamespace

import datasets
import orjson
import pyarrow.parquet as pq
import pytest
from tokenmill.gym import export
from tokenmill.gym.registry import find
from tokenmill.schemas.flags import UsageError

from tokenmill import cli


def exported(tmp_path, trainer, *envs):
    out = tmp_path / trainer
    assert cli.main(["gym", "export", *envs, "--for", trainer, "--tasks", "3", "--output", str(out)]) == 0
    return out


def loaded(file):
    spec = importlib.util.spec_from_file_location("exported_reward", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_trl_is_given_equal_rewards(tmp_path, monkeypatch):
    """Through the trainer's own code that calls reward functions, on its own form of rows and completions."""
    import torch
    from trl import GRPOTrainer
    from trl.trainer import grpo_trainer

    out = exported(tmp_path, "trl", "game24", "morse")
    rows = [dict(row) for row in datasets.load_dataset("json", data_files=str(out / "tasks.jsonl"), split="train")]
    tasks = [json.loads(row["task"]) for row in rows]
    texts = [task["reference"] if number % 2 else "Answer: 24" for number, task in enumerate(tasks)]
    completions = [[{"role": "assistant", "content": text}] for text in texts]

    # The trainer without a model: only what calls reward functions.
    trainer = object.__new__(GRPOTrainer)
    trainer.accelerator = SimpleNamespace(device=torch.device("cpu"), is_main_process=True, num_processes=1)
    trainer.state, trainer.args = SimpleNamespace(global_step=0), SimpleNamespace(report_to=[])
    trainer.environments, trainer.async_reward_funcs = None, []
    trainer.reward_funcs, trainer.reward_processing_classes = [loaded(out / "reward.py").trl_reward], [None]
    trainer.reward_func_names = ["tokenmill"]
    monkeypatch.setattr(grpo_trainer, "gather", lambda tensor: tensor)
    given = trainer._calculate_rewards(rows, [row["prompt"] for row in rows], completions, [[1]] * len(rows))
    ours = [export.reward(text, row["task"]) for text, row in zip(texts, rows, strict=True)]
    assert given.squeeze(1).tolist() == ours == [0, 1, 0, 1, 0, 1]


def test_verl_is_given_equal_rewards(tmp_path):
    out = exported(tmp_path, "verl", "tables")
    (first, *_) = pq.read_table(out / "tasks.parquet").to_pylist()
    score = loaded(out / "reward.py").compute_score
    truth = first["reward_model"]["ground_truth"]
    assert score(first["data_source"], orjson.loads(truth)["reference"], truth, first["extra_info"]) == 1
    assert score(first["data_source"], "Answer: 1", truth, first["extra_info"]) == 0


def test_verifiers_gets_a_module_with_an_environment(tmp_path):
    out = exported(tmp_path, "verifiers", "riddles")
    assert "def load_environment" in (out / "reward.py").read_text()
    row = json.loads((out / "tasks.jsonl").read_text().splitlines()[0])
    assert export.reward(json.loads(row["answer"])["reference"], row["answer"]) == 1


def test_what_a_judge_decides_is_not_exported(tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["gym", "export", "instructions-judged", "--for", "trl", "--output", str(out)]) == 2
    assert "a model takes part" in capsys.readouterr().err and not out.exists()
    with pytest.raises(UsageError):
        export.check_exportable(find("instructions-judged"))


def test_an_old_export_is_not_overwritten(tmp_path, capsys):
    exported(tmp_path, "trl", "morse")
    assert cli.main(["gym", "export", "morse", "--for", "trl", "--output", str(tmp_path / "trl")]) == 2
    assert "is there already" in capsys.readouterr().err


def test_rewards_are_given_where_a_loop_runs():
    import asyncio

    task = next(itertools.islice(find("morse").tasks(0), 1))

    async def inside():
        return export.reward(task.reference, orjson.dumps(task).decode())

    assert asyncio.run(inside()) == 1

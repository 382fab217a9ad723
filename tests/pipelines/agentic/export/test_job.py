"""`agentic export`: kept rows in another shape, from the command line."""

from __future__ import annotations

import json

import datasets
import pytest

from tests.pipelines.agentic.scripted_trajectories import TOOL, trajectory, write_run
from tokenmill import cli


@pytest.fixture
def made(tmp_path):
    write_run(tmp_path / "run", [trajectory(n) for n in range(3)])
    (tmp_path / "run" / "manifest.json").write_text("{}")
    return tmp_path / "run"


def export(run, output, *more):
    return cli.main(["agentic", "export", str(run), "--output", str(output), *more])


def test_rows_load_in_the_shape_asked_for(made, tmp_path, capsys):
    assert export(made, tmp_path / "out", "--format", "one_call") == 0
    assert "3 rows in data/" in capsys.readouterr().out
    rows = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "out/data/*.parquet"), split="train", cache_dir=str(tmp_path / "hf")
    )
    row = rows.sort("id")[0]
    assert [m["role"] for m in row["messages"]] == ["system", "user", *("assistant", "tool") * 2, "assistant"]
    assert [len(m.get("tool_calls", ())) for m in row["messages"]] == [0, 0, 1, 0, 1, 0, 0]
    asked = row["messages"][4]["tool_calls"][0]
    assert asked["function"]["arguments"] == {"city": "Rome"} and row["messages"][5]["tool_call_id"] == asked["id"]
    assert row["tools"] == [TOOL] and row["task_id"] == "agent/0"


def test_lines_for_fine_tuning_hold_nothing_else(made, tmp_path):
    assert export(made, tmp_path / "out", "--format", "openai", "--jsonl") == 0
    (file,) = (tmp_path / "out" / "data").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 3 and set(lines[0]) == {"messages", "tools"}
    calling = lines[0]["messages"][2]
    assert json.loads(calling["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}
    assert not any(value is None for message in lines[0]["messages"] for value in message.values())


def test_what_is_wrong_is_one_line(made, tmp_path, capsys):
    (tmp_path / "there").mkdir()
    for run, output, told in (
        (tmp_path / "nowhere", "out", "holds no finished run"),
        (made, "there", "is there already"),
    ):
        assert export(run, tmp_path / output, "--format", "plain") == 2
        assert told in capsys.readouterr().err

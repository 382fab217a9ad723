"""Fine-tuning on tool conversations, from Parquet rows to calls that the declared schema accepts."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
import torch
from tokenmill.training.checkpoint import load_model
from tokenmill.training.metrics import read_metrics
from tokenmill.training.pretrain import main as pretrain
from tokenmill.training.sample import chat
from tokenmill.training.sample import main as sample
from tokenmill.training.sft import main
from tokenmill.training.tokenizer import Tokenizer

from tests.training.shards import WEATHER, conversation, conversations, texts, write_rows


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """A checkpoint that has seen conversations' texts, so that its tokenizer knows their words."""
    folder = tmp_path_factory.mktemp("start")
    torch.set_num_threads(1)
    mill, chats = texts(folder / "mill", 20), conversations(folder / "chats", 10)
    flags = ["--data", f"mill:{mill}", f"chats:{chats}", "--config", "tiny", "--tokens", "2048", "--lr", "0.01"]
    pretrain([*flags, "--declarations", "json", "--batch-tokens", "512", "--output", str(folder / "ckpt")])
    return folder / "ckpt"


@pytest.fixture(scope="module")
def tuned(start, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tuned")
    rows = [conversation(number) for number in range(40)]
    rows.append({"messages": "broken", "tools": "[]"})
    rows.append({"messages": json.dumps([{"role": "user", "content": "word " * 2000}]), "tools": "[]"})
    data = write_rows(folder / "data", rows)
    flags = ["--data", f"chats:{data}@12", "--init", str(start), "--output", str(folder / "ckpt"), "--lr", "0.01"]
    main([*flags, "--sequence-length", "512", "--batch-tokens", "512", "--declarations", "json"])
    return folder / "ckpt"


def test_the_assistants_part_is_learnt(tuned):
    lines = read_metrics(tuned)
    assert lines[-1]["cross_entropy"] < 0.2 < lines[0]["cross_entropy"]
    assert lines[-1]["epochs"] == {"chats": 12.0}
    assert all(line["targets"] < 0.6 * (line["tokens"] - before["tokens"]) for before, line in pairwise(lines))


def test_rows_left_out_are_counted(tuned):
    dropped = json.loads((tuned / "dropped.json").read_text())
    assert sum(dropped.values()) == 2 * 12
    assert any("too long" in reason for reason in dropped) and any("broken" in reason for reason in dropped)


def test_a_call_can_be_sampled_and_answered(tuned):
    """What the rows taught: ask for the weather of the place named, then tell it."""
    model, tokenizer = load_model(tuned), Tokenizer.load(tuned)
    for city, sky in (("Oslo", "rain"), ("Rome", "sun")):
        messages = [{"role": "user", "content": f"Weather in {city}?"}]
        first = chat(model, tokenizer, messages, [WEATHER])
        (call,) = first["tool_calls"]
        assert call["id"] == "functions.get_weather:0"
        arguments = json.loads(call["function"]["arguments"])
        jsonschema.validate(arguments, WEATHER["function"]["parameters"])
        assert arguments["city"] == city
        messages += [first, {"role": "tool", "tool_call_id": call["id"], "content": sky}]
        assert chat(model, tokenizer, messages, [WEATHER])["content"] == f"In {city}: {sky}."


def test_the_command_line_writes_a_message(tuned, tmp_path, capsys):
    (tmp_path / "tools.json").write_text(json.dumps([WEATHER]))
    flags = ["--message", "Weather in Rome?", "--tools", str(tmp_path / "tools.json"), "--declarations", "json"]
    sample([str(tuned), *flags])
    message = json.loads(capsys.readouterr().out)
    assert message["tool_calls"][0]["function"]["name"] == "get_weather"


def test_rows_as_structs_train_too(start, tmp_path):
    answer = [{"role": "assistant", "content": "hm"}]
    rows = [{"messages": json.loads(conversation(n)["messages"])[:1] + answer} for n in range(8)]
    data = write_rows(tmp_path / "data", rows)
    main(["--data", str(data), "--init", str(start), "--output", str(tmp_path / "out"), "--sequence-length", "64"])
    assert read_metrics(tmp_path / "out")[-1]["targets"] > 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--data", "TEXT", "--init", "START"], "has no `messages` column"),
        (["--data", "CHATS"], "or give --init"),
        (["--data", "CHATS", "--init", "START", "--config", "tiny"], "give one of the two"),
        (
            ["--data", "CHATS", "--init", "START", "--sequence-length", "20"],
            "no row of chats can be trained on (3 chats: too long)",
        ),
    ],
)
def test_one_clear_line_for_what_cannot_be(start, tmp_path, capsys, flags, said):
    places = {
        "TEXT": str(texts(tmp_path / "text", 3)),
        "CHATS": str(conversations(tmp_path / "chats", 3)),
        "START": str(start),
    }
    with pytest.raises(SystemExit) as stop:
        main([*(places.get(flag, flag) for flag in flags), "--output", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err.strip().splitlines()[-1]

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.bench.servers.mill import documents
from tokenmill.training.data.rows import InputError
from tokenmill.training.tokenizer import SMALLEST, SPECIAL_TOKENS, Tokenizer, main

from tests.training.shards import conversations, texts

TEXTS = [row["text"] for row in documents(80)]
TOKENIZER = Tokenizer.train(TEXTS, 600)


@given(st.text() | st.lists(st.sampled_from([*SPECIAL_TOKENS, " ", "\n", "the", "42"])).map("".join))
@settings(max_examples=150, deadline=None)
def test_any_text_comes_back_and_never_holds_a_special_token(text):
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert not {TOKENIZER.special(token) for token in SPECIAL_TOKENS} & set(ids)


def test_training_is_deterministic_and_learns_from_the_texts(tmp_path):
    again = Tokenizer.train(TEXTS, 600)
    assert again.backend.to_str() == TOKENIZER.backend.to_str()
    assert len(TOKENIZER) == 600
    assert len(TOKENIZER.encode(TEXTS[0])) < len(TEXTS[0]) / 2.5


def test_saved_and_loaded_alike_by_us_and_by_transformers(tmp_path):
    from transformers import AutoTokenizer

    TOKENIZER.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    text = TEXTS[3] + " naïve 12345\n\n  日本"
    assert Tokenizer.load(tmp_path).encode(text) == TOKENIZER.encode(text)
    assert theirs(text, add_special_tokens=False).input_ids == TOKENIZER.encode(text)
    assert theirs.convert_tokens_to_ids("<|im_end|>") == TOKENIZER.special("<|im_end|>")


def test_a_step_of_a_run_finds_the_runs_tokenizer(tmp_path):
    TOKENIZER.save(tmp_path)
    step = tmp_path / "steps" / "step-00000001"
    step.mkdir(parents=True)
    assert len(Tokenizer.load(step)) == len(TOKENIZER)


def test_numbers_are_cut_in_threes():
    assert [TOKENIZER.decode(TOKENIZER.encode("1234567")[:1])][0] in ("1", "12", "123")
    pieces = TOKENIZER.backend.pre_tokenizer.pre_tokenize_str("1234567")
    assert [piece for piece, _ in pieces] == ["123", "456", "7"]


def test_command_line(tmp_path, capsys):
    data = texts(tmp_path / "run", 40)
    chats = conversations(tmp_path / "chats", 5)
    main(["--data", str(data), str(data / "data"), "--vocab-size", "400", "--output", str(tmp_path / "out")])
    assert json.loads(capsys.readouterr().out) == {"vocabulary": 400}
    assert len(Tokenizer.load(tmp_path / "out")) == 400
    main(["--data", str(chats), "--vocab-size", str(SMALLEST + 50), "--output", str(tmp_path / "out2")])
    assert Tokenizer.load(tmp_path / "out2").encode("get_weather") != list(b"get_weather")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--data", "nowhere", "--vocab-size", "400"], "nowhere: no such file"),
        (["--data", "RUN", "--vocab-size", "100"], "leaves no room"),
    ],
)
def test_one_clear_line_for_bad_flags(tmp_path, capsys, flags, said):
    run = texts(tmp_path / "run", 5)
    with pytest.raises(SystemExit) as stop:
        main([flag.replace("RUN", str(run)) for flag in flags] + ["--output", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_folder_without_tokenizer_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no tokenizer"):
        Tokenizer.load(tmp_path)

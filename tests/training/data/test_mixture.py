"""Trajectory rows where they are read: `datasets`, `trl`, and our own training in the report's template.

The convention: `messages` is a list of records whose absent fields are null; arguments and `tools` are declared as JSON, so that
`datasets` gives objects, while Arrow gives their text; results are text.
"""

from __future__ import annotations

import json
from importlib import resources

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenmill.bench.servers.mill import documents
from tokenmill.training.data.mixture import ConversationEncoder, Example
from tokenmill.training.data.rows import find_files, open_shards
from tokenmill.training.tokenizer import Tokenizer

from tests.pipelines.agentic.scripted_trajectories import TOOL, trajectory, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), [trajectory(n) for n in range(4)])


def test_training_learns_the_agents_tokens_alone(run):
    tokenizer = Tokenizer.train((row["text"] for row in documents(80)), 600)
    shards = open_shards(find_files(run))
    assert shards.columns == ("messages", "tools")
    example, *_ = ConversationEncoder(tokenizer, None, "typescript")(shards.read(0))
    assert isinstance(example, Example)
    seen = tokenizer.decode(example.inputs.tolist())
    assert "namespace functions" in seen and "## Return of functions.get_weather:1" in seen and "Somebody" not in seen
    learnt = tokenizer.decode(example.targets[np.asarray(example.mask)].tolist())
    for text in ("functions.get_weather:0", '{"city": "Rome"}', "Rain in both places."):
        assert text in learnt
    for text in ("You tell the weather", "please", '"sky"', "namespace"):
        assert text not in learnt and text in seen + "namespace"


def test_rows_load_as_they_are(run, tmp_path):
    rows = datasets.load_dataset("parquet", data_dir=str(run / "data"), split="train", cache_dir=str(tmp_path))
    row = rows.sort("id")[0]
    assert row["tools"] == [TOOL]
    absent = dict.fromkeys(("tool_calls", "tool_call_id", "name", "reasoning_content", "weight"))
    assert row["messages"][0] == {"role": "system", "content": "You tell the weather.", **absent}
    assert row["messages"][2]["tool_calls"][1]["function"]["arguments"] == {"city": "Rome"}
    shard = pq.read_table(find_files(run)[0]).to_pylist()[0]
    assert json.loads(shard["tools"]) == [TOOL] and isinstance(shard["tools"], str), "other readers have the text"


@pytest.fixture(scope="module")
def qwen():
    """A tokenizer built here with the tool-aware Qwen3 template that trl trains with."""
    from tokenizers import Tokenizer as Fast
    from tokenizers import decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    fast = Fast(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    fast.train_from_iterator(
        (row["text"] for row in documents(40)),
        trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=fast, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    template = resources.files("trl").joinpath("chat_templates", "qwen3_training.jinja")
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    return tokenizer


def test_trl_fine_tunes_on_them(run, qwen, tmp_path):
    """One step of `SFTTrainer` on the rows as `load_dataset` gives them, the loss on the assistant's tokens."""
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl import SFTConfig, SFTTrainer

    rows = datasets.load_dataset("parquet", data_dir=str(run / "data"), split="train", cache_dir=str(tmp_path / "hf"))
    config = Qwen2Config(
        vocab_size=len(qwen), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2,
    )  # fmt: skip
    arguments = SFTConfig(
        output_dir=str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=2, assistant_only_loss=True,
        max_length=2048, report_to=[], use_cpu=True, save_strategy="no", logging_steps=1, bf16=False,
        disable_tqdm=True,
    )  # fmt: skip
    trainer = SFTTrainer(Qwen2ForCausalLM(config), args=arguments, train_dataset=rows, processing_class=qwen)
    tokenized = trainer.train_dataset[0]
    text = qwen.decode(tokenized["input_ids"])
    assert '"name": "get_weather"' in text and "<tool_response>" in text and text.count("<tool_call>\n{") >= 2
    learnt = qwen.decode([label for label in tokenized["labels"] if label >= 0])
    assert "Rain in both places." in learnt and '{"city": "Rome"}' in learnt
    assert "sky" not in learnt and "please" not in learnt
    assert trainer.train().training_loss > 0

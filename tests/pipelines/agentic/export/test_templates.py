"""A trajectory's row, as `datasets` gives it, in every chat template that `trl` ships, in the format that the guide names."""

from __future__ import annotations

import json
from importlib import resources

import datasets
import pytest
from tokenmill.pipelines.agentic.export.formats import FORMATS
from tokenmill.pipelines.agentic.export.templates import TEMPLATES
from tokenmill.schemas.agentic import ChatMessage, ToolCall, ToolCallFunction
from transformers import PreTrainedTokenizerFast
from trl import supports_tool_calling
from trl.data_utils import prepare_multimodal_messages

from tests.pipelines.agentic.scripted_trajectories import TOOL, trajectory, write_run

SHIPPED = sorted(
    file.name.removesuffix(".jinja")
    for file in resources.files("trl").joinpath("chat_templates").iterdir()
    if file.name.endswith(".jinja")
)
SAID = ("SYSTEM", "ASKED", "OSLO", "RAIN", "WHICH", "DAY", "BESIDE", "PARIS", "SUN", "ALL DRY")
"""What must stand in a rendered conversation, in this order where it can be told."""
DECLARED = ("get_weather", "Weather of a place", "city")


def _call(number, city):
    function = ToolCallFunction(name="get_weather", arguments=json.dumps({"city": city}))
    return ToolCall(id=f"functions.get_weather:{number}", function=function)


def _result(call, text):
    return ChatMessage(role="tool", content=json.dumps({"sky": text}), tool_call_id=call.id, name="get_weather")


@pytest.fixture(scope="module")
def row(tmp_path_factory):
    """Two calls in one message, a question to the user, a call with a text beside it: loaded as users load it."""
    first, second, third = _call(0, "OSLO"), _call(1, "ROME"), _call(2, "PARIS")
    messages = [
        ChatMessage(role="system", content="SYSTEM"),
        ChatMessage(role="user", content="ASKED"),
        ChatMessage(role="assistant", tool_calls=[first, second], weight=1, reasoning_content="Two places."),
        _result(first, "RAIN"),
        _result(second, "RAIN"),
        ChatMessage(role="assistant", content="WHICH", weight=1),
        ChatMessage(role="user", content="DAY"),
        ChatMessage(role="assistant", content="BESIDE", tool_calls=[third], weight=1),
        _result(third, "SUN"),
        ChatMessage(role="assistant", content="ALL DRY", weight=1),
    ]
    folder = tmp_path_factory.mktemp("run")
    write_run(folder, [trajectory(0, messages=messages)])
    rows = datasets.load_dataset("parquet", data_dir=str(folder / "data"), split="train", cache_dir=str(folder / "hf"))
    return rows[0]


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    return PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def _template(name):
    return resources.files("trl").joinpath("chat_templates", f"{name}.jinja").read_text(encoding="utf-8")


def _rendered(tokenizer, name, messages, tools):
    tokenizer.chat_template = _template(name)
    if name.startswith(("idefics", "llava", "smolvlm")):
        messages = prepare_multimodal_messages(messages)
    return tokenizer.apply_chat_template(messages, tools=tools or None, tokenize=False)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_template_renders_the_row_in_the_format_that_the_guide_names(name, row, tokenizer):
    shape = TEMPLATES[name]
    messages, tools = FORMATS[shape](row["messages"], row["tools"]) if shape else (row["messages"], row["tools"])
    text = _rendered(tokenizer, name, messages, tools)
    places = [text.find(said) for said in SAID]
    assert -1 not in places and places == sorted(places), text
    assert (
        text.count("RAIN") >= 2 and "ROME" in text and all(part in text for part in DECLARED) and "None" not in text
    ), text


@pytest.mark.parametrize("name", SHIPPED)
def test_a_template_that_calls_tools_is_given_calls(name, tokenizer):
    tokenizer.chat_template = _template(name)
    assert supports_tool_calling(tokenizer) == (not TEMPLATES[name].startswith("plain"))


def test_no_template_is_forgotten_or_made_up():
    assert set(TEMPLATES) == set(SHIPPED)
    assert TOOL["function"]["name"] in DECLARED

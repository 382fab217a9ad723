"""The enforcer: whatever an untrained model would like to write, calls fit the declared schemas."""

from __future__ import annotations

import json

import jsonschema
import pytest
import torch
from tokenmill.bench.servers.mill import documents
from tokenmill.training.checkpoint import save_checkpoint
from tokenmill.training.encoding import encode_prompt
from tokenmill.training.enforcer import Enforcer
from tokenmill.training.model import Model, generate, preset
from tokenmill.training.sample import chat, complete, main
from tokenmill.training.tokenizer import SPECIAL_TOKENS, Tokenizer

from tests.training.shards import WEATHER

TOKENIZER = Tokenizer.train((row["text"] for row in documents(80)), 600)
NOW = {"type": "function", "function": {"name": "now"}}
BOOK = {
    "type": "function",
    "function": {
        "name": "book-table",
        "parameters": {
            "type": "object",
            "properties": {
                "guests": {"type": "integer", "minimum": 1, "maximum": 12},
                "when": {"$ref": "#/$defs/day"},
                "notes": {"type": "array", "items": {"enum": ["quiet", "window"]}, "maxItems": 2},
            },
            "required": ["guests", "when"],
            "$defs": {"day": {"type": "string", "pattern": "^(mon|fri)$"}},
        },
    },
}
TOOLS = [WEATHER, BOOK, NOW]
SCHEMAS = {tool["function"]["name"]: tool["function"].get("parameters", {"maxProperties": 0}) for tool in TOOLS}
ASK = [{"role": "user", "content": "Please."}]


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # Wide initial weights: an untrained model with strong and senseless wishes.
    return Model(preset("tiny").replace(vocab_size=640, initializer_range=0.3)).eval()


@pytest.mark.parametrize("seed", range(4))
def test_calls_always_fit(model, seed):
    generator = torch.Generator().manual_seed(seed)
    message = chat(
        model, TOKENIZER, ASK, TOOLS, choice="required", max_tokens=800, temperature=1.0, generator=generator
    )
    assert message["content"] is None and message["tool_calls"]
    for number, call in enumerate(message["tool_calls"]):
        name = call["function"]["name"]
        assert call["id"] == f"functions.{name}:{number}"
        jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMAS[name])


def test_numbers_go_on_over_the_dialogue(model):
    call = {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    messages = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [call, call | {"id": "b"}]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]
    made = chat(model, TOKENIZER, messages, [NOW], choice="required", max_tokens=300)
    assert made["tool_calls"][0]["id"] == "functions.now:2"


def test_rows_of_a_batch_are_kept_apart(model):
    enforcer = Enforcer(TOKENIZER, TOOLS, vocab_size=640, choice="required")
    prompts = [encode_prompt(TOKENIZER, ASK), encode_prompt(TOKENIZER, [*ASK, *ASK])]
    stop = [TOKENIZER.special("<|im_end|>")]
    generator = torch.Generator().manual_seed(1)
    made = generate(model, prompts, 800, stop=stop, constrain=enforcer, temperature=1.0, generator=generator)
    for tokens in made:
        assert tokens[-1] == stop[0] and tokens[-2] == TOKENIZER.special("<|tool_calls_section_end|>")


@pytest.mark.parametrize(("tools", "choice"), [((), "auto"), (TOOLS, "none")])
def test_without_a_section_no_special_token_but_the_turns_end_is_written(model, tools, choice):
    enforcer = Enforcer(TOKENIZER, tools, vocab_size=640, choice=choice)
    allowed = enforcer(0, [])
    specials = {token for token in SPECIAL_TOKENS if allowed[TOKENIZER.special(token)]}
    assert specials == {"<|im_end|>"}
    assert not allowed[600:].any() and allowed[len(SPECIAL_TOKENS) : 600].all()


def test_a_model_may_choose_to_call(model):
    allowed = Enforcer(TOKENIZER, TOOLS, vocab_size=640)(0, [])
    assert allowed[TOKENIZER.special("<|tool_calls_section_begin|>")] and allowed[TOKENIZER.encode("The")[0]]


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({"function": {"name": "two words"}}, "no name for a function"),
        ({"function": {"name": "f", "parameters": {"properties": {"x": {"type": "strange"}}}}}, "cannot be enforced"),
    ],
)
def test_what_cannot_be_enforced_is_refused(tool, said):
    with pytest.raises(ValueError, match=said):
        Enforcer(TOKENIZER, [tool], vocab_size=640)


def test_completion_is_text(model):
    text = complete(model, TOKENIZER, "In 1750", 12, temperature=1.0, generator=torch.Generator().manual_seed(0))
    assert text and not any(token in text for token in SPECIAL_TOKENS)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["nowhere", "--prompt", "x"], "nowhere"),
        (["CKPT"], "one of the arguments"),
        (["CKPT", "--message", "x", "--tools", "nowhere.json"], "nowhere.json"),
        (["CKPT", "--message", "x", "--tool-choice", "required"], "needs tools"),
        (["CKPT", "--prompt", "x", "--temperature", "-1"], "temperature"),
        (
            ["CKPT", "--message", "x", "--tools", "TOOLS", "--tool-choice", "required", "--max-tokens", "3"],
            "not closed",
        ),
    ],
)
def test_one_clear_line_for_what_cannot_be(model, tmp_path, capsys, flags, said):
    save_checkpoint(tmp_path / "ckpt", model)
    TOKENIZER.save(tmp_path / "ckpt")
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    places = {"CKPT": str(tmp_path / "ckpt"), "TOOLS": str(tmp_path / "tools.json")}
    with pytest.raises(SystemExit) as stop:
        main([places.get(flag, flag) for flag in flags])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err.strip().splitlines()[-1]

"""Let a checkpoint write. Run as

    python -m tokenmill.training.sample CKPT --prompt TEXT                         a continuation, as text
    python -m tokenmill.training.sample CKPT --message TEXT [--tools FILE.json]    the assistant's turn, as a JSON message
    python -m tokenmill.training.sample CKPT --messages FILE.json --tools ...      the same after a whole conversation

Tool calls always fit the declared schemas: the tool section is constrained while it is written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenmill.training.checkpoint import CheckpointError, load_model
from tokenmill.training.data.rows import InputError
from tokenmill.training.encoding import encode_prompt, parse_assistant
from tokenmill.training.enforcer import Enforcer, ToolChoice
from tokenmill.training.model import Model, generate
from tokenmill.training.template import Style, TemplateError, declaration
from tokenmill.training.tokenizer import EOS, Tokenizer


def complete(model: Model, tokenizer: Tokenizer, prompt: str, max_tokens: int, **sampling: Any) -> str:
    """The text that follows `prompt` at a document's beginning. `sampling` goes to `generate`."""
    enforcer = Enforcer(tokenizer, vocab_size=model.config.vocab_size)
    allowed = enforcer(0, []).clone()
    allowed[tokenizer.special("<|im_end|>")] = False
    allowed[tokenizer.eos] = True
    prompts = [[tokenizer.bos, *tokenizer.encode(prompt)]]
    (made,) = generate(
        model, prompts, max_tokens, stop=[tokenizer.special(EOS)], constrain=lambda row, made: allowed, **sampling
    )
    return tokenizer.decode(made, skip_special_tokens=True)


def chat(
    model: Model,
    tokenizer: Tokenizer,
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]] = (),
    *,
    max_tokens: int = 256,
    style: Style = "json",
    choice: ToolChoice = "auto",
    **sampling: Any,
) -> dict[str, Any]:
    """The assistant's next message, calls in the OpenAI format with numbers that run on over the dialogue.

    Raises `TemplateError` when `max_tokens` ends inside a call, `ValueError` when a schema cannot be enforced.
    """
    first = sum(len(message.get("tool_calls") or ()) for message in messages)
    enforcer = Enforcer(tokenizer, tools, vocab_size=model.config.vocab_size, first=first, choice=choice)
    prompt = encode_prompt(tokenizer, messages, declaration(tools, style))
    stop = [tokenizer.special("<|im_end|>")]
    (made,) = generate(model, [prompt], max_tokens, stop=stop, constrain=enforcer, **sampling)
    return parse_assistant(tokenizer, made)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.training.sample", description="Sample from a checkpoint."
    )
    parser.add_argument("checkpoint", type=Path, metavar="CKPT")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", help="text to continue")
    what.add_argument("--message", help="what the user says")
    what.add_argument("--messages", type=Path, metavar="FILE.json", help="a list of messages")
    parser.add_argument("--system", help="system message before --message")
    parser.add_argument("--tools", type=Path, metavar="FILE.json", help="a list of tools in the OpenAI format")
    parser.add_argument("--tool-choice", choices=("auto", "required", "none"), default="auto")
    parser.add_argument("--declarations", choices=("typescript", "json"), default="typescript")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest token")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    flags = parser.parse_args(argv)
    try:
        model, tokenizer = load_model(flags.checkpoint, device=flags.device), Tokenizer.load(flags.checkpoint)
        sampling = {
            "temperature": flags.temperature,
            "top_p": flags.top_p,
            "generator": torch.Generator(flags.device).manual_seed(flags.seed),
        }
        if flags.prompt is not None:
            print(complete(model, tokenizer, flags.prompt, flags.max_tokens, **sampling))
            return 0
        messages = _read_list(flags.messages) if flags.messages else [{"role": "user", "content": flags.message}]
        if flags.system:
            messages.insert(0, {"role": "system", "content": flags.system})
        tools = _read_list(flags.tools) if flags.tools else []
        message = chat(
            model,
            tokenizer,
            messages,
            tools,
            max_tokens=flags.max_tokens,
            style=flags.declarations,
            choice=flags.tool_choice,
            **sampling,
        )
        print(json.dumps(message, ensure_ascii=False))
    except (CheckpointError, InputError, TemplateError, ValueError, OSError) as error:
        parser.error(str(error))
    return 0


def _read_list(path: Path) -> list[dict[str, Any]]:
    value = json.loads(path.read_text())
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError(f"{path}: is not a JSON list of objects")
    return value


if __name__ == "__main__":
    raise SystemExit(main())

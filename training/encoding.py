"""Conversations as tokens, and a message from the tokens that spell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tokenmill.training.template import Segment, TemplateError, render
from tokenmill.training.tokenizer import Tokenizer


def encode_segments(
    tokenizer: Tokenizer, conversations: Sequence[Sequence[Segment]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """[(tokens int32, trained bool)] of each conversation, both (time,). All texts go to the tokenizer at once."""
    texts = [segment.text for segments in conversations for segment in segments if not segment.special]
    encoded = iter(tokenizer.encode_batch(texts))
    result = []
    for segments in conversations:
        parts = [
            np.asarray([tokenizer.special(s.text)], dtype=np.int32) if s.special else next(encoded) for s in segments
        ]
        trained = np.repeat([s.trained for s in segments], [len(part) for part in parts])
        result.append((np.concatenate(parts), trained))
    return result


def encode_prompt(tokenizer: Tokenizer, messages: Sequence[dict[str, Any]], declared: str = "") -> list[int]:
    """A conversation up to where the assistant is to write."""
    ((tokens, _),) = encode_segments(tokenizer, [list(render(messages, declared, generation_prompt=True))])
    return tokens.tolist()


def parse_assistant(tokenizer: Tokenizer, tokens: Sequence[int]) -> dict[str, Any]:
    """The message that generated tokens spell, calls in the OpenAI format. Raises `TemplateError` on a broken call."""
    names = {tokenizer.special(t): t for t in ("<|im_end|>", "[EOS]")}
    tokens = list(tokens)
    end = next((i for i, token in enumerate(tokens) if token in names), len(tokens))
    begin, finish = (tokenizer.special(f"<|tool_calls_section_{edge}|>") for edge in ("begin", "end"))
    if begin not in tokens[:end]:
        return {"role": "assistant", "content": tokenizer.decode(tokens[:end])}
    start = tokens.index(begin)
    if finish not in tokens[start:end]:
        raise TemplateError("the tool section was not closed")
    section = tokens[start + 1 : tokens.index(finish, start)]
    calls = [_parse_call(tokenizer, part) for part in _split(section, tokenizer.special("<|tool_call_begin|>"))[1:]]
    content = tokenizer.decode(tokens[:start])
    return {"role": "assistant", "content": content or None, "tool_calls": calls}


def _parse_call(tokenizer: Tokenizer, tokens: list[int]) -> dict[str, Any]:
    # Cut at the tokens, not at their spelling: arguments may spell anything.
    head, *rest = _split(tokens, tokenizer.special("<|tool_call_argument_begin|>"))
    name = tokenizer.decode(head).strip()
    function = name.removeprefix("functions.").rpartition(":")[0]
    if len(rest) != 1 or not function or tokenizer.special("<|tool_call_end|>") not in rest[0]:
        raise TemplateError("a tool call is broken")
    arguments = tokenizer.decode(_split(rest[0], tokenizer.special("<|tool_call_end|>"))[0]).strip()
    return {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}}


def _split(tokens: list[int], at: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for token in tokens:
        if token == at:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts

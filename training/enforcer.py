"""The enforcer (K2 report, appendix B): once the tool section opens, only calls that fit the declared schemas come out.

The grammar is run by llguidance. Outside the section the assistant writes freely, but no special token of another turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from tokenmill.training.tokenizer import SPECIAL_TOKENS, Tokenizer
from torch import Tensor

ToolChoice = Literal["auto", "required", "none"]
MOST_CALLS = 8
"""Parallel calls that one section may hold."""
_BEGIN, _END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


def section_grammar(tools: Sequence[dict[str, Any]], first: int = 0, most: int = MOST_CALLS) -> str:
    """Lark grammar of what follows the section's opening: calls numbered from `first`, then its end.

    Raises `ValueError` for a tool without a usable name.
    """
    arguments, heads = [], []
    for index, tool in enumerate(tools):
        function = tool.get("function", tool)
        name = function.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"tool {index}: {name!r} is no name for a function")
        # A parameter that nobody declared is an invention, so it stays out unless the schema invites it.
        closed = {"type": "object", "properties": {}, "additionalProperties": False}
        schema = closed | (function.get("parameters") or {})
        # Without this a model can write blanks for ever.
        schema["x-guidance"] = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", "}
        arguments.append(f"arguments_{index}: %json {json.dumps(schema)}")
        heads.append((name, f"arguments_{index}"))
    calls = []
    for number in range(most):
        options = " | ".join(
            f"{json.dumps(f'functions.{name}:{first + number}')} <|tool_call_argument_begin|> {rule}"
            for name, rule in heads
        )
        more = f" call_{number + 1}?" if number + 1 < most else ""
        calls.append(f"call_{number}: <|tool_call_begin|> ({options}) <|tool_call_end|>{more}")
    return "\n".join([f"start: call_0 {_END}", *calls, *arguments]) + "\n"


class Enforcer:
    """A `Constraint` for `training.model.generate`; one object for one call of it.

    `first` is the number of the next call in the dialogue. Raises `ValueError` when a schema cannot be enforced.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        tools: Sequence[dict[str, Any]] = (),
        *,
        vocab_size: int,
        first: int = 0,
        choice: ToolChoice = "auto",
    ) -> None:
        if choice == "required" and not tools:
            raise ValueError("tool choice: 'required' needs tools")
        self._matchers: dict[int, Any] = {}
        self._read: dict[int, int] = {}
        self._begin = tokenizer.special(_BEGIN)
        self._end = self._only(vocab_size, tokenizer.special("<|im_end|>"))
        self._call = self._only(vocab_size, self._begin)
        self._free = torch.arange(vocab_size) < len(tokenizer)
        for token in SPECIAL_TOKENS:
            self._free[tokenizer.special(token)] = False
        self._free |= self._end
        if tools and choice != "none":
            self._free |= self._call
        self._first = self._call if choice == "required" else self._free
        self._vocab_size = vocab_size
        self._pattern = self._compile(tokenizer, tools, first) if tools else None

    def _compile(self, tokenizer: Tokenizer, tools: Sequence[dict[str, Any]], first: int) -> Any:
        from llguidance import LLMatcher, LLTokenizer

        reader = LLTokenizer(
            tokenizer.backend.to_str(), n_vocab=self._vocab_size, eos_token=tokenizer.special("<|im_end|>")
        )
        matcher = LLMatcher(reader, LLMatcher.grammar_from_lark(section_grammar(tools, first)), log_level=0)
        if matcher.is_error():
            raise ValueError(f"the tools' schemas cannot be enforced: {matcher.get_error().splitlines()[0]}")
        return matcher

    @staticmethod
    def _only(vocab_size: int, token: int) -> Tensor:
        allowed = torch.zeros(vocab_size, dtype=torch.bool)
        allowed[token] = True
        return allowed

    def __call__(self, row: int, made: Sequence[int]) -> Tensor:
        if not made:
            return self._first
        for token in made[self._read.get(row, 0) :]:
            self._consume(row, token)
        self._read[row] = len(made)
        matcher = self._matchers.get(row)
        if matcher is None:
            return self._free
        if matcher.is_stopped():
            return self._end
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.unpackbits(bits, bitorder="little")[: self._vocab_size]
        return torch.from_numpy(allowed.astype(np.bool_))

    def _consume(self, row: int, token: int) -> None:
        matcher = self._matchers.get(row)
        if matcher is None:
            if token == self._begin and self._pattern is not None:
                self._matchers[row] = self._pattern.deep_copy()
        elif not matcher.is_stopped() and not matcher.consume_token(token):
            raise RuntimeError(f"the grammar refuses a token that it allowed: {matcher.get_error()}")

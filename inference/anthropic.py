"""Anthropic's Messages API: our requests in its words, its answers in ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson
from tokenmill.inference.in_words import in_words
from tokenmill.inference.providers import EFFORTS

VERSION = "2023-06-01"
ANSWER_TOOL = "answer"
"""The tool that a structured answer is given through: its input is the answer."""

_BEGIN = "(begin)"
"""Said by nobody, where a conversation does not begin with the user: the API wants it to."""
_TAKEN = (
    "model",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "metadata",
    "service_tier",
    "thinking",
    "output_config",
)
_STOPPED = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
            "tool_use": "tool_calls", "refusal": "content_filter"}  # fmt: skip
_ADAPTIVE = re.compile(r"-4-(?:[6-9]|\d\d(?!\d))|-[5-9](?!\d)|fable|mythos")
"""Models that decide themselves how long they think; older ones are given a number of tokens."""
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]")


class Anthropic:
    """The wire format of `POST /v1/messages`."""

    path = "/messages"
    headers: Mapping[str, str] = MappingProxyType({"anthropic-version": VERSION})
    key_header = "x-api-key"

    def encode(self, body: bytes) -> bytes:
        """A chat-completion request as a Messages request."""
        told = orjson.loads(body)
        thinking = told.get("reasoning_effort") not in (None, "none")
        form = told.get("response_format")
        messages, tools = told["messages"], [_tool(tool) for tool in told.get("tools") or ()]
        asked: dict[str, Any] = {name: told[name] for name in _TAKEN if told.get(name) is not None}
        asked.setdefault("max_tokens", told.get("max_completion_tokens") or 4096)
        if "temperature" in asked:
            asked["temperature"] = min(1.0, asked["temperature"])
            asked.pop("top_p", None)  # newer models take one of both only
        if told.get("stop"):
            asked["stop_sequences"] = [told["stop"]] if isinstance(told["stop"], str) else told["stop"]
        if form is not None:
            schema = form["json_schema"]["schema"]
            if thinking or tools or schema.get("type") != "object":  # thinking models may not be made to call a tool
                messages = in_words(messages, schema)
            else:
                tools = [{"name": ANSWER_TOOL, "description": "Give the answer.", "input_schema": schema}]
                asked["tool_choice"] = {"type": "tool", "name": ANSWER_TOOL}
        if tools:
            asked["tools"] = tools
        if thinking:
            asked |= _thinking(told["model"], told["reasoning_effort"])
        system, asked["messages"] = _conversation(messages)
        if system:
            asked["system"] = system
        return orjson.dumps(asked)

    def decode(self, body: bytes) -> bytes:
        """A Messages answer as a chat completion; the answer itself is kept in `original`. What is none is left as it is."""
        try:
            told = orjson.loads(body)
            blocks = told["content"]
            text = "".join(block["text"] for block in blocks if block["type"] == "text")
            used = [block for block in blocks if block["type"] == "tool_use"]
            reason = _STOPPED.get(told.get("stop_reason") or "", told.get("stop_reason") or "")
            usage = told.get("usage") or {}
        except (ValueError, KeyError, TypeError, AttributeError):
            return body
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thought := "".join(block.get("thinking") or "" for block in blocks if block["type"] == "thinking"):
            message["reasoning_content"] = thought
        if len(used) == 1 and used[0]["name"] == ANSWER_TOOL:
            # The text before it, if any, is no part of the answer.
            message["content"], reason = (
                orjson.dumps(used[0]["input"]).decode(),
                "stop" if reason != "length" else reason,
            )
        elif used:
            message["tool_calls"] = [
                {
                    "id": block["id"],
                    "type": "function",
                    "function": {"name": block["name"], "arguments": orjson.dumps(block["input"]).decode()},
                }
                for block in used
            ]
        read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
        prompt = (usage.get("input_tokens") or 0) + read + written
        completion = usage.get("output_tokens") or 0
        return orjson.dumps(
            {
                "id": told.get("id"),
                "object": "chat.completion",
                "model": told.get("model"),
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {
                    "prompt_tokens": prompt,
                    "completion_tokens": completion,
                    "total_tokens": prompt + completion,
                    "prompt_tokens_details": {"cached_tokens": read},
                },
                "original": told,
            }
        )


def _thinking(model: str, effort: str) -> dict[str, Any]:
    if _ADAPTIVE.search(model):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low" if effort == "minimal" else effort}}
    return {"thinking": {"type": "enabled", "budget_tokens": max(1024, EFFORTS[effort])}}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    made = {"name": function["name"], "input_schema": function.get("parameters") or {"type": "object"}}
    return made | ({"description": function["description"]} if function.get("description") else {})


def _conversation(messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt, and the turns: user and assistant in alternation, each a list of blocks."""
    system = [str(m["content"]) for m in messages if m["role"] in ("system", "developer")]
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] in ("system", "developer"):
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": _BEGIN}]})
    return "\n\n".join(system), turns


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if message["role"] == "tool":
        text = content if isinstance(content, str) else orjson.dumps(content).decode()
        return [{"type": "tool_result", "tool_use_id": _id(message["tool_call_id"]), "content": text}]
    blocks: list[dict[str, Any]] = []
    if isinstance(content, str) and content.strip():
        # The API refuses an assistant's last words with blanks at their end.
        blocks = [{"type": "text", "text": content.rstrip() if message["role"] == "assistant" else content}]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        blocks.append({"type": "tool_use", "id": _id(call["id"]), "name": function["name"], "input": _input(function)})
    return blocks


def _id(given: str) -> str:
    return _NOT_IN_ID.sub("_", given)


def _input(function: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments, which the API wants as an object; whatever else a model wrote is told as it stands."""
    try:
        told = orjson.loads(function.get("arguments") or "{}")
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {"arguments": function.get("arguments")}

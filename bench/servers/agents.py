"""Answers with tool calls, and what a scripted model sees of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from tokenmill.bench.servers.scripted import completion


def calling(calls: Sequence[tuple[str, Any]], text: str | None = None) -> dict[str, Any]:
    """A chat completion that calls tools; arguments that are no text are sent as JSON."""
    answer = completion(text or "")
    message = answer["choices"][0]["message"]
    message["content"] = text
    message["tool_calls"] = [
        {
            "id": f"chatcmpl-tool-{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": given if isinstance(given, str) else orjson.dumps(given).decode(),
            },
        }
        for number, (name, given) in enumerate(calls)
    ]
    answer["choices"][0]["finish_reason"] = "tool_calls"
    return answer


def results(body: dict[str, Any]) -> list[str]:
    """Texts of the tool results in a request, in order."""
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]

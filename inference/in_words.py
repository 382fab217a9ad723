"""A schema told in words, to whoever cannot be given it."""

from __future__ import annotations

from typing import Any

import orjson

from tokenmill import prompts


def in_words(messages: list[dict[str, Any]], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages that end with what form the answer must have."""
    asked = prompts.load("structured/schema").render(schema=orjson.dumps(schema).decode())[0]
    *before, last = messages
    if last["role"] == asked["role"] and isinstance(last.get("content"), str):
        return [*before, {**last, "content": f"{last['content']}\n\n{asked['content']}"}]
    return [*messages, asked]

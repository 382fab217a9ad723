"""Other shapes of a conversation, for chat templates that the usual one does not suit, and for endpoints that fine-tune.

    messages, tools = FORMATS["one_call"](row["messages"], row["tools"])

Messages are as OpenAI has them, absent fields left out; `docs/guide/templates.md` says which template takes which format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
Tools = list[dict[str, Any]]

DECLARED = """# Tools

You can call these functions. To call some, answer with nothing but a JSON object {"calls": [{"name": …, "arguments": {…}}]}; \
their results come in the next message.

"""
"""What stands before the declarations of tools in a system prompt."""


@dataclass(frozen=True)
class Format:
    """What is changed of a conversation, in this order."""

    meaning: str
    text_apart: bool = False
    """Text beside calls becomes a message of its own before them."""
    one_call: bool = False
    """A message with several calls becomes several, each followed by its result."""
    declared: bool = False
    """Tools are declared in the system prompt too, and not apart from it."""
    in_words: bool = False
    """Calls are the agent's text, results a message of the user: for models without tool calling."""
    headless: bool = False
    """The system prompt is the beginning of the first message of the user."""
    as_text: bool = False
    """Arguments are JSON text."""
    bare: bool = False
    """Reasoning is left out."""

    def __call__(self, messages: Sequence[Message], tools: Tools) -> tuple[list[Message], Tools]:
        """The conversation and its tools in this format; what is given is left as it is.

        Args:
            messages: as `datasets` gives them: null where a message has no such field, arguments as objects or as text.
        """
        left_out = ("reasoning_content",) if self.bare else ()
        made = [_clean(message, left_out) for message in messages]
        if self.text_apart:
            made = [part for message in made for part in _apart(message)]
        if self.one_call:
            made = _one_by_one(made)
        if self.declared and tools:
            told = DECLARED + "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
            made = [{**m, "content": f"{m['content']}\n\n{told}"} if m["role"] == "system" else m for m in made]
            tools = []
        if self.in_words:
            made = _in_words(made)
        if self.headless:
            made = _headless(made)
        if self.as_text:
            made = [_with_arguments(m, lambda given: json.dumps(given, ensure_ascii=False)) for m in made]
        return made, tools


FORMATS = {
    "openai": Format(
        "arguments as JSON text, no reasoning: what endpoints that fine-tune take", as_text=True, bare=True
    ),
    "text_apart": Format("text beside calls as a message of its own", text_apart=True),
    "one_call": Format("one call in a message, its result after it; text beside calls apart", True, True),
    "declared": Format("tools declared in the system prompt; text beside calls apart", True, declared=True),
    "declared_text": Format("the same, arguments as JSON text", True, declared=True, as_text=True),
    "plain": Format("for models without tool calling: calls as JSON in the agent's text", declared=True, in_words=True),
    "plain_no_system": Format(
        "the same, the system prompt before the first message of the user", declared=True, in_words=True, headless=True
    ),
}
"""By name."""


def _clean(message: Message, left_out: Sequence[str] = ()) -> Message:
    """A message without what is null or left out, its content text, its arguments objects."""
    kept = {name: value for name, value in message.items() if value is not None and name not in left_out}
    kept.setdefault("content", "")
    return _with_arguments(kept, lambda given: json.loads(given) if isinstance(given, str) else given)


def _with_arguments(message: Message, change: Any) -> Message:
    calls = message.get("tool_calls")
    if not calls:
        return message
    changed = [
        {**call, "function": {**call["function"], "arguments": change(call["function"]["arguments"])}} for call in calls
    ]
    return {**message, "tool_calls": changed}


def _apart(message: Message) -> list[Message]:
    if not (message.get("tool_calls") and message["content"]):
        return [message]
    said = {name: value for name, value in message.items() if name != "tool_calls"}
    calls = {name: value for name, value in message.items() if name != "reasoning_content"}
    return [said, {**calls, "content": ""}]


def _one_by_one(messages: Sequence[Message]) -> list[Message]:
    """Several calls of one message one after the other. Calls of a turn do not rest on each other's results."""
    results = {message["tool_call_id"]: message for message in messages if message["role"] == "tool"}
    made: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            continue
        calls = message.get("tool_calls") or []
        if not calls:
            made.append(message)
        for number, call in enumerate(calls):
            rest = {} if number == 0 else {"content": ""}
            first = {n: v for n, v in message.items() if number == 0 or n != "reasoning_content"}
            made.append({**first, **rest, "tool_calls": [call]})
            if call["id"] in results:
                made.append(results[call["id"]])
    return made


def _in_words(messages: Sequence[Message]) -> list[Message]:
    """Users and agent alone, in turns: results that follow each other are one message."""
    made: list[Message] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            role, content = "user", f"Result of {message.get('name') or message['tool_call_id']}:\n{content}"
        if calls := message.get("tool_calls"):
            told = {"calls": [call["function"] for call in calls]}
            content = "\n\n".join(filter(None, (content, json.dumps(told, ensure_ascii=False))))
        more: Message = {name: message[name] for name in ("reasoning_content", "weight") if name in message}
        if made and made[-1]["role"] == role != "system":
            content = f"{made.pop()['content']}\n\n{content}"
        made.append({"role": role, "content": content, **more})
    return made


def _headless(messages: Sequence[Message]) -> list[Message]:
    system = [message["content"] for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    if not system or not rest:
        return rest
    return [{**rest[0], "content": "\n\n".join([*system, rest[0]["content"]])}, *rest[1:]]

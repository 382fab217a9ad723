"""The chat and tool-calling template (K2 report, appendix B; spelt as in the released template of Kimi-K2-Instruct).

A conversation becomes segments of text and special tokens. Only what the assistant itself writes is trained on: its
text, its calls and the token that ends its turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tokenmill.schemas.draws import uniform

Style = Literal["typescript", "json", "mixed"]
JSON_SHARE = 0.25
"""Of conversations whose tools a "mixed" run declares in JSON; the report prefers TypeScript and mixes JSON in."""
_OPENING = {
    "user": "<|im_user|>",
    "assistant": "<|im_assistant|>",
    "system": "<|im_system|>",
    "developer": "<|im_system|>",
    "tool": "<|im_system|>",
}


class TemplateError(ValueError):
    """A row is not a conversation; the text names what is wrong with it."""


@dataclass(frozen=True)
class Segment:
    text: str
    special: bool = False
    trained: bool = False


def normalize_row(row: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """`messages` and `tools` of a row, given as JSON strings or as structs. Raises `TemplateError`."""
    messages, tools = _value(row.get("messages"), "messages"), _value(row.get("tools"), "tools") or []
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise TemplateError("messages is not a list of messages")
    if not isinstance(tools, list) or not all(isinstance(t, dict) for t in tools):
        raise TemplateError("tools is not a list of tools")
    return messages, tools


def _value(column: Any, what: str) -> Any:
    if isinstance(column, str):
        try:
            return json.loads(column) if column else None
        except ValueError as error:
            raise TemplateError(f"{what} is not JSON: {error}") from error
    # Arrow gives every struct the keys of all others, filled with null.
    return _without_nulls(column)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [_without_nulls(entry) for entry in value] if isinstance(value, list) else value


def declaration(tools: Sequence[dict[str, Any]], style: Style = "json") -> str:
    """Body of the `tool_declare` turn, empty without tools. Tools are in the OpenAI format."""
    if not tools:
        return ""
    document = json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
    if style == "json" or (style == "mixed" and uniform("tool declaration", document) < JSON_SHARE):
        return document
    from tokenmill.schemas.typescript.render import render_namespace

    return f"# Tools\n\n{render_namespace(list(tools))}"


def render(
    messages: Sequence[dict[str, Any]], declared: str = "", *, generation_prompt: bool = False
) -> Iterator[Segment]:
    """Segments of a conversation. A message with `weight` 0 (a turn that a simulator wrote, say) is not trained on.

    Calls are numbered through over the dialogue, whatever ids they carry, and results follow that numbering.
    Raises `TemplateError`.
    """
    if declared:
        yield from _turn("<|im_system|>", "tool_declare", [Segment(declared)])
    numbered: dict[str, str] = {}
    waiting: list[str] = []
    calls = 0
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in _OPENING:
            raise TemplateError(f"message {index}: unknown role {role!r}")
        text = _text(message.get("content"), index)
        trained = role == "assistant" and message.get("weight", 1) != 0
        body = [Segment(text, trained=trained)] if text else []
        if role == "tool":
            name = _answered(message, index, numbered, waiting)
            body = [Segment(f"## Return of {name}\n{text}")]
        if role == "assistant" and message.get("tool_calls"):
            body.append(Segment("<|tool_calls_section_begin|>", True, trained))
            for call in message["tool_calls"]:
                function, arguments = _function(call, index)
                name = f"functions.{function}:{calls}"
                calls += 1
                numbered[str(call.get("id", name))] = name
                waiting.append(name)
                body += [
                    Segment("<|tool_call_begin|>", True, trained),
                    Segment(name, trained=trained),
                    Segment("<|tool_call_argument_begin|>", True, trained),
                    Segment(arguments, trained=trained),
                    Segment("<|tool_call_end|>", True, trained),
                ]
            body.append(Segment("<|tool_calls_section_end|>", True, trained))
        yield from _turn(_OPENING[role], message.get("name") or role, body, trained)
    if generation_prompt:
        yield from _opening("<|im_assistant|>", "assistant")


def _opening(token: str, name: str) -> list[Segment]:
    return [Segment(token, True), Segment(name), Segment("<|im_middle|>", True)]


def _turn(token: str, name: str, body: Sequence[Segment], trained: bool = False) -> Iterator[Segment]:
    yield from _opening(token, name)
    yield from body
    yield Segment("<|im_end|>", True, trained)


def _text(content: Any, index: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in content):
        return "".join(part["text"] for part in content)
    raise TemplateError(f"message {index}: content is neither text nor parts of text")


def _function(call: Any, index: int) -> tuple[str, str]:
    """Name and arguments of a call; arguments given as text are kept to the letter."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise TemplateError(f"message {index}: a tool call without a function name")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    return function["name"], arguments


def _answered(message: dict[str, Any], index: int, numbered: dict[str, str], waiting: list[str]) -> str:
    """The call that a result belongs to: by its id, or the first that waits when it has none."""
    wanted = message.get("tool_call_id")
    name = numbered.get(str(wanted)) if wanted else next(iter(waiting), None)
    if name is None:
        raise TemplateError(f"message {index}: a tool result for no call ({wanted!r})")
    if name in waiting:
        waiting.remove(name)
    return name

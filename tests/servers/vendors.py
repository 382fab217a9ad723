"""Scripted servers that speak as strictly as the vendors do: what their documentation does not allow is HTTP 400."""

from __future__ import annotations

import itertools
import re
from typing import Any

import orjson
from tokenmill.bench.servers.scripted import Connection, ScriptedServer

_ALLOWED = {
    "model", "messages", "max_tokens", "system", "temperature", "top_p", "top_k", "stop_sequences", "tools", "tool_choice",
    "thinking", "output_config", "metadata", "service_tier", "stream",
}  # fmt: skip


class MessagesServer(ScriptedServer):
    """Anthropic's Messages API. `answer` gets the request as an OpenAI chat completion would have put it: the last user
    turn's text in `messages`, `response_format` where a tool is forced."""

    def serve(self, connection: Connection, head: bytes, body: bytes) -> None:
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        low = head.lower()
        if f"x-api-key: {self.key}".encode() not in low or b"authorization:" in low:
            connection.send(401, _error("authentication_error", "invalid x-api-key"))
        elif b"anthropic-version: 2023-06-01" not in low:
            connection.send(400, _error("invalid_request_error", "anthropic-version: header is required"))
        elif method == "GET":
            connection.send(200, orjson.dumps({"data": [{"type": "model", "id": m} for m in self.models]}))
        elif path != "/v1/messages":
            connection.send(404, _error("not_found_error", path))
        else:
            self.log.requests += 1
            told = orjson.loads(body)
            fault = problem(told)
            self.log.kinds["400" if fault else "200"] += 1
            if fault:
                connection.send(400, _error("invalid_request_error", fault))
                return
            self.log.bodies[body] += 1
            connection.send(200, orjson.dumps(self.message(told)))

    def message(self, told: dict[str, Any]) -> dict[str, Any]:
        last = told["messages"][-1]["content"]
        text = "\n".join(block["text"] for block in last if block["type"] == "text")
        forced = told.get("tool_choice")
        request = {"messages": [{"role": "user", "content": text}], **({"response_format": {}} if forced else {})}
        said = self.answer(request)
        block = {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": orjson.loads(said)} if forced else {
            "type": "text", "text": said
        }  # fmt: skip
        thought = [{"type": "thinking", "thinking": "hm", "signature": "s"}] if told.get("thinking") else []
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": told["model"],
            "content": [*thought, block],
            "stop_reason": "tool_use" if forced else "end_turn",
            "usage": {"input_tokens": 70, "cache_read_input_tokens": 30, "output_tokens": max(1, len(str(said)) // 4)},
        }


def problem(told: dict[str, Any]) -> str:
    """What the Messages API would refuse in a request."""
    if unknown := told.keys() - _ALLOWED:
        return f"{sorted(unknown)[0]}: Extra inputs are not permitted"
    if not isinstance(told.get("max_tokens"), int):
        return "max_tokens: Field required"
    sampled = told.keys() & {"temperature", "top_p", "top_k"}
    if re.search(r"opus-4-[78]", told["model"]) and sampled:
        return "`temperature` is deprecated for this model."
    if {"temperature", "top_p"} <= sampled:
        return "`temperature` and `top_p` cannot both be specified for this model."
    thinking = told.get("thinking")
    if thinking and (sampled - {"top_p"} or told.get("tool_choice", {}).get("type") in ("tool", "any")):
        return "Thinking may not be enabled when temperature is set or a tool is forced"
    if thinking and thinking["type"] == "enabled" and not 1024 <= thinking["budget_tokens"] < told["max_tokens"]:
        return "max_tokens must be greater than thinking.budget_tokens"
    roles = [message["role"] for message in told["messages"]]
    if not roles or roles[0] != "user" or any(a == b for a, b in itertools.pairwise(roles)):
        return "messages: roles must alternate, user first"
    asked: set[str] = set()
    for message in told["messages"]:
        for block in message["content"]:
            if block["type"] == "text" and not block["text"].strip():
                return "messages: text content blocks must contain non-whitespace text"
            if block["type"] == "tool_use":
                if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]) or not isinstance(block["input"], dict):
                    return "messages: tool_use.id or input is wrong"
                asked.add(block["id"])
            if block["type"] == "tool_result" and block["tool_use_id"] not in asked:
                return "messages: unexpected tool_use_id in tool_result"
    return ""


class StrictServer(ScriptedServer):
    """Chat completions of a vendor that refuses fields it does not know.

    Args:
        refused: those fields.
        header: a request's line that must hold the key, in lower case.
    """

    def __init__(self, answer: Any, *, refused: frozenset[str], header: str, **more: Any) -> None:
        super().__init__(answer, **more)
        self.refused, self.header = refused, header

    def serve(self, connection: Connection, head: bytes, body: bytes) -> None:
        if self.header.encode() not in head.lower():
            connection.send(401, b'{"error":{"message":"wrong key"}}')
            return
        wrong = sorted(orjson.loads(body).keys() & self.refused) if body else []
        if wrong:
            message = f'Invalid JSON payload received. Unknown name "{wrong[0]}": Cannot find field.'
            self.log.kinds["400"] += 1
            connection.send(400, orjson.dumps([{"error": {"code": 400, "message": message}}]))
            return
        super().serve(connection, head, body)


def _error(kind: str, message: str) -> bytes:
    return orjson.dumps({"type": "error", "error": {"type": kind, "message": message}})

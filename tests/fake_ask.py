"""An `ask` for testing rollouts without HTTP: it answers from a function and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tokenmill.inference.call import Answer, Usage


@dataclass
class FakeAsk:
    """`answer(body)` gives the text, or raises; `body` is what would be on the wire, with `to` and `attempt`."""

    answer: Callable[[dict[str, Any]], str]
    asked: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str = "stop"

    async def __call__(self, messages, *, to="writer", schema=None, tools=None, attempt=0, **params) -> Answer:
        body = {"messages": messages, "to": to, "attempt": attempt, **params}
        if schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        if tools is not None:
            body["tools"] = tools
        self.asked.append(body)
        text = self.answer(body)
        return Answer(text, self.finish_reason, Usage(10, 5), "fake")

    def to(self, role: str) -> list[dict[str, Any]]:
        return [body for body in self.asked if body["to"] == role]

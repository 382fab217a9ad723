"""What a trajectory is judged by: its messages, its calls, the state before and after."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from tokenmill.schemas.agentic import CallRecord, ChatMessage
from tokenmill.schemas.tools import ToolSpec

State = dict[str, Any]

_READING = re.compile(
    r"^(?:get|list|search|find|look_?up|lookup|query|read|fetch|check|show|view|describe|retrieve|browse|count|verify"
    r"|validate|calculate|compute|convert|estimate|compare|preview|track|quote|translate|summari[sz]e|analy[sz]e)",
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class Evidence:
    """One finished trajectory as the judges see it. States are `{kind: {identifier: record}}`."""

    messages: Sequence[ChatMessage]
    """System prompt first, as the agent saw them."""
    calls: Sequence[CallRecord]
    """In the order in which they were made."""
    state_before: State
    state_after: State
    tools: Sequence[ToolSpec] = ()
    """The agent's tools: their defaults and semantics tell more of a call."""

    @cached_property
    def said(self) -> tuple[tuple[int, str], ...]:
        """(index, text) of every text that the agent wrote to the user."""
        return tuple(self._texts("assistant"))

    @cached_property
    def heard(self) -> tuple[tuple[int, str], ...]:
        """(index, text) of every message of the user."""
        return tuple(self._texts("user"))

    def _texts(self, role: str) -> list[tuple[int, str]]:
        return [
            (index, message.content)
            for index, message in enumerate(self.messages)
            if message.role == role and message.content and message.content.strip()
        ]

    @cached_property
    def specs(self) -> dict[str, ToolSpec]:
        """The agent's tools by name."""
        return {spec.name: spec for spec in self.tools}

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """Each call's arguments, parsed; None where they are no JSON."""
        return tuple(_parsed(call.arguments) for call in self.calls)

    @cached_property
    def filled(self) -> tuple[Any, ...]:
        """Each call's arguments with the defaults that its tool's schema states for those left out."""
        return tuple(
            _defaults(self.specs.get(call.tool)) | given if isinstance(given, dict) else given
            for call, given in zip(self.calls, self.arguments, strict=True)
        )

    @cached_property
    def results(self) -> tuple[Any, ...]:
        """Each call's result, parsed; plain text where it is no JSON."""
        return tuple(call.result if (value := _parsed(call.result)) is None else value for call in self.calls)

    def wrote(self, index: int) -> bool:
        """Whether a call changed something: the state, or whatever a tool that writes changes when it succeeds."""
        call = self.calls[index]
        changed = _parsed(call.patch) not in (None, [])
        return changed or (not call.error and writes(call.tool, self.specs.get(call.tool)))


def writes(name: str, spec: ToolSpec | None = None) -> bool:
    """Whether a tool changes the world, as far as its annotations, its semantics and at last its name tell."""
    if spec is not None:
        hint = (_parsed(spec.annotations) or {}).get("readOnlyHint")
        if spec.semantics.writes or hint is False:
            return True
        if hint is True or spec.semantics.reads:
            return False
    words = _HUMP.sub("_", name).lower().replace("-", "_").strip("_")
    return not any(map(_READING.match, (words, words.partition("_")[2])))


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _defaults(spec: ToolSpec | None) -> dict[str, Any]:
    schema = _parsed(spec.input_schema) if spec is not None else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: part["default"] for name, part in properties.items() if isinstance(part, dict) and "default" in part}

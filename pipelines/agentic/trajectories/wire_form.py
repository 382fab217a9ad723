"""Whether a finished trajectory is valid on the wire: what an endpoint would refuse and a template could not render must not
become training data."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from tokenmill.schemas.agentic import ChatMessage, CriterionVerdict

CHECK, REASON = "form", "malformed"


def judge_form(messages: Sequence[ChatMessage], tools: Collection[str], malformed: int = 0) -> CriterionVerdict:
    """The verdict on a trajectory's form.

    Args:
        tools: names of the tools that the agent has.
        malformed: calls whose arguments were no JSON object when the agent wrote them.
    """
    found = faults(messages, tools)
    if malformed:
        found.append(f"{malformed} calls had arguments that are no JSON object")
    return CriterionVerdict(
        criterion=CHECK,
        passed=not found,
        score=float(not found),
        decided_by="code",
        reason=REASON if found else "",
        detail="; ".join(found[:3]),
    )


def faults(messages: Sequence[ChatMessage], tools: Collection[str]) -> list[str]:
    """What is wrong, one line each: the order of roles, calls without result, results without call, ids, tools that are not
    declared, arguments that are no JSON object, turns without content."""
    found: list[str] = []
    if not messages or messages[0].role != "system":
        found.append("the first message is no system prompt")
    if len(messages) < 2 or messages[1].role != "user":
        found.append("the second message is not the user's")
    if messages and (messages[-1].role != "assistant" or messages[-1].tool_calls):
        found.append("the last message is no reply of the agent")
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        where = f"message {index}"
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                found.append(f"{where}: a result for no call")
            else:
                waiting.remove(message.tool_call_id)
            continue
        if waiting:
            found.append(f"{where}: {len(waiting)} calls before it have no result")
            waiting = []
        if message.role == "system" and index:
            found.append(f"{where}: a second system prompt")
        if message.role not in ("system", "user", "assistant"):
            found.append(f"{where}: unknown role {message.role!r}")
        if not (message.content or "").strip() and not message.tool_calls:
            found.append(f"{where}: nothing in it")
        if message.role == "user" and messages[index - 1].role == "user":
            found.append(f"{where}: the user speaks twice")
        for call in message.tool_calls or ():
            name = call.function.name
            if message.role != "assistant":
                found.append(f"{where}: a call by {message.role}")
            if name not in tools:
                found.append(f"{where}: calls {name[:64]!r}, which the agent does not have")
            if call.id in seen or call.id != f"functions.{name}:{len(seen)}":
                found.append(f"{where}: the call's id is {call.id[:80]!r}")
            if not _is_object(call.function.arguments):
                found.append(f"{where}: arguments that are no JSON object")
            seen.add(call.id)
            waiting.append(call.id)
    if waiting:
        found.append(f"{len(waiting)} calls at the end have no result")
    return found


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False

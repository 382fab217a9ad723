"""One turn of the agent: the conversation goes out as its model takes it, the answer comes back in the form that rows have.

Two protocols. `native`: OpenAI tool calling. `json`: for models without it, a JSON answer that either calls or replies.
Both end in the same `ChatMessage`, its calls numbered `functions.NAME:COUNTER` over the trajectory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson
from tokenmill.inference.call import Answer, Ask, Message
from tokenmill.inference.structured import StructuredAnswerInvalid, ask_json
from tokenmill.inference.thinking import opens_thinking
from tokenmill.prompts.fence import defuse, fence
from tokenmill.schemas.agentic import ChatMessage, ToolCall, ToolCallFunction
from tokenmill.schemas.answer_schema import array, record
from tokenmill.schemas.typescript.render import render_namespace
from tokenmill.tools_repo.world.ask_checked import REPAIR
from tokenmill.tools_repo.world.call_checks import INVALID_ARGUMENTS, UNKNOWN_TOOL

from tokenmill import prompts

Protocol = Literal["native", "json"]
NATIVE: Final = "native"
JSON: Final = "json"
CUT_OFF, EMPTY_TURN, INVALID_TURN = "cut_off", "empty_turn", "invalid_turn"
"""Why a turn cannot be used: cut off by the answer's length limit or a content filter, neither text nor call, no valid
answer of the `json` protocol."""
AGENT_PROMPT, RESULTS_PROMPT = "trajectory/json_agent", "trajectory/results"
PROMPTS = {NATIVE: (), JSON: (AGENT_PROMPT, RESULTS_PROMPT, REPAIR)}
"""Prompts that a protocol adds to the agent's own."""

LONGEST_ID = 40
"""Characters that hosted endpoints allow a call's id; a longer one goes out as `call_COUNTER`."""
MOST_CALLS = 16
"""Calls in one answer that are looked at; a model that repeats itself must not run the world for ever."""
MISTAKES = (UNKNOWN_TOOL, INVALID_ARGUMENTS)
"""Errors of a call that are the agent's own: a turn that makes one stays in the conversation and is not to be learnt."""


@dataclass(frozen=True)
class AgentTurn:
    """What the agent did in one turn."""

    message: ChatMessage
    arguments: tuple[str, ...] = ()
    """Of each call, to the letter: in `message` arguments that are no JSON object stand as `{}`."""
    tokens: int = 0
    """Length of the conversation by now, as billed."""
    problem: str = ""
    """Why the turn cannot be used; empty when it can."""

    @property
    def malformed(self) -> int:
        """Calls whose arguments are no JSON object."""
        return sum(_object(text) is None for text in self.arguments)


async def take_turn(
    protocol: Protocol,
    messages: Sequence[ChatMessage],
    tools: list[dict[str, Any]],
    ask: Ask,
    *,
    counter: int,
    **params: Any,
) -> AgentTurn:
    """Let the agent (role `writer`) answer the conversation so far.

    Args:
        messages: system prompt first.
        tools: OpenAI `tools`.
        counter: number of the next call, counted over the trajectory from 0.
        params: to `ask`, such as `attempt` and `temperature`.

    Raises:
        tokenmill.inference.errors.CallRefused: the endpoint will never take this conversation.
    """
    if protocol == NATIVE:
        answer = await ask([wire_native(m) for m in messages], to="writer", tools=tools or None, **params)
        return _native(answer, tools, counter)
    sent = wire_json(messages, tools)
    try:
        found = await ask_json(ask, sent, answer_schema(tools), to="writer", **params)
    except StructuredAnswerInvalid:
        return AgentTurn(ChatMessage(role="assistant"), problem=INVALID_TURN)
    calls = [(call["tool"], call["arguments"]) for call in found.value.get("calls", ())]
    answer = found.answers[-1]
    return _turn(found.value.get("reply", ""), calls, counter, answer.usage.total, answer.reasoning)


def wire_native(message: ChatMessage) -> Message:
    """A message as the OpenAI protocol has it, absent fields left out and control tokens in its text broken."""
    sent: Message = {"role": message.role}
    if message.content is not None:
        sent["content"] = defuse(message.content)
    if message.tool_calls:
        sent["tool_calls"] = [
            {
                "id": _wire_id(call.id),
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        sent["tool_call_id"] = _wire_id(message.tool_call_id)
    return sent


def _wire_id(id: str) -> str:
    return id if len(id) <= LONGEST_ID else f"call_{id.rpartition(':')[2]}"


def wire_json(messages: Sequence[ChatMessage], tools: list[dict[str, Any]]) -> list[Message]:
    """The conversation for a model without tool calling: tools in the system prompt, calls as JSON, results fenced in a
    user message. Tools are declared in TypeScript."""
    sent: list[Message] = []
    results: list[str] = []
    for message in messages:
        if message.role == "tool":
            results.append(f"{message.tool_call_id}\n{fence(message.content or '', 'result')}")
            continue
        if results:
            sent += prompts.load(RESULTS_PROMPT).render(results="\n\n".join(results))
            results = []
        if message.role == "system":
            declared = defuse(render_namespace(tools))
            sent += prompts.load(AGENT_PROMPT).render(system=defuse(message.content or ""), tools=declared)
        elif message.role == "assistant":
            sent.append({"role": "assistant", "content": _as_answer(message)})
        else:
            sent.append({"role": message.role, "content": defuse(message.content or "")})
    if results:
        sent += prompts.load(RESULTS_PROMPT).render(results="\n\n".join(results))
    return sent


def _as_answer(message: ChatMessage) -> str:
    if not message.tool_calls:
        return orjson.dumps({"reply": message.content or ""}).decode()
    calls = [
        {"tool": call.function.name, "arguments": orjson.Fragment(call.function.arguments)}
        for call in message.tool_calls
    ]
    return orjson.dumps({"calls": calls}).decode()


def answer_schema(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """JSON Schema of an answer of the `json` protocol. Arguments are any object: the world checks them."""
    reply = record(reply={"type": "string", "minLength": 1})
    if not tools:
        return reply
    call = record(tool={"enum": [tool["function"]["name"] for tool in tools]}, arguments={"type": "object"})
    return {"anyOf": [record(calls=array(call, MOST_CALLS, 1)), reply]}


def _native(answer: Answer, tools: list[dict[str, Any]], counter: int) -> AgentTurn:
    known = {tool["function"]["name"] for tool in tools}
    calls: list[tuple[str, Any]] = []
    for call in answer.tool_calls[:MOST_CALLS]:
        function = call.get("function") if isinstance(call, dict) else None
        function = function if isinstance(function, dict) else {}
        name = str(function.get("name") or "")
        bare = name.removeprefix("functions.")
        calls.append((bare if bare in known else name, function.get("arguments")))
    turn = _turn(answer.text, calls, counter, answer.usage.total, answer.reasoning)
    if answer.finish_reason in ("length", "content_filter") or opens_thinking(answer.text):
        return AgentTurn(turn.message, turn.arguments, turn.tokens, CUT_OFF)
    return turn


def _turn(text: str, calls: Sequence[tuple[str, Any]], counter: int, tokens: int, reasoning: str) -> AgentTurn:
    made, written = [], []
    for number, (name, arguments) in enumerate(calls, counter):
        as_written = arguments if isinstance(arguments, str) else _dump(arguments or {})
        as_written = as_written.strip() or "{}"
        written.append(as_written)
        kept = as_written if _object(as_written) is not None else "{}"
        made.append(
            ToolCall(id=f"functions.{name}:{number}", function=ToolCallFunction(name=name, arguments=kept)),
        )
    text, thought = _sound(text), _sound(reasoning)
    message = ChatMessage(
        role="assistant", content=text or None, tool_calls=made or None, reasoning_content=thought or None, weight=1
    )
    return AgentTurn(message, tuple(written), tokens, "" if text or made else EMPTY_TURN)


def _sound(text: str) -> str:
    """Text without lone surrogates, which no file takes."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()


def _dump(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # whole numbers beyond 64 bits, lone surrogates
        return json.dumps(value)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None

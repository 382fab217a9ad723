"""A small shop: tools, tasks and trajectories for the tests of the rubric judges."""

from __future__ import annotations

from typing import Any

from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.schemas.agentic import Agent, AgentTask, CallRecord, ChatMessage, Criterion, ToolCall, ToolCallFunction
from tokenmill.schemas.tools import Semantics, ToolSpec, dump

STATE: dict[str, Any] = {
    "Order": {"A-17": {"status": "open", "total": 64.9}, "A-18": {"status": "shipped", "total": 20}},
    "Refund": {},
}


def tool(name: str, properties: dict[str, Any], *, reads=(), writes=(), returns: dict | None = None) -> ToolSpec:
    return ToolSpec(
        id=f"synthetic/shop/{name}",
        name=name,
        description=name.replace("_", " "),
        input_schema=dump({"type": "object", "properties": properties}),
        output_schema=dump(returns) if returns else "",
        origin="synthetic",
        semantics=Semantics(reads=list(reads), writes=list(writes)),
    )


TEXT = {"type": "string"}
TOOLS = [
    tool("get_order", {"order_id": TEXT}, reads=["Order"], returns={"type": "object", "properties": {"total": {}}}),
    tool(
        "cancel_order",
        {"order_id": TEXT, "reason": {"type": "string", "enum": ["mistake", "late"]}, "notify": {"default": True}},
        writes=["Order"],
    ),
    tool("refund_order", {"order_id": TEXT, "amount": {"type": "number"}}, writes=["Refund"]),
    tool("list_orders", {"lines": {"type": "array", "items": {"properties": {"sku": TEXT}}}}, reads=["Order"]),
]


def criterion(name: str, kind: str, spec: dict[str, Any], **columns: Any) -> Criterion:
    return Criterion(id=name, kind=kind, description=columns.pop("description", name), spec=dump(spec), **columns)


def is_(path: str, op: str, value: Any = None) -> dict[str, Any]:
    return {"path": path, "is": op, "value": value}


def call(
    name: str, arguments: dict[str, Any], result: Any = None, *, error: str = "", patch: Any = ()
) -> dict[str, Any]:
    return {
        "tool": name,
        "arguments": arguments,
        "result": result or {"ok": True},
        "error": error,
        "patch": list(patch),
    }


def evidence(*turns: Any, before: dict | None = None, after: dict | None = None, tools=TOOLS) -> Evidence:
    """Turns: `"U text"`, `"A text"`, or a list of `call`s made in one turn."""
    messages = [ChatMessage(role="system", content="You help customers of a shop.")]
    records: list[CallRecord] = []
    for turn in turns:
        if isinstance(turn, str):
            messages.append(ChatMessage(role="user" if turn[0] == "U" else "assistant", content=turn[2:]))
            continue
        at, ids = len(messages), [f"functions.{c['tool']}:{len(records) + i}" for i, c in enumerate(turn)]
        asked = [
            ToolCall(id=i, function=ToolCallFunction(name=c["tool"], arguments=dump(c["arguments"])))
            for i, c in zip(ids, turn, strict=True)
        ]
        messages.append(ChatMessage(role="assistant", tool_calls=asked))
        for i, c in zip(ids, turn, strict=True):
            result = c["result"] if isinstance(c["result"], str) else dump(c["result"])
            records.append(
                CallRecord(
                    id=i, turn=at, tool=c["tool"], arguments=dump(c["arguments"]), result=result, error=c["error"],
                    patch=dump(c["patch"]),
                )
            )  # fmt: skip
            messages.append(ChatMessage(role="tool", content=result, tool_call_id=i, name=c["tool"]))
    before = STATE if before is None else before
    return Evidence(messages, records, before, before if after is None else after, tools)


def task(rubric: list[Criterion], **columns: Any) -> AgentTask:
    bookkeeping = {"model": "", "prompts": [], "seed": 0, "prompt_tokens": 0, "completion_tokens": 0}
    agent = Agent(
        id="shop", system="You help customers of a shop.", role="", expertise="", tone="", behaviour="", tools=TOOLS,
        policy=columns.pop("policy", []), sampling="domain", domains=[], entities="", state=dump(STATE), **bookkeeping,
    )  # fmt: skip
    given = {"level": "one_call", "situation": "", "opening": "", "goal": "", "state": dump(STATE), **columns}
    return AgentTask(id="shop/0", agent=agent, rubric=rubric, **given, **bookkeeping)

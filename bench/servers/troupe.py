"""Scripted players of agentic trajectories: an agent, a user, tools and a judge who know one shop and its orders.

A task is "cancel order ORD-n"; what is right follows from the request alone. `faults` spoils the play of orders by number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from tokenmill.bench.servers.agents import calling, results
from tokenmill.bench.servers.scripted import completion
from tokenmill.schemas.agentic import ANSWER, CALL, STATE, Agent, AgentTask, Criterion, Fact, ReferenceCall
from tokenmill.schemas.engines import Engine, EngineModule
from tokenmill.schemas.tools import Semantics, ToolSpec

MODELS = ("agent", "user", "tools", "judge")
ENTITIES = json.dumps(
    {
        "Order": {
            "description": "An order of a customer",
            "schema": {
                "type": "object",
                "properties": {
                    "order_id": {"type": "string"},
                    "status": {"type": "string", "enum": ["open", "cancelled"]},
                    "total": {"type": "number"},
                },
                "required": ["order_id", "status", "total"],
                "additionalProperties": False,
            },
            "identifier": "order_id",
        }
    }
)
_ID = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
_ORDER = re.compile(r"ORD-(\d+)")
_FENCED = r"<{0}-(\w+)>\n(.*?)\n</{0}-\1>"


def tool(name: str, description: str, semantics: Semantics) -> ToolSpec:
    return ToolSpec(
        id=f"synthetic/shop/{name}",
        name=name,
        description=description,
        input_schema=json.dumps(_ID),
        origin="synthetic",
        domain=["shop"],
        license="cc0-1.0",
        semantics=semantics,
    )


TOOLS = [
    tool("get_order", "Look up an order.", Semantics(reads=["Order"])),
    tool("cancel_order", "Cancel an open order.", Semantics(reads=["Order"], writes=["Order"])),
]


MODULE = """
def get_order(state, args, now):
    if args["order_id"] not in state["Order"]:
        raise ToolError("not_found", "There is no such order.")
    return state["Order"][args["order_id"]]


def cancel_order(state, args, now):
    order = get_order(state, args, now)
    order["status"] = "cancelled"
    return order
"""


def engine() -> Engine:
    """Both tools as code."""
    names = [spec.name for spec in TOOLS]
    module = EngineModule(
        tools=[spec.id for spec in TOOLS],
        functions=names,
        code=MODULE,
        tests="",
        tests_passed=1,
        calls_checked=1,
        tries=1,
    )
    return Engine(
        id="shop",
        entities=ENTITIES,
        modules=[module],
        missing=[],
        model="m",
        prompts=[],
        seed=0,
        model_calls=1,
        prompt_tokens=1,
        completion_tokens=1,
    )


def agent() -> Agent:
    return Agent(
        id="shop",
        system="You help customers of a shop with their orders. Look an order up before you change it.",
        role="shop assistant",
        expertise="shop",
        tone="kind",
        behaviour="careful",
        tools=TOOLS,
        sampling="domain",
        domains=["shop"],
        entities=ENTITIES,
        state=state(1),
        model="m",
        prompts=["agentic/agent@1"],
        seed=0,
        prompt_tokens=1,
        completion_tokens=1,
    )


def state(number: int) -> str:
    orders = {
        f"ORD-{n}": {"order_id": f"ORD-{n}", "status": "open", "total": 10.5 * n} for n in (number, number + 1000)
    }
    return json.dumps({"Order": orders})


def task(number: int, level: str = "several_calls", told: str = "") -> AgentTask:
    """Cancel order ORD-`number`, whose number the user tells at once."""
    order = f"ORD-{number}"
    rubric = [
        Criterion(
            id="cancels",
            kind=CALL,
            description="the order is cancelled",
            spec=json.dumps(
                {"tool": "cancel_order", "arguments": [{"path": "/order_id", "is": "equals", "value": order}]}
            ),
        ),
        Criterion(
            id="cancelled",
            kind=STATE,
            description="the order stands as cancelled",
            spec=json.dumps({"conditions": [{"path": f"/Order/{order}/status", "is": "equals", "value": "cancelled"}]}),
        ),
        Criterion(
            id="told",
            kind=ANSWER,
            description="the user is told in a kind way",
            spec=json.dumps({"values": [[order]], "statement": told or "The agent said that the order is cancelled."}),
            mandatory=False,
        ),
    ]
    patch = [{"op": "replace", "path": f"/Order/{order}/status", "value": "cancelled"}]
    return AgentTask(
        id=f"shop/{number}",
        agent=agent(),
        level=level,
        situation=f"You ordered something; its order number is {order}.",
        opening=f"You want to cancel the order {order}.",
        goal=f"The order {order} is cancelled.",
        facts=[Fact(name="order number", value=order, volunteered=True)],
        state=state(number),
        rubric=rubric,
        threshold=0.5,
        solution=[
            ReferenceCall(
                tool="cancel_order",
                arguments=json.dumps({"order_id": order}),
                result=json.dumps({"order_id": order, "status": "cancelled"}),
                patch=json.dumps(patch),
            )
        ],
        reply=f"Your order {order} is cancelled.",
        model="m",
        prompts=["agentic/task@1"],
        seed=0,
        prompt_tokens=1,
        completion_tokens=1,
    )


def text_of(body: dict[str, Any]) -> str:
    return "\n".join(message.get("content") or "" for message in body["messages"])


def fenced(label: str, text: str) -> list[str]:
    """Texts in the fences of a label."""
    return [found[1] for found in re.findall(_FENCED.format(label), text, re.DOTALL)]


Fault = Callable[[dict[str, Any]], Any]
"""Gives the answer in place of the honest one, or None to leave it."""


class Troupe:
    """Answers for all roles by the request's `model`; every other model plays the agent too.

    `faults[role]` is asked first. With `native=False` the agent answers in JSON.
    """

    def __init__(self, faults: Mapping[str, Fault] | None = None) -> None:
        self.faults = dict(faults or {})

    def __call__(self, body: dict[str, Any]) -> Any:
        role = body["model"] if body["model"] in MODELS else "agent"
        fault = self.faults.get(role)
        if fault is not None and (answer := fault(body)) is not None:
            return answer
        return getattr(self, role)(body)

    def agent(self, body: dict[str, Any]) -> Any:
        """Looks the order up twice at once, cancels it, tells so; by tool calls, or in JSON where no tools came."""
        if "tools" not in body:
            return self._in_json(body)
        order = {"order_id": next(_ORDER.finditer(body["messages"][1]["content"]))[0]}
        seen = results(body)
        if not seen:
            other = {"order_id": f"ORD-{int(order['order_id'][4:]) + 1000}"}
            return calling([("get_order", order), ("get_order", other)])
        if any('"error"' in text for text in seen[-1:]) and len(seen) < 8:
            return calling([("cancel_order" if len(seen) > 2 else "get_order", order)])
        if len(seen) < 3 or "cancelled" not in seen[-1]:
            return calling([("cancel_order", order)])
        return completion(f"Your order {order['order_id']} is cancelled.")

    def _in_json(self, body: dict[str, Any]) -> str:
        order = next(_ORDER.finditer(body["messages"][1]["content"]))[0]
        seen = [text for message in body["messages"][2:] for text in fenced("result", message["content"])]
        if not seen:
            return json.dumps({"calls": [{"tool": "get_order", "arguments": {"order_id": order}}]})
        if "cancelled" not in seen[-1]:
            return json.dumps({"calls": [{"tool": "cancel_order", "arguments": {"order_id": order}}]})
        return json.dumps({"reply": f"Your order {order} is cancelled."})

    def user(self, body: dict[str, Any]) -> str:
        asked = text_of(body)
        order = next(_ORDER.finditer(fenced("opening", asked)[0]))[0]
        heard = fenced("assistant", asked)
        if not heard:
            turn = {"helped": True, "message": f"Please cancel {order} for me.", "status": "go_on"}
        else:
            done = "cancelled" in heard[-1]
            turn = {
                "helped": done,
                "message": "Thanks." if done else "That is no help.",
                "status": "done" if done else "go_on",
            }
        return json.dumps(turn)

    def tools(self, body: dict[str, Any]) -> str:
        asked = text_of(body)
        call, held = orjson.loads(fenced("call", asked)[-1]), orjson.loads(fenced("state", asked)[-1])
        order = held.get("Order", {}).get(call["arguments"]["order_id"])
        if call["name"] == "get_order":
            return self.simulated(order, [])
        path = f"/Order/{order['order_id']}/status"
        return self.simulated({**order, "status": "cancelled"}, [{"op": "replace", "path": path, "value": "cancelled"}])

    @staticmethod
    def simulated(result: Any, patch: list[dict[str, Any]]) -> str:
        return json.dumps(
            {"check": "It is there.", "error_code": "", "error_message": "", "result": result, "patch": patch}
        )

    def judge(self, body: dict[str, Any]) -> str:
        schema = body["response_format"]["json_schema"]["schema"]
        names = schema["properties"]["verdicts"]["items"]["properties"]["criterion"].get("enum", [])
        transcript = fenced("transcript", text_of(body))[-1]
        at = max(int(n) for n in re.findall(r"^\[(\d+)\]", transcript, re.MULTILINE))
        quote = next(re.finditer(r"Your order ORD-\d+ is cancelled", transcript))[0]
        verdicts = [
            {"criterion": name, "quotes": [{"message": at, "text": quote}], "why": "It says so.", "met": True}
            for name in names
        ]
        return json.dumps({"verdicts": verdicts, "rules": kept_rules(body), "claims": []})


def kept_rules(body: dict[str, Any]) -> list[dict[str, Any]]:
    """A judge's verdict on every rule that it is asked about: kept."""
    rules = body["response_format"]["json_schema"]["schema"]["properties"]["rules"]
    names = rules["items"]["properties"]["rule"].get("enum", [])
    return [{"rule": name, "message": -1, "quote": "", "why": "", "kept": True} for name in names]

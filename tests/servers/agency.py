"""A scripted writer for the agentic stages: designs a small parcel service, writes its agents and their tasks.

    with ScriptedServer(Agency().answer) as server: ...

It tells what it is asked for by the schema of the answer, so that no wording of a prompt is repeated here.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tokenmill.schemas.agentic import (
    DECLINE,
    DEPENDENT_CALLS,
    LEVELS,
    MISSING_INFORMATION,
    ONE_CALL,
    PARALLEL_CALLS,
    RECOVERY,
    SEVERAL_CALLS,
    Domain,
)
from tokenmill.schemas.tools import SYNTHETIC, Semantics, ToolSpec, from_openai

from tokenmill import prompts

ENTITIES = {
    "Parcel": {
        "description": "A parcel under way.",
        "identifier": "parcel_id",
        "schema": {
            "type": "object",
            "properties": {
                "parcel_id": {"type": "string"},
                "status": {"type": "string", "enum": ["in_transit", "delivered", "returned"]},
                "depot_id": {"type": "string", "x-ref": "Depot"},
                "weight_kg": {"type": "number"},
            },
            "required": ["parcel_id", "status", "depot_id", "weight_kg"],
            "additionalProperties": False,
        },
    },
    "Depot": {
        "description": "A depot.",
        "identifier": "depot_id",
        "schema": {
            "type": "object",
            "properties": {"depot_id": {"type": "string"}, "city": {"type": "string"}},
            "required": ["depot_id", "city"],
            "additionalProperties": False,
        },
    },
}
STATE = {
    "Parcel": {
        f"P-{n}": {"parcel_id": f"P-{n}", "status": status, "depot_id": f"D-{n % 2 + 1}", "weight_kg": n / 100}
        for n, status in ((101, "in_transit"), (102, "delivered"), (103, "in_transit"))
    },
    "Depot": {f"D-{n}": {"depot_id": f"D-{n}", "city": city} for n, city in ((1, "Ghent"), (2, "Turin"))},
}
_ID = {"parcel_id": {"type": "string"}}


def parcel_tools(domain: tuple[str, ...] = ("logistics", "parcels")) -> list[ToolSpec]:
    """Five tools over `ENTITIES`."""
    given = (
        ("get_parcel", "Look up one parcel by its number.", _ID, True),
        ("list_depots", "List all depots with their cities.", {}, True),
        ("reroute_parcel", "Send a parcel to another depot.", {**_ID, "depot_id": {"type": "string"}}, False),
        ("return_parcel", "Send a parcel back to its sender.", _ID, False),
        ("weigh_parcel", "Record the weight of a parcel.", {**_ID, "weight_kg": {"type": "number"}}, False),
    )
    tools = []
    for name, text, properties, reads in given:
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        tool = from_openai(
            {"name": name, "description": text, "parameters": schema},
            origin=SYNTHETIC,
            domain=list(domain),
            category=domain[0],
        )
        does = Semantics(reads=["Depot" if "depots" in name else "Parcel"], writes=[] if reads else ["Parcel"])
        tools.append(replace(tool, annotations=json.dumps({"readOnlyHint": reads}), semantics=does))
    return tools


DOMAIN = Domain(
    id="logistics/parcels",
    category="logistics",
    path=["logistics", "parcels"],
    name="parcels",
    description="Parcels under way between depots.",
    operator="seed",
    entities=json.dumps(ENTITIES),
    state=json.dumps(STATE),
)
SYSTEM = (
    "You are the service desk of Quillhaven Parcels number {n}, a carrier between {city} and Turin. You help people who wait "
    "for a parcel or have sent one. You know the depots and how parcels travel, you speak plainly, and you look at the record "
    "before you change anything. You do not deal with claims, customs or prices; for these you name the office in {city}."
)
POLICY = [
    "A parcel whose status is delivered must not be sent back or to another depot.",
    "Before a parcel is sent anywhere the agent names the parcel and the depot to the user.",
]
CITIES = ("Ghent", "Lyon", "Porto", "Graz", "Brno", "Malmö", "Leeds", "Cork")


@dataclass
class Agency:
    """`answer` is for a `ScriptedServer`; `text` for a `FakeAsk`. Tells apart what is asked by the answer's schema."""

    asked: Counter[str] = field(default_factory=Counter)
    """How often each kind of thing was asked for."""
    change: Callable[[str, dict[str, Any], dict[str, Any]], dict[str, Any]] = lambda kind, value, body: value
    """Spoils answers: gets the kind, the good answer and the request."""

    def answer(self, body: dict[str, Any]) -> str:
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        prompt = body["messages"][1]["content"] if len(body["messages"]) > 1 else ""
        for key, kind, make in (
            ("kinds", "entities", lambda: {"kinds": _kinds()}),
            ("Parcel", "state", lambda: {name: list(of.values()) for name, of in STATE.items()}),
            ("policy", "agent", lambda: _agent(prompt)),
            ("rubric", "task", lambda: _task(prompt)),
        ):
            if key in properties:
                self.asked[kind] += 1
                return json.dumps(self.change(kind, make(), body))
        raise ValueError(f"nobody scripted an answer with {', '.join(properties)}")

    def text(self, body: dict[str, Any]) -> str:
        return self.answer(body)


def _kinds() -> list[dict[str, Any]]:
    kinds = []
    for name, kind in ENTITIES.items():
        fields = [
            {
                "name": key,
                "description": "",
                "type": "number" if schema["type"] == "number" else "text",
                "optional": False,
                "values": schema.get("enum", []),
                "refers_to": schema.get("x-ref", ""),
                "fields": [],
            }
            for key, schema in kind["schema"]["properties"].items()
        ]
        kinds.append(
            {"name": name, "description": kind["description"], "identifier": kind["identifier"], "fields": fields}
        )
    return kinds


def _agent(prompt: str) -> dict[str, Any]:
    n = zlib.crc32(prompt.encode()) % 10_000
    words = " ".join(f"word{n}x{i}" for i in range(60))  # agents must not be near-duplicates of each other
    return {
        "role": "service desk of a parcel carrier",
        "system": f"{SYSTEM.format(n=n, city=CITIES[n % len(CITIES)])} {words}",
        "policy": POLICY,
    }


def _call(tool: str, arguments: dict[str, Any], result: Any, *changes: tuple[str, str, Any]) -> dict[str, Any]:
    listed = [{"op": op, "path": path, "value": json.dumps(value)} for op, path, value in changes]
    return {"tool": tool, "arguments": json.dumps(arguments), "result": json.dumps(result), "changes": listed}


def _get(parcel: str) -> dict[str, Any]:
    return _call("get_parcel", {"parcel_id": parcel}, STATE["Parcel"][parcel])


def _return(parcel: str) -> dict[str, Any]:
    done = ("replace", f"/Parcel/{parcel}/status", "returned")
    return _call("return_parcel", {"parcel_id": parcel}, {"parcel_id": parcel, "status": "returned"}, done)


def _reroute(parcel: str, depot: str) -> dict[str, Any]:
    arguments = {"parcel_id": parcel, "depot_id": depot}
    return _call("reroute_parcel", arguments, arguments, ("replace", f"/Parcel/{parcel}/depot_id", depot))


def _criterion(id: str, kind: str, spec: dict[str, Any], checkpoint: int = 0) -> dict[str, Any]:
    return {
        "id": id,
        "kind": kind,
        "description": f"The {kind} {id} is as it should be.",
        "spec": spec,
        "mandatory": True,
        "weight": 1,
        "checkpoint": checkpoint,
    }


def _must_call(id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    conditions = [{"path": f"/{name}", "is": "equals", "value": value} for name, value in arguments.items()]
    return _criterion(
        id, "call", {"tool": tool, "arguments": conditions, "at_least": 1, "at_most": None, "result": "success"}
    )


def _must_be(id: str, **values: Any) -> dict[str, Any]:
    conditions = [{"path": path.replace("__", "/"), "is": "equals", "value": value} for path, value in values.items()]
    return _criterion(id, "state", {"conditions": conditions, "records": [], "unchanged": []})


def _must_tell(id: str, *values: Any, **more: Any) -> dict[str, Any]:
    spec = {"values": [[v] for v in values], "results": [], "never": [], "statement": "", "declines": False}
    return _criterion(id, "answer", spec | more)


def _order(form: str, calls: list[str], about: list[str] | None = None) -> dict[str, Any]:
    return _criterion("order", "order", {"form": form, "calls": calls, "about": about or []})


def _task(prompt: str) -> dict[str, Any]:
    level = next(level for level in LEVELS if prompts.load(f"agentic/levels/{level}").text in prompt)
    number = len(re.findall(r"(?m)^- ", prompt.rpartition("<tasks-")[2]))
    who = ("Mara", "Ioan", "Birte", "Tiago", "Noor", "Anselm", "Jelka", "Otis")[number % 8]
    parcel, other = ("P-101", "P-103") if number % 2 == 0 else ("P-103", "P-101")
    told = [{"name": "parcel number", "value": parcel, "volunteered": level != "missing_information"}]
    task: dict[str, Any] = {
        "title": f"{who} and {level.replace('_', ' ')} number {number}",
        "situation": f"You are {who}. A parcel of yours is under way for days, and {who}'s cousin asks about it.",
        "goal": "",
        "opening": "You want something done about your parcel.",
        "facts": told,
        "changes": [],
        "solution": [],
        "reply": "",
        "rubric": [],
    }
    return task | _BY_LEVEL[level](parcel, other, f"{who} number {number}")


def _one_call(parcel: str, other: str, who: str) -> dict[str, Any]:
    weight = STATE["Parcel"][parcel]["weight_kg"]
    return {
        "goal": f"{who} knows how heavy parcel {parcel} is.",
        "solution": [_get(parcel)],
        "reply": f"Parcel {parcel} weighs {weight} kg.",
        "rubric": [_must_call("look", "get_parcel", parcel_id=parcel), _must_tell("weight", weight)],
    }


def _several(parcel: str, other: str, who: str) -> dict[str, Any]:
    return {
        "goal": f"{who} gets parcel {parcel} sent back while parcel {other} goes to depot D-1.",
        "facts": [{"name": "numbers", "value": f"{parcel} back, {other} to D-1", "volunteered": True}],
        "solution": [_return(parcel), _reroute(other, "D-1")],
        "reply": f"{parcel} goes back to its sender, and {other} to D-1.",
        "rubric": [
            _must_call("back", "return_parcel", parcel_id=parcel),
            _must_call("move", "reroute_parcel", parcel_id=other, depot_id="D-1"),
            _must_be("end", **{f"__Parcel__{parcel}__status": "returned", f"__Parcel__{other}__depot_id": "D-1"}),
        ],
    }


def _parallel(parcel: str, other: str, who: str) -> dict[str, Any]:
    weights = [STATE["Parcel"][each]["weight_kg"] for each in (parcel, other)]
    return {
        "goal": f"{who} learns the weights of both {parcel} and {other} for a list.",
        "facts": [{"name": "numbers", "value": f"{parcel} and {other}", "volunteered": True}],
        "solution": [_get(parcel), _get(other)],
        "reply": f"They weigh {weights[0]} kg and {weights[1]} kg.",
        "rubric": [
            _must_call("first", "get_parcel", parcel_id=parcel),
            _must_call("second", "get_parcel", parcel_id=other),
            _order("same_turn", ["first", "second"]),
            _must_tell("weights", *weights),
        ],
    }


def _dependent(parcel: str, other: str, who: str) -> dict[str, Any]:
    depots = {"depots": list(STATE["Depot"].values())}
    come = {"path": "/depot_id", "is": "from_call", "value": "depots"}
    move = _must_call("move", "reroute_parcel", parcel_id=parcel)
    move["spec"]["arguments"].append(come)
    return {
        "goal": f"{who} wants parcel {parcel} to wait at the place in Ghent.",
        "solution": [_call("list_depots", {}, depots), _reroute(parcel, "D-1")],
        "changes": [{"op": "replace", "path": f"/Parcel/{parcel}/depot_id", "value": "D-2"}],
        "reply": f"{parcel} will wait in Ghent, at D-1.",
        "rubric": [
            _must_call("depots", "list_depots"),
            move,
            _must_be("end", **{f"__Parcel__{parcel}__depot_id": "D-1"}),
        ],
    }


def _missing(parcel: str, other: str, who: str) -> dict[str, Any]:
    return {
        "goal": f"{who} has the parcel with number {parcel} sent back to whom it came from.",
        "solution": [_return(parcel)],
        "reply": f"Parcel {parcel} is on its way back.",
        "rubric": [
            _must_call("back", "return_parcel", parcel_id=parcel),
            _order("after_user", ["back"], [parcel]),
            _must_be("end", **{f"__Parcel__{parcel}__status": "returned"}),
        ],
    }


def _recovery(parcel: str, other: str, who: str) -> dict[str, Any]:
    error = {"error": {"code": "timeout", "message": "No answer in 30 s."}}
    return {
        "goal": f"After long waiting {who} refuses parcel {parcel} and it returns.",
        "solution": [_call("return_parcel", {"parcel_id": parcel}, error), _return(parcel)],
        "reply": f"At the second attempt {parcel} was sent back.",
        "rubric": [
            _must_call("back", "return_parcel", parcel_id=parcel),
            _must_be("end", **{f"__Parcel__{parcel}__status": "returned"}),
        ],
    }


def _decline(parcel: str, other: str, who: str) -> dict[str, Any]:
    wrong = [{"path": "/parcel_id", "is": "equals", "value": "P-102"}]
    reason = "The parcel has been delivered already, so that it cannot be sent back."
    return {
        "goal": f"{who} demands that the delivered parcel P-102 travels home again.",
        "facts": [{"name": "parcel number", "value": "P-102", "volunteered": True}],
        "solution": [_get("P-102")],
        "violation": [_return("P-102")],
        "reply": "P-102 has been delivered already, so I may not send it back.",
        "rubric": [
            _criterion("kept", "forbidden", {"tool": "return_parcel", "arguments": wrong}),
            _criterion("same", "state", {"conditions": [], "records": [], "unchanged": ["*"]}),
            _must_tell("no", statement=reason, declines=True),
        ],
    }


_BY_LEVEL = {
    ONE_CALL: _one_call,
    SEVERAL_CALLS: _several,
    PARALLEL_CALLS: _parallel,
    DEPENDENT_CALLS: _dependent,
    MISSING_INFORMATION: _missing,
    RECOVERY: _recovery,
    DECLINE: _decline,
}

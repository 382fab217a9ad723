"""Tasks and trajectories of the judging bench, read from its data files (`data/judging_*.yaml`)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

import yaml
from tokenmill.judges.rubric.evidence import Evidence, State
from tokenmill.schemas.agentic import (
    Agent,
    AgentTask,
    CallRecord,
    ChatMessage,
    Criterion,
    ReferenceCall,
    ToolCall,
    ToolCallFunction,
)
from tokenmill.schemas.tools import SYNTHETIC, Semantics, ToolSpec, dump


@dataclass(frozen=True)
class Step:
    """One turn: a user's or agent's text, or calls made together."""

    who: str
    """`U`, `A` or `C`."""
    text: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    """Calls with `tool`, `arguments`, `result`, and possibly `set` (pointer -> value in the state) and `error`."""


@dataclass(frozen=True)
class Case:
    """A task and what the data file says about it."""

    task: AgentTask
    state: State
    calls: dict[str, dict[str, Any]]
    honest: tuple[tuple[Step, ...], ...]
    harmless: tuple[str, ...] = ()
    """Calls that may be made beside: they only read."""
    forbidden: tuple[str, ...] = ()
    """Calls that the rubric forbids."""
    independent: tuple[tuple[str, str], ...] = ()
    """Pairs of calls that may be made in either order."""
    solution: tuple[str, ...] = field(default=())


def load(part: str) -> list[Case]:
    """The cases of `dev`, `seen` or `test`."""
    text = resources.files("tokenmill.bench.agentic").joinpath(f"data/judging_{part}.yaml").read_text(encoding="utf-8")
    return [_case(_plain(entry)) for entry in yaml.safe_load(text)]


def wording(part: str) -> dict[str, list[str]]:
    """Further honest last answers by task: those of `seen`, or those held out as `test`; `dev` has none."""
    name = {"seen": "judging_replies", "test": "judging_wording_test"}.get(part)
    if name is None:
        return {}
    return yaml.safe_load(
        resources.files("tokenmill.bench.agentic").joinpath(f"data/{name}.yaml").read_text(encoding="utf-8")
    )


def _plain(value: Any) -> Any:
    """YAML's dates as text, its keys as text: what JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else value.isoformat()


def _case(entry: dict[str, Any]) -> Case:
    calls = entry["calls"]
    rubric = [_criterion(criterion) for criterion in entry["rubric"]]
    reference = [
        _reference(calls[name], entry["state"], calls, entry["solution"][:at])
        for at, name in enumerate(entry["solution"])
    ]
    task = AgentTask(
        id=entry["id"],
        agent=_agent(entry),
        level=entry["level"],
        situation="",
        opening="",
        goal="",
        state=dump(entry["state"]),
        rubric=rubric,
        solution=reference,
        reply=entry["reply"],
        model="",
        prompts=[],
        seed=0,
        prompt_tokens=0,
        completion_tokens=0,
    )
    return Case(
        task,
        entry["state"],
        calls,
        tuple(tuple(_step(line, calls) for line in lines) for lines in entry["honest"]),
        tuple(entry.get("harmless", ())),
        tuple(entry.get("forbidden", ())),
        tuple(map(tuple, entry.get("independent", ()))),
        tuple(entry["solution"]),
    )


def _agent(entry: dict[str, Any]) -> Agent:
    policy = entry.get("policy", [])
    return Agent(
        id=entry["id"].partition("/")[0],
        system=" ".join(["You help customers with the tools you have.", *policy]),
        role="",
        expertise="",
        tone="",
        behaviour="",
        policy=policy,
        tools=[_tool(name, spec) for name, spec in entry["tools"].items()],
        sampling="domain",
        domains=[],
        entities="",
        state=dump(entry["state"]),
        model="",
        prompts=[],
        seed=0,
        prompt_tokens=0,
        completion_tokens=0,
    )


def _tool(name: str, spec: dict[str, Any]) -> ToolSpec:
    properties = {key: {"type": part} if isinstance(part, str) else part for key, part in spec["args"].items()}
    return ToolSpec(
        id=f"{SYNTHETIC}/bench/{name}",
        name=name,
        description=name.replace("_", " ").capitalize() + ".",
        input_schema=dump({"type": "object", "properties": properties}),
        origin=SYNTHETIC,
        semantics=Semantics(reads=spec.get("reads", []), writes=spec.get("writes", [])),
    )


def _conditions(listed: dict[str, Any]) -> list[dict[str, Any]]:
    conditions = []
    for path, wanted in listed.items():
        if wanted in ("any", "absent"):
            conditions.append({"path": path, "is": wanted, "value": None})
        elif isinstance(wanted, list):
            conditions.append({"path": path, "is": wanted[0], "value": wanted[1]})
        else:
            conditions.append({"path": path, "is": "equals", "value": wanted})
    return conditions


def _criterion(entry: dict[str, Any]) -> Criterion:
    spec: dict[str, Any] = {}
    if "call" in entry:
        kind, spec = "call", {"tool": entry["call"], "arguments": _conditions(entry.get("args", {}))}
        spec |= {key: entry[key] for key in ("at_least", "at_most", "result") if key in entry}
    elif "order" in entry:
        kind, spec = "order", {"form": entry["order"], "calls": entry["calls"], "about": entry.get("about", [])}
    elif "forbidden" in entry:
        kind, spec = "forbidden", {"tool": entry["forbidden"], "arguments": _conditions(entry.get("args", {}))}
    elif "answer" in entry:
        results = [{"call": call, "path": path} for call, path in entry.get("results", ())]
        kind, spec = "answer", {"values": entry["answer"], "results": results}
        spec |= {key: entry[key] for key in ("never", "statement", "declines") if key in entry}
    else:
        records = [{**record, "where": _conditions(record.get("where", {}))} for record in entry.get("records", ())]
        conditions = _conditions(entry.get("state", {})) + entry.get("conditions", [])
        kind, spec = "state", {"conditions": conditions, "records": records, "unchanged": entry.get("unchanged", [])}
    return Criterion(
        id=entry["id"],
        kind=kind,
        description=f"{kind} {entry['id']}",
        spec=dump(spec),
        mandatory=entry.get("mandatory", True),
        checkpoint=entry.get("checkpoint", 0),
    )


def _reference(call: dict[str, Any], state: State, calls: dict[str, Any], before: Sequence[str]) -> ReferenceCall:
    now = copy.deepcopy(state)
    for name in before:
        write(now, calls[name])
    return ReferenceCall(
        tool=call["tool"], arguments=dump(call["arguments"]), result=dump(call["result"]), patch=dump(write(now, call))
    )


def write(state: State, call: dict[str, Any]) -> list[dict[str, Any]]:
    """Carry out a call's `set` on a state; returns the change as JSON Patch operations."""
    patch = []
    for pointer, value in call.get("set", {}).items() if not call.get("error") else ():
        *steps, last = pointer.split("/")[1:]
        place: Any = state
        for step in steps:
            place = place.setdefault(step, {})
        patch.append({"op": "replace" if last in place else "add", "path": pointer, "value": value})
        place[last] = copy.deepcopy(value)
    return patch


def _step(line: str, calls: dict[str, Any]) -> Step:
    who, _, text = line.partition(": ")
    if who != "C":
        return Step(who, text)
    return Step("C", "", tuple(calls[name.strip()] for name in text.split(" + ")))


def play(case: Case, steps: Sequence[Step], *, change: dict[str, Any] | None = None) -> Evidence:
    """The trajectory that takes these steps; `change` (pointer -> value) is written to the state at the end unnoticed."""
    state = copy.deepcopy(case.state)
    messages = [ChatMessage(role="system", content=case.task.agent.system)]
    records: list[CallRecord] = []
    for step in steps:
        if step.who != "C":
            messages.append(ChatMessage(role="user" if step.who == "U" else "assistant", content=step.text))
            continue
        turn, ids = len(messages), [f"functions.{c['tool']}:{len(records) + n}" for n, c in enumerate(step.calls)]
        asked = [
            ToolCall(id=name, function=ToolCallFunction(name=call["tool"], arguments=dump(call["arguments"])))
            for name, call in zip(ids, step.calls, strict=True)
        ]
        messages.append(ChatMessage(role="assistant", tool_calls=asked))
        for name, call in zip(ids, step.calls, strict=True):
            result = dump(call["result"])
            records.append(
                CallRecord(
                    id=name,
                    turn=turn,
                    tool=call["tool"],
                    arguments=dump(call["arguments"]),
                    result=result,
                    error=call.get("error", ""),
                    patch=dump(write(state, call)),
                )
            )
            messages.append(ChatMessage(role="tool", content=result, tool_call_id=name, name=call["tool"]))
    write(state, {"set": change or {}})
    return Evidence(messages, records, case.state, state, case.task.agent.tools)


def with_steps(steps: Sequence[Step], at: int, *new: Step) -> tuple[Step, ...]:
    """The steps with others inserted before the one at `at`."""
    return (*steps[:at], *new, *steps[at:])


def with_text(step: Step, text: str) -> Step:
    """A step that says something else."""
    return replace(step, text=text)


def turns_of_calls(steps: Sequence[Step]) -> Iterator[int]:
    """Indices of the steps that call."""
    return (index for index, step in enumerate(steps) if step.who == "C")

"""Agents and tasks of an imported domain: its policy word for word, its tools, its tasks with their solutions played.

The form of tasks is tau2-bench's: `user_scenario`, `initial_state`, and `evaluation_criteria` with the `actions` of a
reference solution and what must be said. The solution is run, call by call, in the sandbox: its results, what it changes and
so what a trajectory must and may change come from the domain's own tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from tokenmill.judges.rubric.criteria import EITHER, SUCCEEDS
from tokenmill.judges.rubric.feasible import feasible
from tokenmill.schemas.agentic import (
    ANSWER,
    CALL,
    DECLINE,
    DEPENDENT_CALLS,
    FORBIDDEN,
    ONE_CALL,
    STATE,
    Agent,
    AgentTask,
    Criterion,
    Fact,
    ReferenceCall,
)
from tokenmill.schemas.tools import FUNCTION, ToolSpec, dump, from_mcp
from tokenmill.tools_repo.agents.check import rules_in
from tokenmill.tools_repo.domains.entities import inferred, sampled
from tokenmill.tools_repo.domains.folder import DomainFolder, read_json
from tokenmill.tools_repo.domains.host import AGENT, USER, Described
from tokenmill.tools_repo.domains.hosts import Runs
from tokenmill.tools_repo.domains.world import changed, changes_of
from tokenmill.tools_repo.specs.names import assign_names
from tokenmill.tools_repo.specs.validate import validate
from tokenmill.tools_repo.world.entities import State
from tokenmill.tools_repo.world.outcomes import error
from tokenmill.tools_repo.world.patch import diff
from tokenmill.tools_repo.world.state_view import WHOLE
from tokenmill.tools_repo.world.stateful import as_text, reads_only

_LEAVES = 120
"""Values at the end that a rubric asks for one by one; beyond them the end state is compared all the same."""
_AT_ONCE = 20
_BOOK: dict[str, Any] = {"model": "", "prompts": [], "seed": 0, "prompt_tokens": 0, "completion_tokens": 0}


class TaskInvalid(ValueError):
    """A task that cannot be set; `reason` is machine-readable."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def agent_of(folder: DomainFolder, described: Described, policy: str = "") -> Agent:
    """The agent of a domain.

    Args:
        policy: what it is told in place of the domain's own policy.

    Raises:
        ValueError: a tool cannot be offered to a model; one line says which and why.
    """
    text = policy or folder.policy
    state = described.state
    shown = state if len(orjson.dumps(state)) <= WHOLE else sampled(state)
    return Agent(
        id=folder.name,
        system=text.strip() or "You are an assistant who works through tools.",
        role=f"assistant of {folder.name}",
        expertise="",
        tone="",
        behaviour="",
        policy=rules_in(text),
        tools=_specs(folder, described, AGENT),
        user_tools=_specs(folder, described, USER),
        sampling="domain",
        domains=[folder.name],
        entities=inferred(state),
        state=dump(shown),
        **_BOOK,
    )


def _specs(folder: DomainFolder, described: Described, side: str) -> list[ToolSpec]:
    server = folder.name if side == AGENT else f"{folder.name}-{side}"
    specs = [
        from_mcp(tool, server=server, origin=FUNCTION, package=f"domain:{folder.name}", license=folder.license)
        for tool in described.tools.get(side, ())
    ]
    found = list(assign_names(specs))
    for spec in found:
        verdict = validate(spec)
        if not verdict.passed:
            raise ValueError(f"{folder.name}: the tool {spec.original_name}: {verdict.findings[0].detail}")
    return found


def tasks_in(folder: DomainFolder) -> list[dict[str, Any]]:
    """The tasks of a domain as they stand in its file; none where it has none.

    Raises:
        DomainInvalid: the file cannot be read.
    """
    if not folder.tasks:
        return []
    tasks: Any = read_json(folder.tasks)
    tasks = tasks.get("tasks") if isinstance(tasks, dict) else tasks
    return tasks if isinstance(tasks, list) else [tasks]


@dataclass(frozen=True)
class Played:
    """A reference solution that was run."""

    calls: list[ReferenceCall]
    failed: list[str]
    before: State
    after: State


async def task_of(agent: Agent, task: Any, number: int, host: Runs, described: Described) -> AgentTask:
    """One task, its reference solution played.

    Raises:
        TaskInvalid: it is not of this form, or its solution does not work.
        HostBroken: the domain's code does not run.
    """
    if not isinstance(task, dict):
        raise TaskInvalid("not_a_task", "a task is a JSON object")
    scenario = task.get("user_scenario")
    wanted = scenario.get("instructions") if isinstance(scenario, dict) else scenario
    criteria = task.get("evaluation_criteria") or {}
    if not wanted or not isinstance(criteria, dict):
        raise TaskInvalid("not_a_task", "it has no user_scenario with instructions")
    played = await _play(agent, task, criteria.get("actions") or [], host, described)
    if played.failed:
        raise TaskInvalid("unsolvable", f"the reference solution fails: {played.failed[0]}")
    rubric = list(_rubric(agent, criteria, played))
    writes = any(call.patch != "[]" for call in played.calls)
    whole = len(orjson.dumps(played.before)) <= WHOLE
    state = played.before if whole else _mattering(described.state, played)
    level = DECLINE if not writes and not criteria.get("communicate_info") else ""
    level = level or (ONE_CALL if len(played.calls) == 1 else DEPENDENT_CALLS)
    verdict = feasible(
        rubric, tools=agent.tools, state=state, solution=played.calls, reply=_reply(criteria), level=level
    )
    if verdict.reason == "unsolvable":
        raise TaskInvalid("unsolvable", verdict.findings[0].detail)
    situation, opening, goal, facts = _told(wanted)
    return AgentTask(
        id=f"{agent.id}/{task.get('id', number)}",
        agent=agent,
        level=level,
        situation=situation,
        opening=opening,
        goal=goal,
        facts=facts,
        state=dump(state),
        rubric=rubric,
        solution=played.calls,
        reply=_reply(criteria),
        **_BOOK,
    )


async def _play(agent: Agent, task: Mapping[str, Any], actions: Any, host: Runs, described: Described) -> Played:
    initial = task.get("initial_state") or {}
    data = initial.get("initialization_data") or {}
    before = described.state
    history = [
        call
        for message in initial.get("message_history") or ()
        for call in message.get("tool_calls") or ()
        if message.get("role") in ("assistant", USER)
    ]
    prepared = [
        {"side": _side(a.get("env_type")), "tool": a["func_name"], "arguments": a.get("arguments") or {}}
        for a in initial.get("initialization_actions") or ()
    ]
    prepared += [
        {"side": _side(c.get("requestor")), "tool": c["name"], "arguments": c.get("arguments") or {}} for c in history
    ]
    given: dict[str, Any] = {AGENT: data.get("agent_data"), USER: data.get("user_data")}
    if prepared or any(given.values()):
        sides = {side: values for side, values in given.items() if side in described.tools}
        before = changed(before, await host.prepare(sides, prepared))
    names = {(side, t.original_name): t for side in (AGENT, USER) for t in _tools(agent, side)}
    state, calls, failed = before, [], []
    for action in actions:
        side, name, arguments = _side(action.get("requestor")), action["name"], action.get("arguments") or {}
        spec = names.get((side, name))
        if spec is None:
            raise TaskInvalid("unsolvable", f"the reference solution calls {name!r}, which the {side} does not have")
        answer = await host.call(side, name, arguments, changes_of(described.state, state))
        patch, result = "[]", ""
        if "error" in answer:
            result = error(str(answer["error"]), str(answer["message"]))
            if not reads_only(spec):
                failed.append(f"{name}: {answer['message']}")
        else:
            after = changed(state, answer["changed"])
            patch, result, state = dump(diff(state, after)), as_text(answer["result"]), after
        by = USER if side == USER else ""
        calls.append(ReferenceCall(tool=spec.name, arguments=dump(arguments), result=result, patch=patch, by=by))
    return Played(calls, failed, before, state)


def _tools(agent: Agent, side: str) -> Sequence[ToolSpec]:
    return agent.tools if side == AGENT else agent.user_tools


def _side(told: Any) -> str:
    return USER if told == USER else AGENT


def _mattering(base: State, played: Played) -> State:
    """The records that a task's start differs in, and those that its solution changes or names."""
    shown: State = {}
    texts = "\n".join(f"{call.arguments}\n{call.result}" for call in played.calls)
    for kind, records in played.before.items():
        old, new = base.get(kind, {}), played.after.get(kind, {})
        found = {
            name: record
            for name, record in records.items()
            if old.get(name) is not record or new.get(name) is not record or f'"{name}"' in texts
        }
        if found or old is not records or new is not records:
            shown[kind] = found
    return shown


def _rubric(agent: Agent, criteria: Mapping[str, Any], played: Played) -> Iterator[Criterion]:
    leaves = list(_leaves(played.before, played.after))[:_LEAVES]
    for start in range(0, len(leaves), _AT_ONCE):
        part = leaves[start : start + _AT_ONCE]
        told = "The records end as the reference solution leaves them."
        yield _criterion(f"end-{start // _AT_ONCE}", STATE, told, conditions=part)
    if not leaves:
        yield _criterion("nothing-changed", FORBIDDEN, "Nothing may be changed.", tool="")
        # Doing nothing at all must not be enough.
        for number, call in enumerate(call for call in played.calls if not call.by):
            result = EITHER if _failed(call) else SUCCEEDS
            wanted = [
                {"path": f"/{_step(k)}", "is": "equals", "value": v} for k, v in _scalars(orjson.loads(call.arguments))
            ]
            told = f"{call.tool} is called as in the reference solution."
            yield _criterion(
                f"call-{number}", CALL, told, mandatory=False, tool=call.tool, arguments=wanted, result=result
            )
    for number, info in enumerate(criteria.get("communicate_info") or ()):
        yield _criterion(f"told-{number}", ANSWER, f"The user is told {info}.", values=[[info]])
    basis = criteria.get("reward_basis") or ("NL_ASSERTION",)
    for number, line in enumerate(criteria.get("nl_assertions") or ()):
        yield _criterion(f"said-{number}", ANSWER, str(line), mandatory="NL_ASSERTION" in basis, statement=str(line))


def _failed(call: ReferenceCall) -> bool:
    try:
        value = orjson.loads(call.result)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and bool(value.get("error"))


def _criterion(name: str, kind: str, description: str, *, mandatory: bool = True, **spec: Any) -> Criterion:
    return Criterion(id=name, kind=kind, description=description[:400], spec=dump(spec), mandatory=mandatory)


def _scalars(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((key, value) for key, value in arguments.items() if isinstance(value, str | int | float | bool))


def _leaves(before: Any, after: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """A condition for every value at the end that differs from the start."""
    if before is after or before == after:
        return
    if isinstance(after, dict) and (after or isinstance(before, dict)):
        old = before if isinstance(before, dict) else {}
        for key in [*after, *(key for key in old if key not in after)]:
            if key in after:
                yield from _leaves(old.get(key, _MISSING), after[key], f"{path}/{_step(key)}")
            else:
                yield {"path": f"{path}/{_step(key)}", "is": "absent", "value": None}
    elif isinstance(after, list) and after:
        old_items = before if isinstance(before, list) else []
        if len(old_items) != len(after):
            yield {"path": path, "is": "count", "value": len(after)}
        for at, item in enumerate(after):
            yield from _leaves(old_items[at] if at < len(old_items) else _MISSING, item, f"{path}/{at}")
    elif isinstance(after, dict | list):
        yield {"path": path, "is": "count", "value": 0}
    else:
        yield {"path": path, "is": "exactly" if after is None else "equals", "value": after}


_MISSING = object()


def _step(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _told(wanted: Any) -> tuple[str, str, str, list[Fact]]:
    """(situation, opening, goal, facts) of a scenario."""
    if isinstance(wanted, str):
        return wanted, wanted, wanted, []
    reason, known = str(wanted.get("reason_for_call") or ""), str(wanted.get("known_info") or "")
    unknown, how = str(wanted.get("unknown_info") or ""), str(wanted.get("task_instructions") or "")
    situation = "\n".join(filter(None, (reason, unknown)))
    goal = "\n".join(filter(None, (reason, how)))
    facts = [Fact(name="what the user knows", value=known)] if known else []
    return situation or goal or known, reason or goal or known, goal or known, facts


def _reply(criteria: Mapping[str, Any]) -> str:
    told = [str(info) for info in criteria.get("communicate_info") or ()]
    return ", ".join(told) or "Done."

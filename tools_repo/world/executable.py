"""Executable tools: Python that a model wrote for a domain and that passed its checks, run in a sandbox.

    world = Executable(tools, entities, state, engine, Interpreter.local(), seed=(0, task.id, sample))

Deterministic and free of model calls. Tools for which there is no code fall back to a simulator over the same state,
where one is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from jsonschema.exceptions import best_match
from tokenmill.inference.call import Ask
from tokenmill.inference.errors import RowError
from tokenmill.schemas.engines import Engine
from tokenmill.schemas.json_schema import validator_for
from tokenmill.schemas.tools import ToolSpec
from tokenmill.tools_repo.world.entities import EntityModel, State
from tokenmill.tools_repo.world.outcomes import CERTAIN, Odds, error
from tokenmill.tools_repo.world.patch import changed_records
from tokenmill.tools_repo.world.programs.pool import DONE, Interpreter, Job, Pool
from tokenmill.tools_repo.world.simulator import Simulator
from tokenmill.tools_repo.world.stateful import Ran, StatefulWorld, reads_only

ENGINE = "executable"


@dataclass(frozen=True)
class Function:
    """The code of one tool."""

    module: str
    """Text of the module that it stands in."""
    name: str


def functions_for(
    tools: Sequence[ToolSpec], entities: EntityModel, engines: Mapping[str, Engine]
) -> dict[str, Function]:
    """The functions that may run these tools over states of this entity model, by the tools' names.

    A tool is found by its id, whatever name an agent knows it under. Its code was checked for the entity model of its
    domain, so every kind of that model must be part of this one, as it was.

    Args:
        engines: of all domains concerned, by tool id; see `by_tool`.
    """
    found = {}
    for spec in tools:
        engine = engines.get(spec.id)
        if engine is None:
            continue
        theirs = EntityModel.parse(engine.entities).kinds
        if all(name in entities.kinds and entities.kinds[name] == kind for name, kind in theirs.items()):
            module, name = engine.function_of(spec.id)
            found[spec.name] = Function(module, name)
    return found


def by_tool(engines: Iterable[Engine]) -> dict[str, Engine]:
    """Engines by the ids of the tools that they have code for."""
    return {tool: engine for engine in engines for module in engine.modules for tool in module.tools}


class EngineFailed(RowError):
    """Generated code did what it must not although it had passed its checks, and no simulator stands in."""


class NoCode(EngineFailed):
    """There is no code for a tool, and no simulator."""


class Executable(StatefulWorld):
    """A world whose tools are generated Python."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        entities: EntityModel | str,
        state: State | str,
        code: Mapping[str, Function],
        interpreter: Interpreter,
        *,
        ask: Ask | None = None,
        odds: Odds = CERTAIN,
        seed: Sequence[object] = (0,),
        first: str = "",
        needed: Collection[str] = (),
        now: str = "",
        **simulation: Any,
    ) -> None:
        """
        Args:
            code: the function of each tool that has one, by the tool's name in this world; see `functions_for`.
            ask: for tools without code; without it such a call raises `NoCode`.
            simulation: further arguments of the `Simulator` behind those tools.

        Raises:
            ValueError: see `StatefulWorld`.
        """
        super().__init__(tools, entities, state, odds=odds, seed=seed, first=first, needed=needed, now=now)
        self.code = code
        self.interpreter = interpreter
        self._pool: Pool | None = None
        self._simulator = (
            Simulator(tools, self.entities, self._state, ask, now=self.now, **simulation) if ask is not None else None
        )

    async def close(self) -> None:
        """Give back the processes."""
        if self._pool is not None:
            self._pool.leave()
            self._pool = None

    async def _run(self, spec: ToolSpec, arguments: dict[str, Any], state: State, number: int, stale: bool) -> Ran:
        code = self.code.get(spec.name)
        if code is None:
            return await self._simulate(spec, arguments, state, number, stale, NoCode(f"{spec.name} has no code"))
        if self._pool is None:
            self._pool = Pool.shared(self.interpreter)
            self._pool.enter()
        job = Job("call", code.module, state, self.now, code.name, arguments)
        try:
            return read(spec, self.entities, state, await self._pool.run(job))
        except EngineFailed as failed:
            return await self._simulate(spec, arguments, state, number, stale, failed)

    async def _simulate(
        self, spec: ToolSpec, arguments: dict[str, Any], state: State, number: int, stale: bool, why: EngineFailed
    ) -> Ran:
        if self._simulator is None:
            raise why
        self._simulator.past = self.past
        return await self._simulator._run(spec, arguments, state, number, stale)


def read(spec: ToolSpec, entities: EntityModel, state: State, done: Any) -> Ran:
    """What a call did, from what its process said, every word of which is checked.

    Raises:
        EngineFailed: it did what a tool of this specification must not; the text says what.
    """
    if done.how != DONE:
        raise EngineFailed(f"{spec.name}: the call did not end ({done.how}{': ' if done.detail else ''}{done.detail})")
    answer = done.answer
    if "error" in answer and "broken" not in answer:
        code, message = str(answer["error"]), str(answer.get("message", ""))
        if not code.replace("_", "").isalnum() or answer.get("changed"):
            raise EngineFailed(f"{spec.name}: {code[:80]!r} is no error code, write a snake_case word")
        return Ran(orjson.loads(error(code, message)), state, code, ENGINE)
    if "result" not in answer or "broken" in answer:
        raise EngineFailed(f"{spec.name}: {answer.get('broken', 'no result')}")
    changed, removed = answer.get("changed") or {}, answer.get("removed") or []
    if not isinstance(changed, dict) or not isinstance(removed, list):
        raise EngineFailed(f"{spec.name}: no answer of our guest")
    result = answer["result"]
    after = {kind: records for kind, records in {**state, **changed}.items() if kind not in removed}
    if faults := entities.check(after, before=state):
        raise EngineFailed(f"{spec.name}: it leaves an invalid state: {faults[0]}")
    kinds = {kind for kind, _ in changed_records(state, after)}
    if kinds and reads_only(spec):
        raise EngineFailed(f"{spec.name}: it only reads but changed {', '.join(sorted(kinds))}")
    allowed = set(spec.semantics.writes) & entities.kinds.keys()
    if allowed and kinds - allowed:
        raise EngineFailed(f"{spec.name}: it changed {', '.join(sorted(kinds - allowed))}, which it does not write")
    if fault := result_fault(spec, result):
        raise EngineFailed(f"{spec.name}: {fault}")
    return Ran(result, after if kinds else state, "", ENGINE)


def result_fault(spec: ToolSpec, result: Any) -> str:
    """What a result lacks of the tool's output schema; empty when it meets it or there is none."""
    schema = spec.returns
    if schema is None:
        return ""
    fault = best_match(validator_for(schema)(schema).iter_errors(result))
    if fault is None:
        return ""
    where = "/".join(map(str, fault.absolute_path)) or "it"
    return f"its result does not meet the output schema: {where}: {fault.message[:200]}"

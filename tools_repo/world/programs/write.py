"""A model writes the tools of a domain in Python, with tests; what passes every check is kept.

    written = await write_engine(entities=..., state=..., tools=tools, title=..., description=..., ask=ask,
                                 interpreter=Interpreter.local())

Kimi K2 report, section 3.1.1. Nothing of it runs outside the sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from tokenmill.inference.call import Ask, Message
from tokenmill.inference.gather import together
from tokenmill.inference.structured import echo, variation
from tokenmill.prompts.fence import fence
from tokenmill.schemas.engines import EngineFault, EngineModule
from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.world.entities import EntityModel
from tokenmill.tools_repo.world.programs.check import Examination, Report
from tokenmill.tools_repo.world.programs.pool import Interpreter, Pool, with_hash_seed
from tokenmill.tools_repo.world.programs.source import MAX_TESTS, EngineText, function_name, take
from tokenmill.tools_repo.world.simulator import describe
from tokenmill.tools_repo.world.stateful import clock

from tokenmill import prompts

WRITE, REPAIR = "world/engine", "world/engine_repair"
PROMPTS = (WRITE, REPAIR)
"""Every prompt that writing an engine may use."""

BATCH = 6
"""Tools of one module: its text must fit into one answer."""
_MAX_FINDINGS = 6_000
_MAX_DESCRIPTION = 4_000


@dataclass(frozen=True)
class Written:
    """What came of a domain's tools; every tool is in a module or missing."""

    modules: tuple[EngineModule, ...]
    missing: tuple[EngineFault, ...]


async def write_engine(
    *,
    title: str,
    description: str,
    entities: EntityModel,
    state: str,
    tools: Sequence[ToolSpec],
    ask: Ask,
    interpreter: Interpreter,
    tries: int = 3,
    batch: int = BATCH,
    **params: Any,
) -> Written:
    """Write the tools of one domain, `batch` of them a module, several modules at a time.

    Args:
        state: a sample state, as JSON, that meets the entity model.
        tries: answers for one module: one, and repairs after that.
        params: sampling parameters for `ask`.

    Raises:
        ValueError: the state or a tool is invalid.
        tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        tokenmill.inference.errors.RunStopped: there is no sandbox here.
    """
    if tries < 1 or batch < 1:
        raise ValueError(f"tries and batch must be at least 1, not {tries} and {batch}")
    writer = _Writer(title, description, entities, state, ask, interpreter, tries, params)
    parts = [tools[at : at + batch] for at in range(0, len(tools), batch)]
    with _Pools(interpreter) as pools:
        done = await together(writer.write(part, pools) for part in parts)
    return Written(
        tuple(module for written in done for module in written.modules),
        tuple(fault for written in done for fault in written.missing),
    )


class _Pools:
    """Two pools of this event loop whose interpreters order sets differently."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.first = Pool.shared(interpreter)
        self.other = Pool.shared(with_hash_seed(interpreter, interpreter.hash_seed + 1))

    def __enter__(self) -> _Pools:
        self.first.enter()
        self.other.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.first.leave()
        self.other.leave()


@dataclass(frozen=True)
class _Writer:
    title: str
    description: str
    entities: EntityModel
    state: str
    ask: Ask
    interpreter: Interpreter
    tries: int
    params: dict[str, Any]

    async def write(self, tools: Sequence[ToolSpec], pools: _Pools) -> Written:
        """One module. The answer with the most accepted tools counts, the first of these."""
        state = orjson.loads(self.state)
        if faults := self.entities.check(state):
            raise ValueError(f"the sample state does not meet the entity model: {faults[0]}")
        messages = self._messages(tools, clock(state))
        conversation, varied = messages, self.params
        earlier: list[str] = []
        best: tuple[list[ToolSpec], EngineText | None, Report, int] = ([], None, Report(), 0)
        for turn in range(1, self.tries + 1):
            answer = await self.ask(conversation, to="writer", **varied)
            text = None
            try:
                if answer.finish_reason == "length":
                    raise ValueError("the answer was cut off by the token limit: write more briefly")
                text = take(answer.text)
            except ValueError as fault:
                report = Report([str(fault)])
            else:
                report = await Examination(text, tools, self.entities, state, pools.first, pools.other).run()
            accepted = report.accepted(tools)
            if turn == 1 or len(accepted) > len(best[0]):
                best = (accepted, text, report, turn)
            if len(accepted) == len(tools):
                break
            varied = variation(self.params, earlier.count(answer.text))
            earlier.append(answer.text)
            said = {"role": "assistant", "content": echo(answer.text)}
            findings = fence(report.text[:_MAX_FINDINGS], "findings")
            conversation = [*messages, said, *prompts.load(REPAIR).render(findings=findings)]
        return _written(tools, best)

    def _messages(self, tools: Sequence[ToolSpec], now: str) -> list[Message]:
        kinds = {k.name: {"description": k.description, "schema": k.schema} for k in self.entities.kinds.values()}
        names = "\n".join(f"{spec.name}: def {function_name(spec)}(state, args, now)" for spec in tools)
        return prompts.load(WRITE).render(
            title=fence(self.title, "title"),
            description=fence(self.description[:_MAX_DESCRIPTION], "description"),
            entities=fence(dump(kinds), "entities"),
            state=fence(self.state, "state"),
            now=now,
            tools=fence("\n".join(describe(spec) for spec in tools), "tools"),
            functions=fence(names, "functions"),
            most=str(MAX_TESTS),
        )


def _written(tools: Sequence[ToolSpec], best: tuple[list[ToolSpec], EngineText | None, Report, int]) -> Written:
    accepted, text, report, turn = best
    modules: tuple[EngineModule, ...] = ()
    if accepted and text is not None:
        modules = (
            EngineModule(
                tools=[spec.id for spec in accepted],
                functions=[function_name(spec) for spec in accepted],
                code=text.code,
                tests=text.tests,
                tests_passed=report.tests_passed,
                calls_checked=report.calls,
                tries=turn,
            ),
        )
    kept = {spec.id for spec in accepted}
    missing = []
    for spec in tools:
        if spec.id not in kept:
            found = report.faults or report.findings.get(spec.name) or ["no answer"]
            missing.append(EngineFault(tool=spec.id, detail=found[0]))
    return Written(modules, tuple(missing))

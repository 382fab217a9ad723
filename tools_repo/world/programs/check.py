"""Is generated code what its tools' specifications say? Decided by running it, in the sandbox and nowhere else.

The code's own tests must pass, and must fail when a tool does nothing. Every call that they made, and further calls
with arguments made from the schemas, are then repeated one by one and held against the specification: reading tools
change nothing, only declared kinds are written, the state stays valid, results meet the output schema, the same call
from the same state gives the same (also in a process that orders sets otherwise), records that do not exist are
refused, and nothing but a declared error ends a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import orjson
from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.world.call_checks import Checks
from tokenmill.tools_repo.world.entities import EntityModel, State
from tokenmill.tools_repo.world.executable import EngineFailed, read
from tokenmill.tools_repo.world.programs import arguments as examples
from tokenmill.tools_repo.world.programs.pool import DONE, TIME, Done, Job, Pool
from tokenmill.tools_repo.world.programs.source import EngineText, called, function_name
from tokenmill.tools_repo.world.programs.source import read as read_text
from tokenmill.tools_repo.world.stateful import Ran, clock, reads_only

_CALLS_PER_TOOL = 10
"""Recorded calls of one tool that are repeated."""
_MAX_FINDINGS = 4
"""Of one tool."""


@dataclass
class Report:
    """What the checks found."""

    faults: list[str] = field(default_factory=list)
    """Of the module or the tests as a whole; with one of them no tool is accepted."""
    findings: dict[str, list[str]] = field(default_factory=dict)
    """By tool name."""
    tests_passed: int = 0
    calls: int = 0

    def accepted(self, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
        """The tools about which nothing was found."""
        return [] if self.faults else [spec for spec in tools if not self.findings.get(spec.name)]

    def add(self, tool: str, finding: str) -> None:
        held = self.findings.setdefault(tool, [])
        line = " ".join(finding.split())[:400]
        if line not in held and len(held) < _MAX_FINDINGS:
            held.append(line)

    @property
    def text(self) -> str:
        """All findings, for the model to read."""
        lines = [f"- {fault}" for fault in self.faults]
        return "\n".join(
            [*lines, *(f"- {tool}: {line}" for tool in sorted(self.findings) for line in self.findings[tool])]
        )


@dataclass(frozen=True)
class _Call:
    tool: str
    arguments: dict[str, Any]
    state: State
    answer: dict[str, Any] | None
    """What was answered when a test made the call; None for a call of our own."""
    must_fail: bool = False

    @property
    def key(self) -> str:
        return dump([self.tool, self.arguments, self.state])


class Examination:
    """The checks of one module."""

    def __init__(
        self,
        text: EngineText,
        tools: Sequence[ToolSpec],
        entities: EntityModel,
        state: State,
        pool: Pool,
        other: Pool,
    ) -> None:
        """
        Args:
            other: a pool whose interpreter orders sets otherwise.
        """
        self.text, self.tools, self.entities, self.state = text, tools, entities, state
        self.pool, self.other = pool, other
        self.now = clock(state)
        self.report = Report()
        self.names = {spec.name: function_name(spec) for spec in tools}
        self.by_function = {function: name for name, function in self.names.items()}
        self.checks = Checks(tools, entities)
        self._hung: set[str] = set()
        """Tools that ran out of time: every further call of them would cost as much."""

    async def run(self) -> Report:
        """All checks.

        Raises:
            tokenmill.inference.errors.RunStopped, tokenmill.tools_repo.world.programs.pool.PoolBroken
        """
        seen = read_text(self.text, tuple(self.names.values()))
        self.report.faults += seen.faults
        for function, fault in seen.missing.items():
            self.report.add(self.by_function[function], fault)
        if seen.faults:
            return self.report
        recorded = await self._tests(seen.tests)
        calls = {call.key: call for call in [*self._own(), *self._chosen(recorded)]}
        self.report.calls = len(calls)
        await asyncio.gather(
            *(self._hold(spec, [c for c in calls.values() if c.tool == spec.name]) for spec in self.tools)
        )
        return self.report

    async def _hold(self, spec: ToolSpec, calls: Sequence[_Call]) -> None:
        """Hold a tool against its specification, call by call: what is found first must not depend on timing, since it
        goes back to the model and makes the address of the next call."""
        self._covered(spec, [(call, ran) for call in calls if (ran := await self._repeat(spec, call)) is not None])

    async def _tests(self, tests: Sequence[str]) -> list[_Call]:
        """Run the module's own tests; the calls that they made."""
        dones = await asyncio.gather(*(self.pool.run(self._test(name)) for name in tests))
        recorded: list[_Call] = []
        by_tool: dict[str, list[str]] = {}
        for name, done in zip(tests, dones, strict=True):
            fault = done.detail or done.how if done.how != DONE else str(done.answer.get("fault", "no answer"))
            calls = _recorded(done)
            if fault:
                self._blame(name, fault, calls, hung=done.how == TIME)
                continue
            self.report.tests_passed += 1
            recorded += [call for call in calls if call.tool in self.names]
            for tool in dict.fromkeys(call.tool for call in calls):
                by_tool.setdefault(tool, []).append(name)
        await asyncio.gather(*(self._needed(tool, by_tool[tool]) for tool in self.names if tool in by_tool))
        return recorded

    def _test(self, name: str, without: str = "") -> Job:
        return Job(
            "test",
            self.text.code,
            self.state,
            self.now,
            tools={tool: function for tool, function in self.names.items()},
            tests=self.text.tests,
            test=name,
            without=without,
        )

    def _blame(self, test: str, fault: str, calls: Sequence[_Call], *, hung: bool) -> None:
        tools = [tool for tool in dict.fromkeys(call.tool for call in calls) if tool in self.names]
        if not tools:  # it ended without a word: what its text calls
            tools = called(self.text.tests, test, tuple(self.names))
        if hung:
            self._hung |= {*tools}
        for tool in tools:
            self.report.add(tool, f"test {test} fails: {fault}")
        if not tools:
            self.report.faults.append(f"test {test} fails: {fault}"[:400])

    async def _needed(self, tool: str, tests: Sequence[str]) -> None:
        """Tests that pass although the tool does nothing show nothing."""
        for test in tests:
            done = await self.pool.run(self._test(test, without=tool))
            if done.how != DONE or done.answer.get("fault"):
                return
        self.report.add(tool, "its tests pass although the tool does nothing: assert what it returns and changes")

    def _chosen(self, recorded: Sequence[_Call]) -> list[_Call]:
        """Of each tool's recorded calls some different ones: those that failed, which tests have at their end, in turn
        with those that did not."""
        chosen: list[_Call] = []
        for tool in self.names:
            mine = {call.key: call for call in recorded if call.tool == tool}.values()
            kinds = ([call for call in mine if ("error" in (call.answer or {})) == failed] for failed in (False, True))
            in_turn = [call for pair in zip_longest(*kinds) for call in pair if call is not None]
            chosen += in_turn[:_CALLS_PER_TOOL]
        return chosen

    def _own(self) -> list[_Call]:
        """Calls with arguments made from the schemas."""
        calls = []
        for spec in self.tools:
            for arguments in examples.valid(spec, self.checks, self.state, self.now):
                calls.append(_Call(spec.name, arguments, self.state, None))
            for arguments in examples.dangling(spec, self.checks, self.state, self.now):
                calls.append(_Call(spec.name, arguments, self.state, None, must_fail=True))
        return calls

    async def _repeat(self, spec: ToolSpec, call: _Call) -> Ran | None:
        """Run a call twice and hold it against the specification."""
        about = f"called with {dump(call.arguments)[:200]}"
        if call.tool in self._hung or self.entities.check(call.state):
            # An invalid state was made by the test itself; a call that led to one is found wrong by itself.
            return None
        job = Job("call", self.text.code, call.state, self.now, self.names[call.tool], call.arguments)
        once, again = await asyncio.gather(self.pool.run(job), self.other.run(job))
        if once.how == TIME:
            self._hung.add(call.tool)
        try:
            ran = read(spec, self.entities, call.state, once)
        except EngineFailed as failed:
            self.report.add(call.tool, f"{about}: {str(failed).removeprefix(f'{call.tool}: ')}")
            return None
        if _same(once, again) is False:
            self.report.add(call.tool, f"{about}: two runs from the same state differ; sort what comes from sets")
        elif call.answer is not None and _outcome(call.answer) != _outcome(once.answer):
            self.report.add(call.tool, f"{about}: it depends on something beside state, args and now")
        if call.must_fail and not ran.error:
            self.report.add(call.tool, f"{about}: it succeeds although there is no such record")
        return ran

    def _covered(self, spec: ToolSpec, ran: Sequence[tuple[_Call, Ran]]) -> None:
        """A tool was seen to succeed; if it writes, to change something; if it has errors, to fail."""
        if self.report.findings.get(spec.name):
            return
        tested = [done for call, done in ran if call.answer is not None]
        if not tested:
            self.report.add(spec.name, "no passing test calls it")
        elif all(done.error for done in tested):
            self.report.add(spec.name, "no test shows it succeed")
        elif spec.semantics.writes and not reads_only(spec) and all(done.state is call.state for call, done in ran):
            self.report.add(spec.name, f"it never changes {', '.join(spec.semantics.writes)}, which it must")
        elif (spec.semantics.errors or spec.semantics.preconditions) and not any(done.error for done in tested):
            self.report.add(spec.name, "no test shows it fail, though it has preconditions or error cases")


def _recorded(done: Done) -> list[_Call]:
    """The calls of a test, as far as they have the right form."""
    found = []
    calls = done.answer.get("calls")
    for call in calls if isinstance(calls, list) else ():
        if (
            isinstance(call, dict)
            and isinstance(call.get("tool"), str)
            and all(isinstance(call.get(key), dict) for key in ("arguments", "state", "answer"))
        ):
            found.append(_Call(call["tool"], call["arguments"], call["state"], call["answer"]))
    return found


def _same(a: Done, b: Done) -> bool:
    return a.how == b.how and orjson.dumps(a.answer) == orjson.dumps(b.answer)


def _outcome(answer: dict[str, Any]) -> str:
    return dump([answer.get("result"), answer.get("error")])

"""The verdict on a final workspace: the pass rate of hidden tests, decided where the tested code cannot reach.

A function is tested across two sandboxes: one holds the tests, the other the code, and only calls and plain values pass
between them, through us. A repository's tests share a process with the code they import; there each test has a process of
its own, its parent decides, the test files are the task's, and false assertions must fail afterwards (`guests/suite.py`).
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import orjson
from tokenmill.inference.errors import RowError
from tokenmill.schemas.code import (
    ERROR,
    FUNCTION,
    NOT_RUN,
    PASSED,
    TEST_OUTCOMES,
    TIMEOUT,
    CodeTask,
    CodeVerdict,
    TestOutcome,
)
from tokenmill.schemas.verdicts import Finding
from tokenmill.tools_repo.code.interpreter import GuestFailed, Runtime
from tokenmill.tools_repo.code.tampering import restored
from tokenmill.tools_repo.code.workspace import PathRefused, Workspace, WorkspaceFull
from tokenmill.tools_repo.sandbox.base import Running

MODULE = "solution.py"
"""The file in which a function's task wants it."""
_MAX_CALLS = 100_000
_STARTING = 20.0
"""Seconds within which Python starts in a sandbox, however busy the machine."""


class GradingFailed(RowError):
    """No verdict could be reached, and that is not the agent's fault."""


@dataclass(frozen=True)
class Grader:
    """Runs hidden tests. Picklable."""

    runtime: Runtime
    suite_seconds: float = 600.0
    """Limit for all tests of a repository together; those not reached count as not run."""

    async def grade(self, task: CodeTask, workspace: Workspace) -> CodeVerdict:
        """The verdict.

        Raises:
            GradingFailed: the task's own tests are broken, or hand over values that cannot pass between sandboxes.
            RunStopped: there is no sandbox here.
        """
        try:
            judged, findings = restored(task, workspace)
        except (PathRefused, WorkspaceFull) as error:
            raise GradingFailed(f"{task.id}: {error}") from None
        try:
            async with self.runtime.slot():
                began = time.monotonic()
                decide = self._function if task.kind == FUNCTION else self._repository
                told, more = await decide(task, judged)
                seconds = time.monotonic() - began
        except GuestFailed as error:
            raise GradingFailed(f"{task.id}: {error}") from None
        outcomes = [_outcome(name, told.get(name)) for name in task.tests]
        findings += more
        rate = sum(test.outcome == PASSED for test in outcomes) / len(outcomes)
        return CodeVerdict(
            task_id=task.id,
            passed=rate == 1 and not findings,
            pass_rate=rate,
            tests=outcomes,
            tampered=bool(findings),
            findings=findings,
            isolation="process" if task.kind == FUNCTION else "shared",
            seconds=seconds,
        )

    async def _function(self, task: CodeTask, workspace: Workspace) -> tuple[dict[str, Any], list[Finding]]:
        test = "\n".join(file.content for file in task.hidden_tests)
        ask = {"test": test, "prelude": task.prelude, "entry_point": task.entry_point, "seed": 0}
        serve = {"files": workspace.to_wire(), "module": MODULE, "entry_point": task.entry_point}
        async with AsyncExitStack() as stack:
            tests, code = await asyncio.gather(
                stack.enter_async_context(self.runtime.start("check", ask, task.time_limit + _STARTING)),
                stack.enter_async_context(self.runtime.start("candidate", serve, task.time_limit + _STARTING)),
            )
            done, ending = await _relay(tests, code, task.time_limit)
        if done["broken"]:
            raise GradingFailed(f"{task.id}: its test is broken: {done['broken']}")
        if done["unsendable"]:
            raise GradingFailed(f"{task.id}: its test hands over {done['unsendable']}")
        if "count" in done and max(1, done["count"]) != len(task.tests):
            raise GradingFailed(f"{task.id}: {len(task.tests)} tests are named, {done['count']} are there")
        findings = []
        if ending == "exit":
            findings.append(Finding("early_exit", "Do not end the process; return a value."))
        outcomes = {
            name: dict(zip(("outcome", "detail"), told, strict=True)) for name, told in done["outcomes"].items()
        }
        if ending:
            reason = TIMEOUT if ending == "time" else ERROR
            for name in task.tests:
                told = outcomes.setdefault(name, {"outcome": NOT_RUN, "detail": _ENDINGS[ending]})
                if told["outcome"] == ERROR and told["detail"] == _ENDINGS[ending]:
                    told["outcome"] = reason
        return outcomes, findings

    async def _repository(self, task: CodeTask, workspace: Workspace) -> tuple[dict[str, Any], list[Finding]]:
        seconds = min(self.suite_seconds, (task.time_limit + 2) * len(task.tests))
        job = {"files": workspace.to_wire(), "tests": task.tests, "seconds": task.time_limit}
        job["hidden"] = [file.path for file in task.hidden_tests]
        finished = await self.runtime.ask("suite", job, seconds)
        lines = finished.stdout.splitlines()
        if not lines and not finished.exceeded and finished.returncode < 128:
            words = finished.stderr.decode("utf-8", "replace").strip()[-300:]
            raise GuestFailed(f"the test runner does not start: {words}")
        told: dict[str, Any] = {}
        for line in lines:
            said = _object(line)
            told[str(said.get("test"))] = said
        findings = []
        if finished.returncode >= 128 and not finished.exceeded and len(told) < len(task.tests):
            findings.append(Finding("runner_killed", "Leave the runner's processes alone."))
        for name, said in told.items():
            for kind, text in _OFFENCES.items():
                if said.get(kind):
                    findings.append(Finding(_KINDS[kind], f"{name}: {text}", rewrite=str(said.get("detail", ""))[:300]))
        for name in told:
            if told[name].get("canary"):
                told[name] = {"outcome": ERROR, "detail": told[name]["canary"]}
        return told, findings


_ENDINGS = {
    "time": "the code did not answer in time",
    "exit": "the code ended its process",
    "gone": "the code's process is gone",
}
_OFFENCES = {
    "canary": "false assertions must fail while it runs.",
    "forged": "only the runner reports results.",
    "vanished": "a test must come to its end; its process ended as if all were well.",
    "exiting": "do not end the process.",
    "peeking": "the code must not read the tests.",
    "lying": "a value must not equal whatever it is compared with.",
}
_KINDS = {
    "canary": "assertions_disabled",
    "forged": "forged_result",
    "vanished": "early_exit",
    "exiting": "early_exit",
    "peeking": "reads_tests",
    "lying": "lying_equality",
}


def _outcome(name: str, told: Any) -> TestOutcome:
    if not isinstance(told, dict) or told.get("outcome") not in TEST_OUTCOMES:
        return TestOutcome(name=name, outcome=NOT_RUN, detail="it was not reached")
    return TestOutcome(name=name, outcome=told["outcome"], detail=" ".join(str(told.get("detail", "")).split())[:300])


async def _relay(tests: Running, code: Running, seconds: float) -> tuple[dict[str, Any], str]:
    """Carry calls from the tests to the code and values back. What the tests found, and how the code ended (`time`, `exit`,
    `gone`; empty while it lives)."""
    ending, broken = "", ""
    try:
        ready = _object(await asyncio.wait_for(code.readline(), seconds + _STARTING))
        if not ready.get("ready"):
            broken = str(ready.get("broken") or _ENDINGS["gone"])[:300]
            ending = "exit" if ready.get("exit") or (not ready and await _ended_well(code)) else "gone"
    except TimeoutError:
        ending = "time"
    end = time.monotonic() + seconds
    for _ in range(_MAX_CALLS):
        try:
            # What the tests do of their own takes time as well, but never as long as this.
            line = await asyncio.wait_for(tests.readline(), seconds + _STARTING)
        except TimeoutError:
            line = b""
        said = _object(line)
        if "done" in said:
            return said["done"], ending
        if "ask" not in said:
            if tests.exceeded or not line:
                raise GuestFailed(f"the tests did not come to their end: {tests.exceeded or tests.last_words()}")
            raise GuestFailed("the tests said nothing that makes sense")
        answer: dict[str, Any] = {}
        if not ending:
            try:
                await code.write(orjson.dumps(said["ask"]) + b"\n")
                line = await asyncio.wait_for(code.readline(), max(0.01, end - time.monotonic()))
                answer = _plain(_object(line))
                if not answer:
                    ending = "exit" if await _ended_well(code) else "gone"
                elif answer.get("exit"):
                    ending = "exit"
            except TimeoutError:
                ending = "time"
            except ConnectionError:
                ending = "exit" if await _ended_well(code) else "gone"
        if ending:
            answer = {"gone": broken or _ENDINGS[ending]}
        await tests.write(orjson.dumps(answer) + b"\n")
    raise GuestFailed(f"the tests made more than {_MAX_CALLS} calls")


async def _ended_well(code: Running) -> bool:
    """Whether the code's process said by its exit code that all was well."""
    try:
        return await asyncio.wait_for(code.wait(), 3) == 0
    except TimeoutError:
        return False


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    """Of the code's answer what an answer can have; it may have written anything."""
    return {key: answer[key] for key in ("value", "raised", "unsendable", "exit") if key in answer}

"""The verdict on a final workspace: the pass rate of hidden tests, decided where the tested code cannot reach.

Work is tested across two sandboxes: one holds the tests, the other the code, and only questions and plain values pass between
them, through us (`relay.py`). Tests of a repository are pytest's; what they import of it are stand-ins (`guests/stand_ins.py`).
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

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
from tokenmill.tools_repo.code.relay import ENDINGS, STARTING, Suite, relay
from tokenmill.tools_repo.code.tampering import restored
from tokenmill.tools_repo.code.workspace import PathRefused, Workspace, WorkspaceFull

MODULE = "solution.py"
"""The file in which a function's task wants it."""


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
            seconds=seconds,
        )

    async def _function(self, task: CodeTask, workspace: Workspace) -> tuple[dict[str, Any], list[Finding]]:
        test = "\n".join(file.content for file in task.hidden_tests)
        ask = {"test": test, "prelude": task.prelude, "entry_point": task.entry_point, "seed": 0}
        serve = {"files": workspace.to_wire(), "module": MODULE, "entry_point": task.entry_point}
        async with AsyncExitStack() as stack:
            tests, code = await asyncio.gather(
                stack.enter_async_context(self.runtime.start("check", ask, task.time_limit + STARTING)),
                stack.enter_async_context(self.runtime.start("candidate", serve, task.time_limit + STARTING)),
            )
            done, ending = await relay(tests, code, task.time_limit)
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
                told = outcomes.setdefault(name, {"outcome": NOT_RUN, "detail": ENDINGS[ending]})
                if told["outcome"] == ERROR and told["detail"] == ENDINGS[ending]:
                    told["outcome"] = reason
        return outcomes, findings

    async def _repository(self, task: CodeTask, workspace: Workspace) -> tuple[dict[str, Any], list[Finding]]:
        told = await Suite(self.runtime, task, workspace, self.suite_seconds).run()
        findings = [
            Finding(kind, f"{name}: {text}", rewrite=str(said.get("detail", ""))[:300])
            for name, said in told.items()
            for key, (kind, text) in _OFFENCES.items()
            if said.get(key)
        ]
        doubts = [
            f"{name}: {said['doubt']}" for name, said in told.items() if said.get("doubt") and not said.get("lying")
        ]
        others = [said for said in told.values() if not said.get("doubt")]
        if doubts and not findings and all(said.get("outcome") == PASSED for said in others):
            raise GradingFailed(f"{task.id}: its tests cannot decide on this work from outside: {doubts[0][:300]}")
        return told, findings


_OFFENCES = {
    "exiting": ("early_exit", "do not end the process."),
    "lying": ("lying_equality", "a value must not equal whatever it is compared with."),
}


def _outcome(name: str, told: Any) -> TestOutcome:
    if not isinstance(told, dict) or told.get("outcome") not in TEST_OUTCOMES:
        return TestOutcome(name=name, outcome=NOT_RUN, detail="it was not reached")
    return TestOutcome(name=name, outcome=told["outcome"], detail=" ".join(str(told.get("detail", "")).split())[:300])

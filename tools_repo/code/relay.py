"""Between two sandboxes: questions of hidden tests go to the one that holds the tested code, plain values come back."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import orjson
from tokenmill.schemas.code import ERROR, PASSED, TIMEOUT, CodeTask
from tokenmill.tools_repo.code.interpreter import GuestFailed, Runtime
from tokenmill.tools_repo.code.tampering import is_runner, is_test
from tokenmill.tools_repo.code.workspace import Workspace
from tokenmill.tools_repo.sandbox.base import MIB, Running

MAX_ANSWER = 16 * MIB
"""Bytes of one answer of the tested code; a larger one counts as none that can be sent."""
_MAX_CALLS = 100_000
STARTING = 20.0
"""Seconds within which Python starts in a sandbox, however busy the machine."""
ENDINGS = {
    "time": "the code did not answer in time",
    "exit": "the code ended its process",
    "gone": "the code's process is gone",
}


class Suite:
    """The hidden tests of a repository over one workspace: one sandbox runs them, and for each test a fresh one holds the
    tested code."""

    def __init__(self, runtime: Runtime, task: CodeTask, workspace: Workspace, seconds: float) -> None:
        """`workspace` is the judged one, hidden tests included; `seconds` are for all tests together."""
        self.runtime, self.task = runtime, task
        hidden = {file.path for file in task.hidden_tests}
        kept = {file.path for file in task.files if file.path in set(task.protected) or is_runner(file.path)}
        self.local = hidden | kept
        theirs = {path: None for path in workspace if path not in self.local and is_test(path) and path.endswith(".py")}
        self.judging = workspace.changed(theirs)
        self.judged = workspace.changed(dict.fromkeys(hidden))
        self.end = time.monotonic() + min(seconds, (task.time_limit + STARTING) * len(task.tests))
        self.code: Code | None = None

    async def run(self) -> dict[str, dict[str, Any]]:
        """What the tests' sandbox says of each test.

        Raises:
            GuestFailed: that sandbox says nothing that makes sense.
        """
        task = self.task
        job = {
            "files": self.judging.to_wire(),
            "tests": task.tests,
            "seconds": task.time_limit,
            "local": sorted(self.local),
        }
        told: dict[str, dict[str, Any]] = {}
        try:
            async with self.runtime.start("tester", job, self.end - time.monotonic()) as tests:
                while len(told) < len(task.tests):
                    line = b""
                    wait = min(self.end - time.monotonic(), task.time_limit + STARTING)
                    try:
                        line = await asyncio.wait_for(tests.readline(), max(0.01, wait))
                    except TimeoutError:
                        if time.monotonic() > self.end:
                            return told
                    said = parsed(line)
                    if "begin" in said:
                        await self._begin()
                    elif "test" in said:
                        told[str(said["test"])] = await self._outcome(said)
                    elif "ask" in said:
                        answer = await self._answer(said["ask"])
                        await tests.write(orjson.dumps({"number": said.get("number"), "answer": answer}) + b"\n")
                    else:
                        raise GuestFailed(f"the test runner does not work: {tests.exceeded or tests.last_words(300)}")
        finally:
            if self.code is not None:
                await self.code.stop()
        return told

    async def _begin(self) -> None:
        if self.code is not None:
            await self.code.stop()
        self.code = Code(self.runtime, self.judged, self.task.time_limit)

    async def _answer(self, ask: Any) -> dict[str, Any]:
        if self.code is None:
            raise GuestFailed("the test runner asks before it begins")
        return await self.code.answer(ask)

    async def _outcome(self, said: dict[str, Any]) -> dict[str, Any]:
        code, self.code = self.code, None
        ending = code.ending if code is not None else ""
        if code is not None:
            await code.stop()
        if ending and said.get("outcome") in (PASSED, ERROR, "failed"):
            said["outcome"] = TIMEOUT if ending == "time" else ERROR
        return {**said, "exiting": bool(said.get("exiting")) or ending == "exit"}


class Code:
    """A sandbox that holds the tested code for one test; it starts with the first question."""

    def __init__(self, runtime: Runtime, workspace: Workspace, seconds: float) -> None:
        self.runtime, self.workspace, self.seconds = runtime, workspace, seconds
        self.ending = ""
        """How it ended: `time`, `exit`, `gone`; empty while it lives."""
        self._stack = AsyncExitStack()
        self._running: Running | None = None
        self._end = 0.0
        self._calls = 0

    async def answer(self, ask: Any) -> dict[str, Any]:
        if not self.ending:
            if self._running is None:
                await self._start()
            self._calls += 1
            if self._calls > _MAX_CALLS:
                raise GuestFailed(f"the tests made more than {_MAX_CALLS} calls")
            told = await self.asked(ask) if not self.ending else {}
            if not self.ending:
                return told
        return {"gone": ENDINGS[self.ending]}

    async def _start(self) -> None:
        job = {"files": self.workspace.to_wire()}
        starting = self.runtime.start("held", job, self.seconds + STARTING)
        self._running = await self._stack.enter_async_context(starting)
        try:
            ready = parsed(await asyncio.wait_for(self._running.readline(), self.seconds + STARTING))
        except TimeoutError:
            ready = {}
        if not ready.get("ready"):  # none of its code has run yet
            raise GuestFailed(f"the sandbox of the tested code does not start: {self._running.last_words(300)}")
        self._end = time.monotonic() + self.seconds

    async def asked(self, ask: Any) -> dict[str, Any]:
        assert self._running is not None
        try:
            await asyncio.wait_for(
                self._running.write(orjson.dumps(ask) + b"\n"), max(0.01, self._end - time.monotonic())
            )
            line = await asyncio.wait_for(self._running.readline(), max(0.01, self._end - time.monotonic()))
            if len(line) > MAX_ANSWER:
                return {"unsendable": f"more than {MAX_ANSWER // MIB} MiB"}
            if answer := plain(parsed(line), _SAYS):
                return answer
            self.ending = "exit" if await ended_well(self._running) else "gone"
        except TimeoutError:
            self.ending = "time"
        except ConnectionError:
            self.ending = "exit" if await ended_well(self._running) else "gone"
        return {}

    async def stop(self) -> None:
        await self._stack.aclose()


_SAYS = ("value", "raised", "unsendable", "callback", "changed", "files", "out", "err", "logged", "warned")


async def relay(tests: Running, code: Running, seconds: float) -> tuple[dict[str, Any], str]:
    """Carry calls from the tests to the code and values back. What the tests found, and how the code ended (`time`, `exit`,
    `gone`; empty while it lives)."""
    ending, broken = "", ""
    try:
        ready = parsed(await asyncio.wait_for(code.readline(), seconds + STARTING))
        if not ready.get("ready"):
            broken = str(ready.get("broken") or ENDINGS["gone"])[:300]
            ending = "exit" if ready.get("exit") or (not ready and await ended_well(code)) else "gone"
    except TimeoutError:
        ending = "time"
    end = time.monotonic() + seconds
    for _ in range(_MAX_CALLS):
        try:
            # What the tests do of their own takes time as well, but never as long as this.
            line = await asyncio.wait_for(tests.readline(), seconds + STARTING)
        except TimeoutError:
            line = b""
        said = parsed(line)
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
                answer = plain(parsed(line))
                if not answer:
                    ending = "exit" if await ended_well(code) else "gone"
                elif answer.get("exit"):
                    ending = "exit"
            except TimeoutError:
                ending = "time"
            except ConnectionError:
                ending = "exit" if await ended_well(code) else "gone"
        if ending:
            answer = {"gone": broken or ENDINGS[ending]}
        await tests.write(orjson.dumps(answer) + b"\n")
    raise GuestFailed(f"the tests made more than {_MAX_CALLS} calls")


async def ended_well(code: Running) -> bool:
    """Whether the code's process said by its exit code that all was well."""
    try:
        return await asyncio.wait_for(code.wait(), 3) == 0
    except TimeoutError:
        return False


def parsed(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def plain(answer: dict[str, Any], names: tuple[str, ...] = ("value", "raised", "unsendable", "exit")) -> dict[str, Any]:
    """Of the code's answer what an answer can have; it may have written anything."""
    return {name: answer[name] for name in names if name in answer}

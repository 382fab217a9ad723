"""Guest: runs calls of generated tools, each in a process of its own. Sent into a sandbox as text; knows nothing of this
project and imports only Python's own library.

One JSON job a line on stdin, one JSON answer a line on stdout. The process that reads jobs never runs generated code: it
compiles it, forks, and the child runs one job and ends. So no job sees what another one left behind.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import math
import os
import re
import resource
import select
import signal
import sys
import time
import types

TYPE_CHECKING = False  # `typing` stays out: a larger process takes longer to fork
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_ANSWER = 1 << 20
MAX_RECORDED = 200
PR_SET_DUMPABLE = 4


class ToolError(Exception):
    """How a tool says that a call fails."""

    def __init__(self, code: object, message: object = "") -> None:
        super().__init__(message or code)
        self.code, self.message = str(code), str(message or code)


def dumps(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def load(code: types.CodeType, name: str = "engine") -> dict[str, Any]:
    """The namespace of a module that was just run."""
    module = types.ModuleType(name)
    module.__dict__["ToolError"] = ToolError
    sys.modules[name] = module  # where dataclasses look for the module of a class
    exec(code, module.__dict__)
    return module.__dict__


def perform(
    functions: Mapping[str, Any], now: str, state: str, function: str, arguments: object
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(answer, state afterwards) of one call over the text of a state; a failed call changes nothing."""
    mine = json.loads(state)
    try:
        result = functions[function](mine, json.loads(dumps(arguments)), now)
        return {"result": json.loads(dumps(result))}, mine
    except ToolError as error:
        return {"error": error.code[:64], "message": error.message[:1000]}, None
    except Exception as error:
        return {"broken": told(error)}, None


def told(error: BaseException) -> str:
    """An exception with the line of generated code that it comes from."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in ("<engine>", "<tests>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    said = re.sub(r"0x[0-9a-f]+", "0x...", str(error)[:300])  # addresses differ from run to run
    return f"{type(error).__name__}: {said}" + (f" (line {line})" if line else "")


def run_call(codes: Mapping[str, types.CodeType], job: dict[str, Any]) -> dict[str, Any]:
    functions = load(codes[job["code"]])
    answer, after = perform(functions, job["now"], job["state"], job["tool"], job["arguments"])
    before = json.loads(job["state"])
    after = before if after is None else after
    answer["changed"] = {kind: after[kind] for kind in after if kind not in before or after[kind] != before[kind]}
    answer["removed"] = [kind for kind in before if kind not in after]
    return answer


class TestWorld:
    """What generated tests get: `world.call(tool, **arguments)` and `world.state`."""

    def __init__(self, functions: Mapping[str, Any], job: dict[str, Any]) -> None:
        self._functions, self._job = functions, job
        self.state = json.loads(job["state"])
        self.now = job["now"]
        self.calls: list[dict[str, Any]] = []

    def call(self, tool: str, arguments: dict[str, Any] | None = None, /, **named: Any) -> Any:
        arguments = {**(arguments or {}), **named}
        before = dumps(self.state)
        answer: dict[str, Any] = {"result": {}}
        after = None
        if tool != self._job.get("without"):
            if tool not in self._job["tools"]:
                raise LookupError(f"there is no tool named {tool!r}")
            answer, after = perform(self._functions, self.now, before, self._job["tools"][tool], arguments)
        if len(self.calls) < MAX_RECORDED:
            self.calls.append({"tool": tool, "arguments": arguments, "state": json.loads(before), "answer": answer})
        self.state.clear()  # in place, so that a test may keep a name for it
        self.state.update(json.loads(before if after is None else dumps(after)))
        if "broken" in answer:
            raise RuntimeError(f"{tool}: {answer['broken']}")
        if "error" in answer:
            raise ToolError(answer["error"], answer["message"])
        return answer["result"]

    def fails(self, tool: str, arguments: dict[str, Any] | None = None, /, **named: Any) -> str:
        """The code of the error that the call must end with."""
        try:
            self.call(tool, arguments, **named)
        except ToolError as error:
            return error.code
        raise AssertionError(f"{tool} succeeds although it must fail")


def run_test(codes: Mapping[str, types.CodeType], job: dict[str, Any]) -> dict[str, Any]:
    """One generated test; `without` names a tool that does nothing instead of what it should."""
    world = TestWorld(load(codes[job["code"]]), job)
    try:
        load(codes[job["tests"]], "tests")[job["test"]](world)
        fault = ""
    except Exception as error:
        fault = told(error)
    return {"fault": fault, "calls": [] if job.get("without") else world.calls}


RUN = {"call": run_call, "test": run_test}


def child(pipe: int, codes: Mapping[str, types.CodeType], job: dict[str, Any]) -> None:
    """Run a job and tell what came of it. Never returns."""
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(job["seconds"]), math.ceil(job["seconds"]) + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (job["memory"], job["memory"]))
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            answer = RUN[job["kind"]](codes, job)
        except Exception as error:  # the module itself does not run
            answer = {"broken": told(error), "fault": told(error), "calls": []}
        data = dumps(answer).encode()
        if len(data) > MAX_ANSWER:
            data = dumps({"broken": "the answer is too large", "fault": "the answer is too large"}).encode()
        while data:
            data = data[os.write(pipe, data) :]
        status = 0
    finally:
        os._exit(status)


def collect(pid: int, pipe: int, seconds: float) -> tuple[bytes, str]:
    """(answer, how it ended) of a child, which is gone afterwards."""
    blocks, size, end, how = [], 0, time.monotonic() + seconds, "done"
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            how = "time"
            break
        block = os.read(pipe, 1 << 16)
        if not block:
            break
        blocks.append(block)
        size += len(block)
        if size > MAX_ANSWER:
            how = "output"
            break
    if how != "done":
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if how == "done" and status:
        how = "time" if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "died"
    data = b"".join(blocks)
    if how == "done" and (not data or b"\n" in data):
        how = "died"
    return data, how


def traces() -> bool:
    """What jobs may have left for later ones to find: files, shared memory, semaphores, messages."""
    for folder in (os.environ["HOME"], "/tmp", "/dev/shm"):
        with os.scandir(folder) as entries:
            if next(entries, None) is not None:
                return True
    for kind in ("shm", "sem", "msg"):
        try:
            table = os.open(f"/proc/sysvipc/{kind}", os.O_RDONLY)
            lines = os.read(table, 4096).count(b"\n")
            os.close(table)
            if lines > 1:
                return True
        except OSError:
            continue
    return False


def load_imports(text: str) -> None:
    """Load what a module imports here, once, and not again in every child; only what it may import, and no more than it
    does, since a larger process takes longer to fork."""
    words = set(text.replace(",", " ").replace(".", " ").split())
    for name in sys.argv[1:]:
        if name in words:
            importlib.import_module(name)
    if "strptime" in text:
        importlib.import_module("_strptime")
    gc.freeze()  # children then share these pages


def main() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    # A descriptor that only this process holds, or, where a sandbox can pass none on, stdin and stdout.
    given = int(os.environ.pop("TOKENMILL_CHANNEL", "-1"))
    channel = os.dup(given if given >= 0 else 1)
    jobs = os.fdopen(os.dup(given if given >= 0 else 0), "rb")
    if given >= 0:
        os.close(given)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    codes: dict[str, types.CodeType] = {}
    gc.disable()
    os.write(channel, b"ready\n")
    for line in jobs:
        job = json.loads(line)
        answer, how = b"", ""
        for name, text in job.pop("codes").items():
            try:
                load_imports(text)
                codes[name] = compile(
                    text, "<tests>" if name == job.get("tests") else "<engine>", "exec", dont_inherit=True
                )
            except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
                answer, how = dumps(f"{type(error).__name__}: {error}").encode(), "syntax"
                codes.pop(name, None)
        if not how:
            ours, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(ours)
                os.close(channel)
                os.close(jobs.fileno())
                child(theirs, codes, job)
            os.close(theirs)
            answer, how = collect(pid, ours, job["wall_seconds"])
            os.close(ours)
            if traces():
                return
        # What a child wrote is passed on unread: whoever gets it must not trust it anyway.
        told = answer if how in ("done", "syntax") else b"null"
        data = b'{"id":"%s","how":"%s","answer":%s}\n' % (job["id"].encode(), how.encode(), told)
        while data:
            data = data[os.write(channel, data) :]


if __name__ == "__main__":
    main()

"""Sandboxed processes that run calls of generated tools, a few for each event loop, shared by all worlds there.

    pool = Pool.shared(Interpreter.local())
    done = await pool.run(Job("call", code, state=..., tool=..., arguments=..., now=...))

A job carries everything it needs and leaves nothing behind: the process forks for every job (see `guest.py`). A process
that dies, or whose sandbox ends it, is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

import orjson
from tokenmill.inference.ending import at_end
from tokenmill.inference.errors import RowError, RunStopped
from tokenmill.tools_repo.sandbox.base import MIB, Command, Limits, Mount, Running, Sandbox, SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap, interpreter
from tokenmill.tools_repo.world.programs.source import MODULES

DONE, TIME, DIED, OUTPUT, SYNTAX = "done", "time", "died", "output", "syntax"
_IDLE = 2.0
"""Seconds after the last world has gone until the processes go too."""
_RECYCLE = 48 * MIB
"""Bytes of answers after which a process is replaced; the sandbox counts its output against a limit."""
_MAX_CODES = 200
_GRACE = 10.0
"""Seconds that an answer may come late: this machine may be busy."""
_START = 60.0
_DEATHS = 2
"""Processes that may die under a job; after that it is the job's fault."""
_PATIENCE = 5
_DAY = 86_400


class PoolBroken(RowError):
    """The process that runs generated tools does not start in the sandbox."""


def _limits() -> Limits:
    return Limits(
        memory=1024 * MIB,
        processes=16,
        cpu_seconds=_DAY,
        wall_seconds=_DAY,
        disk=1 * MIB,
        output=64 * MIB,
        open_files=64,
    )


@dataclass(frozen=True)
class Interpreter:
    """A sandbox with a Python in it, and what a call may use there. Picklable."""

    sandbox: Sandbox
    python: str
    """Absolute path of a Python 3.9 or newer as the sandbox sees it."""
    mounts: tuple[Mount, ...] = ()
    processes: int = 2
    seconds: float = 2.0
    """CPU time of one call, and of one test; several times as much may pass on a clock, so that a busy machine does not
    change what comes of a call."""
    memory: int = 128 * MIB
    """Bytes that one call may hold."""
    hash_seed: int = 0
    """PYTHONHASHSEED: another one shows whether results depend on the order of sets."""
    limits: Limits = field(default_factory=_limits)

    def __post_init__(self) -> None:
        if self.processes < 1 or self.seconds <= 0 or self.memory < 16 * MIB:
            raise ValueError("Interpreter: processes must be 1 or more, seconds above 0, memory 16 MiB or more")

    @classmethod
    def local(cls, sandbox: Sandbox | None = None, **settings: Any) -> Interpreter:
        """A sandbox, bubblewrap where none is given, with this machine's own Python."""
        python, mounts = interpreter()
        return cls(sandbox or Bubblewrap(), python, mounts, **settings)

    @property
    def command(self) -> Command:
        env = {"PYTHONHASHSEED": str(self.hash_seed), "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"}
        return Command(
            (self.python, "-s", "-S", "-c", _guest(), *sorted(MODULES)),
            env,
            self.mounts,
            limits=self.limits,
            private=True,
        )


@dataclass(frozen=True)
class Job:
    """One call, or one test, of a generated module."""

    kind: str
    """`call` or `test`."""
    code: str
    state: Mapping[str, Any]
    now: str
    tool: str = ""
    """For a call: name of the function."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    """For a test: the function of each tool that it may call."""
    tests: str = ""
    test: str = ""
    without: str = ""

    @property
    def codes(self) -> dict[str, str]:
        return {address(text): text for text in (self.code, self.tests) if text}


@dataclass(frozen=True)
class Done:
    """What became of a job."""

    how: str
    """`done`, or why there is no answer: `time`, `died`, `output`, `syntax`."""
    answer: dict[str, Any]
    """As the generated code's process wrote it: nobody vouches for it."""
    detail: str = ""


class _Process:
    def __init__(self, running: Running) -> None:
        self.running = running
        self.known: set[str] = set()
        self.received = 0

    @property
    def worn(self) -> bool:
        return self.received > _RECYCLE or len(self.known) > _MAX_CODES

    async def run(self, job: Job, setting: Interpreter) -> Done | None:
        """None when the process is no more."""
        codes = job.codes
        given = {name: text for name, text in codes.items() if name not in self.known}
        name = secrets.token_hex(16)  # the answer must have it: it belongs to this job and to no other
        sent = {
            "id": name,
            "kind": job.kind,
            "codes": given,
            "code": address(job.code),
            "tests": address(job.tests) if job.tests else "",
            "state": orjson.dumps(job.state).decode(),
            "now": job.now,
            "tool": job.tool,
            "arguments": job.arguments,
            "tools": job.tools,
            "test": job.test,
            "without": job.without,
            "seconds": setting.seconds,
            "wall_seconds": setting.seconds * _PATIENCE,
            "memory": setting.memory,
        }
        try:
            await self.running.write(orjson.dumps(sent) + b"\n")
            line = await asyncio.wait_for(self.running.readline(), setting.seconds * _PATIENCE + _GRACE)
            told = orjson.loads(line)
            how, answer = told["how"], told["answer"]
            if told["id"] != name:
                return None
        except (ConnectionError, TimeoutError, ValueError, KeyError, TypeError):
            return None
        self.received += len(line)
        if how == SYNTAX:
            return Done(SYNTAX, {}, str(answer)[:500])
        self.known |= codes.keys()
        if how == DONE and isinstance(answer, dict):
            return Done(DONE, answer)
        return Done(how if how in (TIME, OUTPUT) else DIED, {})


class Pool:
    """A bounded number of processes; further jobs wait."""

    def __init__(self, setting: Interpreter) -> None:
        self.setting = setting
        self._free: list[_Process] = []
        self._slots = asyncio.Semaphore(setting.processes)
        self._users = 0
        self._closing: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def shared(cls, setting: Interpreter) -> Pool:
        """This event loop's pool for these settings."""
        pools = _pools.setdefault(asyncio.get_running_loop(), {})
        key = repr(setting)
        if key not in pools:
            pools[key] = cls(setting)
        return pools[key]

    def enter(self) -> None:
        """Say that somebody uses the pool, until `leave`."""
        self._users += 1
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def leave(self) -> None:
        self._users -= 1
        if self._users <= 0 and self._closing is None:
            self._closing = asyncio.get_running_loop().call_later(_IDLE, self._close_soon)

    async def run(self, job: Job) -> Done:
        """Run a job.

        Raises:
            RunStopped: there is no sandbox here.
            PoolBroken: a process does not start there.
        """
        async with self._slots:
            for _ in range(_DEATHS):
                process = self._free.pop() if self._free else await self._start()
                done = None
                try:
                    done = await process.run(job, self.setting)
                finally:
                    if done is None or process.worn:
                        # Also when this task is cancelled: the process is in the middle of a job.
                        await asyncio.shield(process.running.stop())
                    else:
                        self._free.append(process)
                if done is not None:
                    return done
        return Done(DIED, {}, "it ended the process that runs it")

    async def _start(self) -> _Process:
        """A process that has said that it is there."""
        try:
            running = await self.setting.sandbox.start(self.setting.command)
        except SandboxUnavailable as error:
            raise RunStopped(str(error)) from None
        try:
            line = await asyncio.wait_for(running.readline(), _START)
        except TimeoutError:
            line = b""
        if line != b"ready\n":
            words = running.last_words() or running.exceeded or "no explanation"
            await running.stop()
            raise PoolBroken(f"{self.setting.python} does not start in the sandbox: {words[-300:]}")
        at_end(self, self.close)
        return _Process(running)

    async def close(self) -> None:
        """End all processes that are free."""
        processes, self._free = self._free, []
        await asyncio.gather(*(process.running.stop() for process in processes))

    def _close_soon(self) -> None:
        self._closing = None
        if self._users <= 0:
            task = asyncio.get_running_loop().create_task(self._close_quietly())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _close_quietly(self) -> None:
        with contextlib.suppress(OSError):
            await self.close()


_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Pool]] = weakref.WeakKeyDictionary()


@cache
def _guest() -> str:
    return resources.files(__package__).joinpath("guest.py").read_text(encoding="utf-8")


def address(code: str) -> str:
    """A name for a text of code, by its content."""
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def with_hash_seed(setting: Interpreter, seed: int) -> Interpreter:
    """The same interpreter whose sets and hashes are ordered otherwise."""
    return replace(setting, hash_seed=seed, processes=1)

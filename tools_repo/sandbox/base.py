"""Running untrusted programs: tool servers harvested from package registries, code that a model wrote.

    sandbox = Bubblewrap()
    sandbox.check()
    done = await run(sandbox, Command(("python3", "-c", "print(1)"), limits=Limits(wall_seconds=5)))
    async with await sandbox.start(Command(("some-server",))) as server: ...  # stdin and stdout stay open

A sandboxed program sees a read-only system, a private home and /tmp in memory, no network (unless asked for), none of
our environment, no process but its own. All its processes end together: when it ends, when a limit is passed, when
`stop` is called, or when the thread that started it dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tokenmill.tools_repo.sandbox.cgroup import Group
from tokenmill.tools_repo.sandbox.usage import children, disk_usage, in_memory, memory, sockets

HOME = "/home/user"
PATH = "/usr/local/bin:/usr/bin:/bin"
TEMPORARY = ("/tmp", "/dev/shm", HOME)
"""Folders in memory that a sandboxed program may write."""
MIB = 1 << 20
CHANNEL = "TOKENMILL_CHANNEL"
"""Environment variable of a program with a private channel: the number of its descriptor."""


class SandboxUnavailable(Exception):
    """This machine cannot isolate programs; the message says what to install or allow."""


@dataclass(frozen=True)
class Limits:
    """What a sandboxed program may use, all its processes together unless said otherwise."""

    memory: int = 1024 * MIB
    """Bytes. The kernel holds each process to it; the sum, sampled ten times a second, ends the sandbox. Where a control group
    can be had, the kernel holds all of them, with what it keeps for them and the files in memory, to this and `disk`."""
    processes: int = 128
    """Processes and threads; a fork beyond it fails."""
    cpu_seconds: int = 120
    """CPU time of each process."""
    wall_seconds: float = 120.0
    disk: int = 256 * MIB
    """Bytes in home, /tmp and /dev/shm together; also of one file, and of what is written to writable mounts."""
    inodes: int = 1 << 17
    """Files and folders in home, /tmp and /dev/shm together: even empty ones take memory of the kernel's."""
    output: int = 16 * MIB
    """Bytes of stdout and stderr together."""
    open_files: int = 1024

    def __post_init__(self) -> None:
        for name in ("memory", "processes", "cpu_seconds", "wall_seconds", "disk", "inodes", "output", "open_files"):
            if getattr(self, name) <= 0:
                raise ValueError(f"Limits.{name} must be more than 0, not {getattr(self, name)}")


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine that a sandboxed program sees."""

    source: str
    target: str
    writable: bool = False
    metered: bool = True
    """Whether what is written there counts against `Limits.disk`."""


@dataclass(frozen=True)
class Command:
    """A program and all that it gets to see."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment beside PATH, HOME, LANG, and TMPDIR."""
    mounts: tuple[Mount, ...] = ()
    network: bool = False
    cwd: str = HOME
    limits: Limits = Limits()
    private: bool = False
    """Whether we and the program talk over a descriptor that only it holds, whose number is in TOKENMILL_CHANNEL, and not
    over stdin and stdout, which the sandbox's first process holds as well and others of the same user may write to."""
    masked: tuple[str, ...] = ()
    """Folders that are to seem empty."""
    owner: int | None = None
    """User id to run under where we are root; by default one that nobody else has. Files on writable mounts are its."""

    def __post_init__(self) -> None:
        if not self.argv:
            raise ValueError("Command.argv is empty")


@dataclass(frozen=True)
class Finished:
    """What became of a program."""

    returncode: int
    """Of the program; 128 + N when signal N ended it."""
    stdout: bytes
    stderr: bytes
    exceeded: str
    """The limit that ended it (`memory`, `time`, `output`, `disk`), empty when none did."""
    seconds: float


class Sandbox(Protocol):
    """Something that isolates programs, such as `Bubblewrap`."""

    def check(self) -> None:
        """Raises: SandboxUnavailable."""
        ...

    async def start(self, command: Command) -> Running: ...


class Running:
    """A program in its sandbox, with pipes. Leaving `async with` ends it and everything it started."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        command: Command,
        channel: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None,
        group: Group | None = None,
        end: tuple[str, ...] = (),
        used: Callable[[int], int] | None = None,
    ) -> None:
        """`channel` stands for stdin and stdout where the program has a private one; `group` holds all its processes; `end`
        is a command that ends them where they are no children of `process`; `used` tells the bytes that they and their files in
        memory take, where that is more than is seen of `process`."""
        self.process = process
        self.command = command
        self.reader, self.writer = channel or (process.stdout, process.stdin)
        self.group = group
        self._end = end
        self._used = used
        self._ending: subprocess.Popen[bytes] | None = None
        self.exceeded = ""
        """The limit that ended the program, if one did."""
        self.closing = False
        self._output = 0
        self._stderr: deque[bytes] = deque()
        self._started = time.monotonic()
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._drain())]

    async def __aenter__(self) -> Running:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    async def write(self, data: bytes) -> None:
        """Send bytes to the program. Raises: ConnectionError when it no longer reads."""
        assert self.writer is not None
        self.writer.write(data)
        await self.writer.drain()

    def close_stdin(self) -> None:
        assert self.writer is not None
        with contextlib.suppress(OSError):
            if self.writer.can_write_eof() and self.writer is not self.process.stdin:
                self.writer.write_eof()
            else:
                self.writer.close()

    async def readline(self) -> bytes:
        """The next line of stdout, empty at its end. A line longer than the output limit ends the program."""
        assert self.reader is not None
        try:
            line = await self.reader.readline()
        except ValueError:  # longer than the stream's limit
            self._exceed("output")
            return b""
        except ConnectionError:
            return b""
        self._count(line)
        return b"" if self.exceeded == "output" else line

    async def read(self) -> bytes:
        """The next bytes of stdout, empty at its end."""
        assert self.reader is not None
        try:
            block = await self.reader.read(1 << 16)
        except ConnectionError:
            return b""
        self._count(block)
        return block

    def last_words(self, characters: int = 600) -> str:
        """The end of what the program wrote to stderr, control characters replaced."""
        text = b"".join(self._stderr).decode("utf-8", "replace")
        return "".join(c if c.isprintable() or c == "\n" else " " for c in text).strip()[-characters:]

    @property
    def stderr(self) -> bytes:
        """The last 64 KiB written to stderr."""
        return b"".join(self._stderr)

    async def wait(self) -> int:
        """Wait for the end of the program; its exit code."""
        code = await self.process.wait()
        if not self.exceeded and not self.closing and self.group is not None and self.group.overrun():
            self.exceeded = "memory"
        await asyncio.wait(self._tasks[1:], timeout=2)
        return code if code >= 0 else 128 - code

    async def stop(self) -> None:
        """End all processes of the sandbox; on return there are none."""
        self.closing = True
        self.kill()
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.writer is not None and self.writer is not self.process.stdin:
            self.writer.close()
        if self._end:
            self._run_end()
            assert self._ending is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._ending.wait, 20)
        if self.group is not None:
            await self.group.remove()
        transport = getattr(self.process, "_transport", None)
        if transport is not None:  # closes the pipes; a stray reader must not keep them
            transport.close()

    def kill(self) -> None:
        """Kill the sandbox's first process, with which the kernel ends all others before it can be waited for."""
        if self.process.returncode is not None:
            return  # its id may be somebody else's by now
        if self._end:
            self._run_end()
        inner = children(self.process.pid)
        for pid in inner or [self.process.pid]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _run_end(self) -> None:
        if self._ending is None or self._ending.poll() is not None:
            quiet = subprocess.DEVNULL
            self._ending = subprocess.Popen(self._end, stdin=quiet, stdout=quiet, stderr=quiet, cwd="/")

    def _exceed(self, limit: str) -> None:
        if not self.exceeded and self.process.returncode is None:
            self.exceeded = limit
            self.kill()

    def _count(self, data: bytes) -> None:
        self._output += len(data)
        if self._output > self.command.limits.output:
            self._exceed("output")

    async def _drain(self) -> None:
        """Read stderr so that the program never blocks on it, and keep its end."""
        assert self.process.stderr is not None
        kept = 0
        while block := await self.process.stderr.read(1 << 14):
            self._count(block)
            self._stderr.append(block)
            kept += len(block)
            while kept - len(self._stderr[0]) > 1 << 16:
                kept -= len(self._stderr.popleft())

    def _hungry(self) -> bool:
        if self._used is not None:
            return self._used(self.process.pid) > self.command.limits.memory + self.command.limits.disk
        if self.group is not None:
            return self.group.overrun() or memory(self.process.pid) > self.command.limits.memory
        return memory(self.process.pid) + sockets(self.process.pid) > self.command.limits.memory

    def _full(self) -> bool:
        files, size = in_memory(self.process.pid, TEMPORARY)
        return files > self.command.limits.inodes or size > self.command.limits.disk

    async def _watch(self) -> None:
        """Hold the program to the limits that the kernel does not."""
        limits = self.command.limits
        writable = [m.source for m in self.command.mounts if m.writable and m.metered]
        next_disk = self._started + 1
        while self.process.returncode is None:
            if self.seconds > limits.wall_seconds:
                self._exceed("time")
            elif self._hungry():
                self._exceed("memory")
            elif self._full():
                self._exceed("disk")
            elif writable and time.monotonic() > next_disk:
                used = await asyncio.to_thread(lambda: sum(map(disk_usage, writable)))
                if used > limits.disk:
                    self._exceed("disk")
                next_disk = time.monotonic() + 1
            await asyncio.sleep(0.1)


async def run(sandbox: Sandbox, command: Command, stdin: bytes = b"") -> Finished:
    """Run a program to its end.

    Raises:
        SandboxUnavailable: it could not be isolated.
    """
    async with await sandbox.start(command) as running:

        async def feed() -> None:
            with contextlib.suppress(ConnectionError):
                await running.write(stdin)
            running.close_stdin()

        feeding = asyncio.create_task(feed())
        blocks = []
        while block := await running.read():
            blocks.append(block)
        code = await running.wait()
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        stdout = b"".join(blocks)[: command.limits.output]
        return Finished(code, stdout, running.stderr, running.exceeded, running.seconds)


@contextlib.contextmanager
def as_file(content: bytes) -> Iterator[int]:
    """A file descriptor from which `content` can be read; it takes no disk."""
    with os.fdopen(os.memfd_create("tokenmill"), "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()

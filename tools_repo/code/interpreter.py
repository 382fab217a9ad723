"""Where code of tasks runs: a sandbox, the Python in it, and how a command meets a workspace there.

runtime = Runtime.local()
done = await runtime.execute(workspace, ("bash", "-c", "python -m pytest -q"), seconds=30)
done.output, done.workspace
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import re
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

import orjson
from packaging.requirements import Requirement
from tokenmill.inference.errors import RowError, RunStopped
from tokenmill.tools_repo.code.workspace import MAX_BYTES, MAX_FILES, PathRefused, Workspace, WorkspaceFull, from_wire
from tokenmill.tools_repo.sandbox.base import (
    HOME,
    MIB,
    Command,
    Finished,
    Limits,
    Mount,
    Running,
    Sandbox,
    SandboxUnavailable,
    run,
)
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap, interpreter, site_packages

WORKSPACE = f"{HOME}/workspace"
PACKAGES = "/opt/packages"
_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Semaphore]] = weakref.WeakKeyDictionary()


class GuestFailed(RowError):
    """The program that we run beside the untrusted code said nothing that makes sense."""


@dataclass(frozen=True)
class Executed:
    """What became of a command in a workspace."""

    exit_code: int | None
    """None when it had to be ended."""
    output: str
    """stdout and stderr as they came; when long, beginning and end with a marker between."""
    exceeded: str
    """`time`, `memory`, `output`, `disk` or `killed`; empty when the command ended by itself."""
    workspace: Workspace
    """The files afterwards; those from before when the whole sandbox had to be ended."""
    seconds: float


def _default_limits() -> Limits:
    return Limits(memory=1024 * MIB, processes=128, cpu_seconds=120, disk=64 * MIB, output=64 * MIB)


@dataclass(frozen=True)
class Runtime:
    """A sandbox with a Python in it. Picklable."""

    sandbox: Sandbox
    python: str
    """Absolute path of a Python 3.9 or newer as the sandbox sees it."""
    mounts: tuple[Mount, ...] = ()
    masked: tuple[str, ...] = ()
    """Folders of packages that this Python would find and that are no part of the environment."""
    limits: Limits = field(default_factory=_default_limits)
    slots: int = field(default_factory=lambda: max(2, os.cpu_count() or 2))
    """Calls and verdicts at work at a time, counted for each event loop; further ones wait. A function's verdict takes two
    sandboxes."""
    grace: float = 20.0
    """Seconds beyond a command's own limit after which the sandbox itself is ended: starting and packing files take time."""

    def __post_init__(self) -> None:
        if not self.python.startswith("/"):
            raise ValueError(f"Runtime.python must be an absolute path, not {self.python!r}")
        if self.slots < 1:
            raise ValueError(f"Runtime.slots must be 1 or more, not {self.slots}")

    @classmethod
    def local(cls, sandbox: Sandbox | None = None, **settings: Any) -> Runtime:
        """A sandbox (bubblewrap where none is given) with this Python and our pytest; nothing else of what is installed here."""
        python, mounts = interpreter()
        return cls(sandbox or Bubblewrap(), python, (*mounts, *test_packages()), site_packages(), **settings)

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{PurePosixPath(self.python).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": PACKAGES,
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }

    def command(self, guest: str, seconds: float, limits: Limits | None = None) -> Command:
        """The command that starts a guest, which has `seconds` in all."""
        limits = replace(limits or self.limits, wall_seconds=seconds)
        argv = (self.python, "-I", "-c", source(guest))
        return Command(argv, self.env, self.mounts, limits=limits, private=True, masked=self.masked)

    async def ask(self, guest: str, job: Mapping[str, Any], seconds: float) -> Finished:
        """Run a guest with a job to its end. Takes no slot: see `slot`.

        Raises:
            RunStopped: there is no sandbox here.
        """
        try:
            return await run(self.sandbox, self.command(guest, seconds + self.grace), orjson.dumps(job) + b"\n")
        except SandboxUnavailable as error:
            raise RunStopped(str(error)) from None

    @asynccontextmanager
    async def start(self, guest: str, job: Mapping[str, Any], seconds: float) -> AsyncIterator[Running]:
        """Start a guest and send it a job; stdin and stdout stay open. Takes no slot: see `slot`.

        Raises:
            RunStopped: there is no sandbox here.
        """
        try:
            started = await self.sandbox.start(self.command(guest, seconds + self.grace))
        except SandboxUnavailable as error:
            raise RunStopped(str(error)) from None
        async with started as running:
            await running.write(orjson.dumps(job) + b"\n")
            yield running

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait until fewer than `slots` are at work."""
        mine = _slots.setdefault(asyncio.get_running_loop(), {})
        async with mine.setdefault(self.slots, asyncio.Semaphore(self.slots)):
            yield

    async def execute(
        self, workspace: Workspace, argv: tuple[str, ...], *, seconds: float, stdin: str = "", keep: int = 16_000
    ) -> Executed:
        """Run a command with the workspace's files in its working folder; `keep` characters of its output are kept.

        Raises:
            RunStopped: there is no sandbox here.
            GuestFailed: the sandbox works but Python does not start in it.
        """
        job = {
            "argv": list(argv),
            "stdin": stdin,
            "seconds": seconds,
            "keep": keep // 2,
            "max_files": MAX_FILES,
            "max_bytes": MAX_BYTES,
            "files": workspace.to_wire(),
        }
        async with self.slot():
            finished = await self.ask("shell", job, seconds)
        if finished.exceeded or finished.returncode >= 128:
            reason = finished.exceeded or "killed"
            return Executed(None, "", reason, workspace, finished.seconds)
        try:
            told = orjson.loads(finished.stdout)
            after, full = workspace, told["full"]
            if not full:
                try:
                    after = workspace.changed({**dict.fromkeys(told["removed"]), **from_wire(told["changed"])})
                except (WorkspaceFull, PathRefused):
                    full = True
            exceeded = "time" if told["late"] else "disk" if full else ""
            output = joined(told["head"], told["tail"], told["omitted"])
            return Executed(None if told["late"] else told["exit_code"], output, exceeded, after, finished.seconds)
        except (ValueError, KeyError, TypeError) as error:
            said = finished.stderr.decode("utf-8", "replace").strip()[-300:]
            raise GuestFailed(f"{self.python} in the sandbox: {said or error}") from None


def joined(head: str, tail: str, omitted: int) -> str:
    """Beginning and end of a text, with a marker for what is left out between."""
    return f"{head}\n… [{omitted} bytes left out] …\n{tail}" if omitted else head + tail


def shortened(text: str, keep: int = 16_000) -> str:
    """A text of any length as `joined` shows it."""
    if len(text) <= keep:
        return text
    head, tail = text[: keep // 2], text[-keep // 2 :]
    return f"{head}\n… [{len(text) - len(head) - len(tail)} characters left out] …\n{tail}"


_SHARED = re.compile(
    r"^from tokenmill\.tools_repo\.code\.guests\.(\w+) import (?:\([^)]*\)[^\n]*\n|[^(\n]*\n)", re.MULTILINE
)


@cache
def source(guest: str) -> str:
    """The text of a guest, with what it shares with others in front, each once."""
    folder = resources.files("tokenmill.tools_repo.code.guests")
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in texts:
            text = folder.joinpath(f"{name}.py").read_text(encoding="utf-8")
            for needed in _SHARED.findall(text):
                add(needed)
            texts[name] = _SHARED.sub("", text)

    add(guest)
    return "\n".join(texts.values())


@cache
def test_packages() -> tuple[Mount, ...]:
    """pytest and all that it needs, from our own environment, each package and module by itself.

    Raises:
        ModuleNotFoundError: one of them is not installed.
    """
    mounts: dict[str, Mount] = {}
    todo, done = ["pytest"], set()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        try:
            held = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise ModuleNotFoundError(f"{name} is not installed: pip install pytest") from None
        todo += [needed for text in held.requires or () if (needed := _needed(text))]
        for file in held.files or ():
            top = file.parts[0]
            if top.endswith((".dist-info", ".data")) or top in ("..", "__pycache__") or not _importable(file.parts):
                continue
            mounts[top] = Mount(str(held.locate_file(top)), f"{PACKAGES}/{top}")
    return tuple(mounts[top] for top in sorted(mounts))


def _importable(parts: tuple[str, ...]) -> bool:
    return parts[-1].endswith((".py", ".so"))


def _needed(text: str) -> str:
    """The name of a requirement that holds here; empty for others."""
    needed = Requirement(text)
    return needed.name if needed.marker is None or needed.marker.evaluate({"extra": ""}) else ""


def as_json(value: Any) -> str:
    """JSON text as tools answer: readable, one line."""
    return json.dumps(value, ensure_ascii=False)

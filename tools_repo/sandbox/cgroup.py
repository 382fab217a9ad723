"""Control groups: the kernel's own account of what all processes of a sandbox take, with what it keeps for them itself
(buffers of sockets and pipes, page tables, queues, files in memory). Used where one can be made; nothing is installed.

A group is made beside ours in the hierarchy of version 2, where the memory controller is passed on and we may write (root;
a container with its own group), below ours in version 1, or by `systemd-run --user --scope` where a user's manager runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ENTER = 'echo $$ >"$0" && exec "$@"'
_PREFIX = "tokenmill-"
_KERNEL = 32 << 20
"""Bytes beside memory and files that a sandbox's own processes take of the kernel's."""
_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """Where groups can be made."""

    folder: Path | None
    """The parent's folder; None where systemd makes them."""
    version: int = 2


@dataclass
class Group:
    """One sandbox's group."""

    place: Place
    folder: Path | None
    memory: int

    def wrapped(self, argv: list[str], processes: int) -> list[str]:
        """The command line that runs another inside the group."""
        if self.folder is not None:
            return ["/bin/sh", "-c", _ENTER, str(self.folder / "cgroup.procs"), *argv]
        limits = [f"--property={name}={value}" for name, value in (("MemoryMax", self.memory), ("MemorySwapMax", 0))]
        limits.append(f"--property=TasksMax={processes + 8}")
        # Its own environment ends with it: that of bubblewrap can be read inside.
        return [shutil.which(_SYSTEMD[0]) or _SYSTEMD[0], *_SYSTEMD[1:], *limits, "--", "/usr/bin/env", "-i", *argv]

    @property
    def env(self) -> dict[str, str]:
        """What the wrapping program needs of our environment."""
        names = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS") if self.folder is None else ()
        return {name: os.environ[name] for name in names if name in os.environ}

    def overrun(self) -> bool:
        """Whether the kernel has ended a process for want of memory."""
        if self.folder is None:
            return False
        name = "memory.events" if self.place.version == 2 else "memory.oom_control"
        with contextlib.suppress(OSError, ValueError):
            told = dict(line.split() for line in (self.folder / name).read_text().splitlines())
            return int(told.get("oom_kill", 0)) > 0
        return False

    async def remove(self) -> None:
        """Remove the group, whose processes have ended."""
        for _ in range(50):
            try:
                if self.folder is not None:
                    self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                await asyncio.sleep(0.02)


def made(memory: int, processes: int) -> Group | None:
    """A group whose processes may take `memory` bytes in all; None where none can be made."""
    where = place()
    if where is None or where.folder is None:
        return None if where is None else Group(where, None, memory + _KERNEL)
    folder = where.folder / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
    try:
        folder.mkdir()
        for name, value in _settings(where.version, memory + _KERNEL, processes):
            if (folder / name).exists():
                (folder / name).write_text(value)
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return Group(where, folder, memory + _KERNEL)


def _settings(version: int, memory: int, processes: int) -> list[tuple[str, str]]:
    if version == 1:
        return [("memory.limit_in_bytes", str(memory)), ("memory.memsw.limit_in_bytes", str(memory))]
    return [
        ("memory.max", str(memory)),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
        ("pids.max", str(processes + 8)),
    ]


_SYSTEMD = ["systemd-run", "--user", "--scope", "--quiet", "--collect"]


@cache
def place() -> Place | None:
    """Where groups can be made on this machine, by this user."""
    for found in (_version_2(), _version_1()):
        if found is not None and found.folder is not None and _works(found):
            _sweep(found.folder)
            return found
    if shutil.which("systemd-run") and os.environ.get("XDG_RUNTIME_DIR"):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            trial = [*_SYSTEMD, "--property=MemoryMax=64M", "--", "true"]
            if subprocess.run(trial, capture_output=True, timeout=10, check=False).returncode == 0:
                return Place(None)
    return None


def described() -> str:
    """How the memory that the kernel keeps for a sandbox is bounded here, for a person to read."""
    where = place()
    if where is None:
        return "no control group can be made here: memory is sampled, and what the kernel keeps for a program is bounded in part"
    return f"control group version {where.version}" if where.folder is not None else "control group by systemd-run"


def _works(found: Place) -> bool:
    assert found.folder is not None
    trial = found.folder / f"{_PREFIX}{os.getpid()}-trial"
    try:
        trial.mkdir()
        try:
            limit = trial / ("memory.max" if found.version == 2 else "memory.limit_in_bytes")
            limit.write_text(str(64 << 20))
            with subprocess.Popen(["/bin/sh", "-c", _ENTER, str(trial / "cgroup.procs"), "true"]) as process:
                return process.wait(10) == 0
        finally:
            trial.rmdir()
    except (OSError, subprocess.TimeoutExpired):
        return False


def _version_2() -> Place | None:
    mount = _mounted("cgroup2")
    own = _own("")
    if mount is None or own is None:
        return None
    here = mount / own.strip("/")
    for folder in (here, *here.parents):
        with contextlib.suppress(OSError):
            if "memory" in (folder / "cgroup.subtree_control").read_text().split() and os.access(folder, os.W_OK):
                return Place(folder)
        if folder == mount:
            break
    return None


def _version_1() -> Place | None:
    mount = _mounted("cgroup", "memory")
    own = _own("memory")
    if mount is None or own is None:
        return None
    for folder in (mount / own.strip("/"), mount):
        if folder.is_dir() and os.access(folder, os.W_OK):
            return Place(folder, 1)
    return None


def _mounted(kind: str, option: str = "") -> Path | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, folder, found, options, *_ = line.split()
            if found == kind and (not option or option in options.split(",")):
                return Path(folder)
    return None


def _own(controller: str) -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return path
    return None


def _sweep(folder: Path) -> None:
    """Remove empty groups of processes that are no more."""
    for old in folder.glob(f"{_PREFIX}*-*"):
        pid = old.name.split("-")[1]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                old.rmdir()

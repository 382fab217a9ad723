"""The sandbox of one Linux machine, by bubblewrap (`apt install bubblewrap`): namespaces, resource limits, seccomp.

Started as root, a program runs under a user id of its own that owns nothing; started as anyone else, under ours in a
user namespace. Either way it has no capabilities, cannot gain any, and cannot make namespaces.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from tokenmill.tools_repo.sandbox import cgroup, seccomp
from tokenmill.tools_repo.sandbox.base import (
    CHANNEL,
    HOME,
    PATH,
    TEMPORARY,
    Command,
    Mount,
    Running,
    SandboxUnavailable,
    as_file,
)

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_ETC = ("ld.so.cache", "alternatives", "localtime", "mime.types", "protocols", "services", "ssl/openssl.cnf")
_ETC_NETWORK = ("resolv.conf", "nsswitch.conf", "hosts", "ssl", "ca-certificates", "pki", "gai.conf", "host.conf")
FIRST_USER, USERS = 1_610_612_736, 1 << 28
"""Where we are root: user ids far from those that systems, people and containers are given."""
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
_ROOT = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")
_SETPRIV = ("--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
HINT = "programs from elsewhere are run in it or not at all"


@dataclass(frozen=True)
class Bubblewrap:
    """Runs each program in namespaces of its own."""

    bwrap: str = "bwrap"
    """Name or path of the program."""

    def check(self) -> None:
        """Raises: SandboxUnavailable: a program is missing, or the kernel does not let us make namespaces."""
        _check(self.bwrap)

    async def start(self, command: Command) -> Running:
        """Start a program.

        The thread that calls this must live as long as the program: the kernel ends the sandbox with it.

        Raises:
            SandboxUnavailable: see `check`.
        """
        await asyncio.to_thread(self.check)
        limits = command.limits
        group = await asyncio.to_thread(cgroup.made, limits.memory + limits.disk, limits.processes)
        pipe = subprocess.DEVNULL if command.private else subprocess.PIPE
        ours, theirs = socket.socketpair() if command.private else (None, None)
        try:
            with self._argv(command, theirs) as (argv, inherited):
                process = await asyncio.create_subprocess_exec(
                    *(group.wrapped(argv, limits.processes) if group is not None else argv),
                    stdin=pipe,
                    stdout=pipe,
                    stderr=subprocess.PIPE,
                    limit=limits.output,
                    env=group.env if group is not None else {},  # bubblewrap's own can be read in the sandbox's /proc
                    pass_fds=inherited,
                    cwd="/",
                )
        except BaseException:
            if ours is not None:
                ours.close()
            if group is not None:
                await group.remove()
            raise
        finally:
            if theirs is not None:
                theirs.close()
        channel = await asyncio.open_unix_connection(sock=ours, limit=limits.output) if ours is not None else None
        return Running(process, command, channel, group)

    @contextlib.contextmanager
    def _argv(self, command: Command, channel: socket.socket | None = None) -> Iterator[tuple[list[str], list[int]]]:
        """The whole command line, and the descriptors that bubblewrap reads while they are open."""
        limits = command.limits
        root = os.geteuid() == 0
        user = (command.owner or FIRST_USER + secrets.randbelow(USERS)) if root else os.geteuid()
        argv = [_find(self.bwrap), "--die-with-parent", "--new-session", "--clearenv", *_NAMESPACES]
        if not command.network:
            argv.append("--unshare-net")
        argv += _ROOT if root else ["--unshare-user", "--disable-userns"]
        argv += ["--hostname", "sandbox"]
        with contextlib.ExitStack() as files:
            inherited: list[int] = [channel.fileno()] if channel is not None else []

            def descriptor(content: bytes) -> str:
                inherited.append(files.enter_context(as_file(content)))
                return str(inherited[-1])

            # Made beforehand: bubblewrap itself would close such folders to all but root.
            parents = {str(parent) for m in command.mounts for parent in PurePosixPath(m.target).parents} - {"/"}
            for folder in sorted({"/etc", "/etc/ssl", *parents} - {"/tmp", HOME, *SYSTEM}):
                argv += ["--perms", "0755", "--dir", folder]
            argv += _system(command.network)
            people = f"root:x:0:0::/:/bin/false\nuser:x:{user}:{user}::{HOME}:/bin/sh\n"
            argv += ["--perms", "0644", "--ro-bind-data", descriptor(people.encode()), "/etc/passwd"]
            if not command.network:
                hosts = "127.0.0.1 localhost\n::1 localhost\n"
                argv += ["--perms", "0644", "--ro-bind-data", descriptor(hosts.encode()), "/etc/hosts"]
            # The first process is bubblewrap's own, of the same user where that is not root, and without our filter: its
            # memory and its open files are covered.
            argv += [
                "--proc",
                "/proc",
                "--size",
                "4096",
                "--tmpfs",
                "/proc/1",
                "--remount-ro",
                "/proc/1",
                "--dev",
                "/dev",
            ]
            for folder in TEMPORARY:
                argv += ["--perms", "1777", "--size", str(limits.disk), "--tmpfs", folder]
            for folder in sorted(parents):  # what is mounted below those three needs its folders there
                if folder.startswith(("/tmp/", f"{HOME}/")):
                    argv += ["--perms", "0755", "--dir", folder]
            for mount in command.mounts:
                argv += ["--bind" if mount.writable else "--ro-bind", mount.source, mount.target]
            for folder in command.masked:
                argv += ["--perms", "0755", "--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
            # What is left are folders of bubblewrap's own file system, whose size nothing limits.
            argv += ["--remount-ro", "/dev", "--remount-ro", "/"]
            env = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "TMPDIR": "/tmp", **command.env}
            if channel is not None:
                env[CHANNEL] = str(channel.fileno())
            for name, value in env.items():
                argv += ["--setenv", name, value]
            argv += ["--chdir", command.cwd]
            filter = seccomp.program()
            if filter is not None:
                argv += ["--seccomp", descriptor(filter)]
            argv.append("--")
            if root:
                argv += ["setpriv", f"--reuid={user}", f"--regid={user}", *_SETPRIV, "--"]
            argv += [
                "prlimit",
                f"--data={limits.memory}",
                f"--nproc={limits.processes}",
                f"--cpu={limits.cpu_seconds}",
                f"--fsize={limits.disk}",
                f"--nofile={limits.open_files}",
                f"--sigpending={limits.processes + 256}",
                "--msgqueue=0",
                "--core=0",
                "--memlock=0",
                "--",
                *command.argv,
            ]
            yield argv, inherited


def _system(network: bool) -> list[str]:
    argv = []
    for folder in SYSTEM:
        path = Path(folder)
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), folder]
        elif path.is_dir():
            argv += ["--ro-bind", folder, folder]
    for path in etc_files(network):
        # A link such as resolv.conf's may lead out of what the sandbox sees.
        argv += ["--ro-bind", str(path.resolve()), str(path)]
    return argv


def etc_files(network: bool) -> list[Path]:
    """What a program sees of /etc, as far as it is there."""
    names = (*(name for name in _ETC if name != "ssl/openssl.cnf" or not network), *(_ETC_NETWORK if network else ()))
    return [path for name in names if (path := Path("/etc", name)).exists()]


def _find(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise SandboxUnavailable(
            f"{program} is not installed: apt install bubblewrap (Debian, Ubuntu) or dnf install bubblewrap; {HINT}"
        )
    return path


@cache
def _check(bwrap: str) -> None:
    if sys.platform != "linux":
        raise SandboxUnavailable(f"bubblewrap needs Linux, this is {sys.platform}; {HINT}")
    path = _find(bwrap)
    for program in ("prlimit", "setpriv"):
        if shutil.which(program) is None:
            raise SandboxUnavailable(f"{program} is not installed: apt install util-linux; {HINT}")
    mode = _ROOT if os.geteuid() == 0 else ("--unshare-user", "--disable-userns")
    view = (
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--tmpfs",
        "/proc/1",
        "--perms",
        "1777",
        "--size",
        "4096",
        "--tmpfs",
        "/tmp",
    )
    trial = [path, *_NAMESPACES, "--unshare-net", *mode, *view, "true"]
    try:
        done = subprocess.run(trial, capture_output=True, timeout=20, env={}, check=False)
        problem = done.stderr.decode("utf-8", "replace") if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        line = " ".join(problem.split())[:300]
        raise SandboxUnavailable(
            f"bubblewrap does not work here ({line}); it must be 0.8 or newer and allowed to make namespaces; {HINT}"
        )


def interpreter() -> tuple[str, tuple[Mount, ...]]:
    """This Python's own executable, outside any virtual environment, and the mounts that it needs in a sandbox."""
    prefix = Path(sys.base_prefix).resolve()
    executable = str(prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    if prefix == Path("/") or any(str(prefix) == s or str(prefix).startswith(f"{s}/") for s in SYSTEM):
        return executable, ()
    return executable, (Mount(str(prefix), str(prefix)),)


def site_packages() -> tuple[str, ...]:
    """Folders of packages that this Python's own installation happens to have, as far as they are there."""
    prefix, version = Path(sys.base_prefix).resolve(), f"python{sys.version_info.major}.{sys.version_info.minor}"
    names = (f"lib/{version}/site-packages", f"lib/{version}/dist-packages", "lib/python3/dist-packages")
    found = [prefix / middle / name for middle in ("", "local") for name in names]
    if prefix == Path("/usr"):
        found += [Path("/usr/local/lib") / version / kind for kind in ("site-packages", "dist-packages")]
    return tuple(dict.fromkeys(str(folder) for folder in found if folder.is_dir() and not folder.is_symlink()))

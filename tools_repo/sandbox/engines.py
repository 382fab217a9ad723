"""Sandboxes by other means than bubblewrap, where a machine has them: gVisor's `runsc`, a kernel of its own in user space, and
the container engines docker and podman. The program sees what it sees under bubblewrap (`base.Command`); the engine bounds
memory and processes. A private channel is the program's own stdin and stdout here: it is the first process inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tokenmill.tools_repo.sandbox import seccomp
from tokenmill.tools_repo.sandbox.base import HOME, PATH, TEMPORARY, Command, Limits, Running, SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import FIRST_USER, HINT, SYSTEM, USERS, etc_files
from tokenmill.tools_repo.sandbox.usage import GVISOR, gvisor_memory

_IMAGE = "tokenmill-empty"
_PROCESSES = 4096
"""Processes of one user, since the default of an engine (podman) may be more than it may grant. `--pids-limit` counts each
sandbox's own."""
_THREADS = 192
"""Threads of gVisor's own."""
_PASSED_ON = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST")


def _env(command: Command) -> dict[str, str]:
    return {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "TMPDIR": "/tmp", **command.env}


def _user(command: Command) -> int:
    return command.owner or (FIRST_USER + secrets.randbelow(USERS) if os.geteuid() == 0 else os.geteuid())


def _limited(limits: Limits) -> dict[str, int]:
    """Resource limits of each process."""
    return {
        "cpu": limits.cpu_seconds,
        "fsize": limits.disk,
        "nofile": limits.open_files,
        "core": 0,
        "memlock": 0,
    }


def _seen(command: Command) -> list[tuple[str, str, bool]]:
    """(place here, place inside, writable) of all that the program sees of this machine."""
    system = [(str(Path(folder).resolve()), folder, False) for folder in SYSTEM if Path(folder).is_dir()]
    etc = [(str(path.resolve()), str(path), False) for path in etc_files(command.network)]
    return [*system, *etc, *((m.source, m.target, m.writable) for m in command.mounts)]


async def _started(
    argv: list[str], command: Command, end: tuple[str, ...], used: Callable[[int], int] | None = None
) -> Running:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=command.limits.output,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        cwd="/",
    )
    return Running(process, command, end=end, used=used)


def _tried(what: str, argv: list[str], hint: str) -> None:
    """Raises: SandboxUnavailable: the command fails."""
    if shutil.which(argv[0]) is None:
        raise SandboxUnavailable(f"{argv[0]} is not installed: {hint}; {HINT}")
    try:
        done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
        problem = done.stderr.decode("utf-8", "replace") if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise SandboxUnavailable(f"{what} does not work here ({' '.join(problem.split())[:300]}): {hint}; {HINT}")


@dataclass(frozen=True)
class Gvisor:
    """Runs each program under gVisor."""

    runsc: str = "runsc"

    def check(self) -> None:
        """Raises: SandboxUnavailable."""
        _checked_gvisor(tuple(self._base()))

    def _base(self) -> list[str]:
        folder = Path(tempfile.gettempdir(), f"tokenmill-runsc-{os.geteuid()}")
        return [self.runsc, f"--root={folder}", *([] if os.geteuid() == 0 else ["--rootless", "--ignore-cgroups"])]

    async def start(self, command: Command) -> Running:
        """Start a program.

        Raises:
            SandboxUnavailable: see `check`.
        """
        await asyncio.to_thread(self.check)
        name = f"tokenmill-{secrets.token_hex(8)}"
        bundle = Path(tempfile.mkdtemp(prefix="tokenmill-bundle-"))
        try:
            (bundle / "rootfs").mkdir()
            (bundle / "config.json").write_text(json.dumps(bundle_of(command, _user(command))))
            network = "host" if command.network else "none"
            argv = [*self._base(), f"--network={network}", "run", f"--bundle={bundle}", name]
            # The sandbox is no child of `run` and outlives it; the bundle goes with it.
            end = shlex.join([*self._base(), "delete", "--force", name])
            return await _started(argv, command, ("/bin/sh", "-c", f'{end}; rm -rf "$0"', str(bundle)), gvisor_memory)
        except BaseException:
            shutil.rmtree(bundle, ignore_errors=True)
            raise


@cache
def _checked_gvisor(base: tuple[str, ...]) -> None:
    _tried("gVisor", [*base, "--network=none", "do", "true"], "see gvisor.dev/docs/user_guide/install")


def bundle_of(command: Command, user: int) -> dict[str, Any]:
    """The OCI configuration of a program."""
    limits = command.limits
    quiet = ["nosuid", "nodev"]
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536"]},
    ]
    mounts += [
        {
            "destination": folder,
            "type": "tmpfs",
            "source": "tmpfs",
            "options": [*quiet, "mode=1777", f"size={limits.disk}"],
        }
        for folder in TEMPORARY
    ]
    mounts += [
        {
            "destination": inside,
            "type": "bind",
            "source": here,
            "options": ["rbind", "rw" if writable else "ro", *quiet],
        }
        for here, inside, writable in _seen(command)
    ]
    mounts += [
        {"destination": folder, "type": "tmpfs", "source": "tmpfs", "options": ["ro", "mode=755", "size=4096"]}
        for folder in command.masked
    ]
    spaces = ["pid", "ipc", "uts", "mount", *([] if command.network else ["network"])]
    return {
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": user, "gid": user},
            "args": list(command.argv),
            "env": [f"{name}={value}" for name, value in _env(command).items()],
            "cwd": command.cwd,
            "noNewPrivileges": True,
            "capabilities": {},
            "rlimits": [
                {"type": f"RLIMIT_{name.upper()}", "hard": value, "soft": value}
                for name, value in _limited(limits).items()
            ],
        },
        "mounts": mounts,
        "linux": {
            "namespaces": [{"type": space} for space in spaces],
            # With what gVisor's own kernel takes, which runs in the same group.
            "resources": {
                "memory": {"limit": limits.memory + limits.disk + GVISOR},
                "pids": {"limit": 2 * limits.processes + _THREADS},
            },
        },
    }


@dataclass(frozen=True)
class Container:
    """Runs each program in a container of its own, from an empty image, by docker or podman."""

    engine: str = "docker"

    def check(self) -> None:
        """Raises: SandboxUnavailable."""
        _checked_container(self.engine)

    async def start(self, command: Command) -> Running:
        """Start a program.

        Raises:
            SandboxUnavailable: see `check`.
        """
        await asyncio.to_thread(self.check)
        name = f"tokenmill-{secrets.token_hex(8)}"
        folder = Path(tempfile.mkdtemp(prefix="tokenmill-profile-"))
        try:
            profile = folder / "seccomp.json"
            profile.write_text(json.dumps(seccomp.profile()))
            flags = [*run_flags(command, _user(command)), f"--security-opt=seccomp={profile}"]
            if self.engine == "podman":  # otherwise it adds folders in memory whose size nothing limits
                flags.append("--read-only-tmpfs=false")
            argv = [self.engine, "run", f"--name={name}", *flags, _IMAGE, *command.argv]
            end = shlex.join([self.engine, "rm", "--force", "--volumes", name])
            return await _started(argv, command, ("/bin/sh", "-c", f'{end}; rm -rf "$0"', str(folder)))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def run_flags(command: Command, user: int) -> list[str]:
    """What `docker run` and `podman run` take for a program, but its name and image."""
    limits = command.limits
    total = limits.memory + limits.disk
    flags = ["--rm", "--interactive", "--pull=never", "--read-only", "--cap-drop=ALL", "--hostname=sandbox"]
    flags += ["--security-opt=no-new-privileges", f"--user={user}:{user}", f"--workdir={command.cwd}", "--ipc=private"]
    flags += [
        f"--memory={total}",
        f"--memory-swap={total}",
        f"--pids-limit={limits.processes}",
        f"--shm-size={limits.disk}",
    ]
    flags += [f"--network={'host' if command.network else 'none'}"]
    flags += [f"--ulimit={name}={value}:{value}" for name, value in (*_limited(limits).items(), ("nproc", _PROCESSES))]
    for folder in TEMPORARY:
        if folder != "/dev/shm":
            flags.append(f"--tmpfs={folder}:rw,exec,nosuid,nodev,mode=1777,size={limits.disk}")
    flags += [f"--tmpfs={folder}:ro,mode=755,size={4096}" for folder in command.masked]
    for here, inside, writable in _seen(command):
        if "," in here or "," in inside:
            raise SandboxUnavailable(f"a container engine cannot mount {here}: its path has a comma")
        flags.append(f"--mount=type=bind,source={here},target={inside}{'' if writable else ',readonly'}")
    return flags + [f"--env={key}={value}" for key, value in _env(command).items()]


@cache
def _checked_container(engine: str) -> None:
    hint = f"install {engine} and let this user reach it"
    _tried(engine, [engine, "info"], hint)
    with contextlib.suppress(SandboxUnavailable):
        _tried(engine, [engine, "image", "inspect", _IMAGE], hint)
        return
    with tempfile.NamedTemporaryFile(suffix=".tar") as empty:
        empty.write(bytes(10240))  # a tar archive of nothing
        empty.flush()
        _tried(engine, [engine, "import", empty.name, _IMAGE], hint)

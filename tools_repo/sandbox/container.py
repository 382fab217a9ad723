"""The sandbox by a container engine: the same interface as bubblewrap, for machines that have docker or podman, for images
that bring what a task needs, and for stronger isolation (`runtime="runsc"`).

    sandbox = Container("docker", "python:3.12")
    done = await run(sandbox, Command(("python3", "-c", "print(1)")))
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from tokenmill.tools_repo.sandbox.base import HOME, PATH, Command, Running, SandboxUnavailable

ENGINES = ("docker", "podman")
_USER = 65532
"""The user id that programs run under; `nonroot` by convention, and nobody's on this machine."""
_LABEL = "tokenmill.sandbox"


@dataclass(frozen=True)
class Container:
    """Runs each program in a container of its own, which is gone when the program is.

    The image needs `timeout` (coreutils or busybox) and whatever is to be run; it is never pulled by us.
    """

    engine: str = "docker"
    image: str = "python:3.12"
    cpus: float = 2.0
    """Cores that a program may keep busy."""
    runtime: str = ""
    """OCI runtime, such as `runsc` (gVisor) or `kata`; empty for the engine's own."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ValueError(f"Container.engine is one of {', '.join(ENGINES)}, not {self.engine!r}")
        if not self.image or self.image.startswith("-"):
            raise ValueError(f"Container.image is the name of an image, not {self.image!r}")
        if self.cpus <= 0:
            raise ValueError(f"Container.cpus must be more than 0, not {self.cpus}")

    def check(self) -> None:
        """Raises: SandboxUnavailable: no engine, or it does not answer, or it does not have the image."""
        _check(self.engine, self.image)

    async def start(self, command: Command) -> Running:
        """Start a program.

        Raises:
            SandboxUnavailable: see `check`.
        """
        await asyncio.to_thread(self.check)
        name = f"tokenmill-{secrets.token_hex(8)}"
        process = await asyncio.create_subprocess_exec(
            *self.argv(command, name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            limit=command.limits.output,
        )
        return _Contained(process, command, self.engine, name)

    def argv(self, command: Command, name: str) -> list[str]:
        """The engine's command line.

        Raises:
            ValueError: a mount that its syntax cannot express.
        """
        limits = command.limits
        user = command.owner if command.owner is not None else _USER
        argv = [self.engine, "run", "--rm", "--interactive", "--pull=never", f"--name={name}", f"--label={_LABEL}"]
        argv += ["--network=bridge" if command.network else "--network=none", "--read-only", f"--user={user}:{user}"]
        argv += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--ipc=private", "--hostname=sandbox"]
        # Swap included, so that there is none; the kernel ends what needs more.
        argv += [f"--memory={limits.memory}", f"--memory-swap={limits.memory}", f"--cpus={self.cpus:g}"]
        argv += [f"--pids-limit={limits.processes}", f"--ulimit=cpu={limits.cpu_seconds}"]
        argv += [f"--ulimit=fsize={limits.disk}", f"--ulimit=nofile={limits.open_files}", "--ulimit=core=0"]
        for folder in ("/tmp", HOME):
            argv.append(f"--tmpfs={folder}:rw,exec,nosuid,nodev,size={limits.disk},nr_inodes={limits.inodes},mode=1777")
        argv.append(f"--shm-size={limits.disk}")
        if self.runtime:
            argv.append(f"--runtime={self.runtime}")
        for mount in command.mounts:
            if any("," in path or '"' in path for path in (mount.source, mount.target)):
                raise ValueError(f"a mount's path cannot hold commas or quotes: {mount.source}")
            access = "" if mount.writable else ",readonly"
            argv.append(f"--mount=type=bind,source={mount.source},target={mount.target}{access}")
        env = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "TMPDIR": "/tmp", **command.env}
        argv += [f"--env={key}={value}" for key, value in env.items()]
        argv += [f"--workdir={command.cwd}", "--entrypoint=timeout"]
        # The container's own clock: it ends even when nobody is left here to end it.
        return [*argv, self.image, "-s", "KILL", str(math.ceil(limits.wall_seconds) + 5), *command.argv]


class _Contained(Running):
    """A program in its container. The engine's client is our child, the program is not."""

    def __init__(self, process: asyncio.subprocess.Process, command: Command, engine: str, name: str) -> None:
        self._engine = engine
        self._name = name
        self._killed = False
        super().__init__(process, command)

    async def wait(self) -> int:
        code = await super().wait()
        if code == 137 and not self.exceeded and not self._killed:
            self.exceeded = "memory"  # killed, and not by us: the kernel enforces the container's memory
        return code

    def kill(self) -> None:
        if self.process.returncode is None and not self._killed:
            self._killed = True
            self._engine_process = subprocess.Popen(
                [self._engine, "kill", self._name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    async def stop(self) -> None:
        """End the container; on return it is removed."""
        running = self.process.returncode is None
        await super().stop()
        if self._killed:
            await asyncio.to_thread(self._engine_process.wait)
        if running:  # its client is gone, but only the engine knows of the container
            done = await asyncio.create_subprocess_exec(
                self._engine, "rm", "--force", self._name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 20)


@cache
def _check(engine: str, image: str) -> None:
    if shutil.which(engine) is None:
        raise SandboxUnavailable(f"{engine} is not installed; untrusted programs are run in a sandbox or not at all")
    for argv, hint in (
        ([engine, "info"], f"{engine} does not answer; is its service running?"),
        ([engine, "image", "inspect", image], f"{engine} has no image {image}: {engine} pull {image}"),
    ):
        try:
            done = subprocess.run(argv, capture_output=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailable(f"{hint} ({error})") from None
        if done.returncode:
            line = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
            raise SandboxUnavailable(f"{hint} ({line})")

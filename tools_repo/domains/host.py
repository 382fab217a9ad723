"""Processes in the sandbox that hold a domain's tools, a few for each event loop, shared by all worlds there.

    host = shared(folder, Bubblewrap())
    described = await host.describe()
    done = await host.call("agent", "get_order", {"order_id": "A-1"}, changes={})

The tools and their data are loaded once; each call runs in a fork of that process, over the data with the changes given, so
that no call sees what another one left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import orjson
from tokenmill.inference.ending import at_end
from tokenmill.inference.errors import RowError, RunStopped
from tokenmill.tools_repo.domains.folder import DomainFolder
from tokenmill.tools_repo.sandbox.base import MIB, Command, Limits, Mount, Running, Sandbox, SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import SYSTEM, interpreter

AGENT, USER = "agent", "user"
Changes = dict[str, dict[str, dict[str, Any] | None]]
"""{kind: {identifier: record, or None where it is gone}}, from the state that the domain begins with."""
_START, _GRACE, _DAY = 120.0, 10.0, 86_400
_RECYCLE = 400 * MIB
_LIMITS = Limits(
    memory=4096 * MIB,
    processes=64,
    cpu_seconds=_DAY,
    wall_seconds=_DAY,
    disk=64 * MIB,
    output=512 * MIB,
    open_files=256,
)


class HostBroken(RowError):
    """A domain's tools do not load in the sandbox, or a call of theirs does not end."""


@dataclass(frozen=True)
class Described:
    """A domain as its own code tells it."""

    tools: dict[str, list[dict[str, Any]]]
    """Elements of an MCP `tools/list` by side, `agent` and `user`."""
    state: dict[str, dict[str, dict[str, Any]]]
    """What it begins with, as kinds of records."""


class Host:
    """A bounded number of processes that hold one domain; further calls wait."""

    def __init__(self, folder: DomainFolder, sandbox: Sandbox, processes: int = 2, seconds: int = 20) -> None:
        """`seconds`: CPU time of one call; several times as much may pass on a clock."""
        self.folder = folder
        self.sandbox = sandbox
        self.seconds = seconds
        self._free: list[_Process] = []
        self._slots = asyncio.Semaphore(processes)
        self._described: Described | None = None

    async def describe(self) -> Described:
        """The domain's tools and the state that it begins with.

        Raises:
            HostBroken: its code does not load.
            RunStopped: there is no sandbox here.
        """
        if self._described is None:
            answer = await self._ask({"do": "describe"})
            self._described = Described(answer["tools"], answer["state"])
        return self._described

    async def call(self, side: str, tool: str, arguments: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
        """`{"result": …, "changed": …}` or `{"error": …, "message": …}` of one call. Raises: see `describe`."""
        return await self._ask({"do": "call", "side": side, "tool": tool, "arguments": arguments, "changes": changes})

    async def prepare(self, data: Mapping[str, Any], actions: list[dict[str, Any]]) -> Changes:
        """The changes that come of values put into the databases (by side) and of functions called. Raises: see `describe`."""
        return (await self._ask({"do": "prepare", "data": data, "actions": actions, "changes": {}}))["changed"]

    async def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        async with self._slots:
            process = self._free.pop() if self._free else await self._start()
            answer = None
            try:
                answer = await process.ask(job, self.seconds)
            finally:
                if answer is None or process.received > _RECYCLE:
                    await asyncio.shield(process.running.stop())
                else:
                    self._free.append(process)
        if answer is None:
            raise HostBroken(
                f"{self.folder.name}: the process with its tools ended during {job.get('tool') or job['do']}"
            )
        if "broken" in answer:
            raise HostBroken(f"{self.folder.name}: {job.get('tool') or job['do']}: {answer['broken']}")
        return answer

    async def _start(self) -> _Process:
        python, mounts = interpreter()
        folder = self.folder
        seen = [path for path in (folder.path, *folder.packages) if not path.startswith(tuple(f"{s}/" for s in SYSTEM))]
        command = Command(
            (python, "-s", "-S", "-c", _guest()),
            {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"},
            (*mounts, *(Mount(path, path) for path in dict.fromkeys(seen))),
            limits=_LIMITS,
            private=True,
        )
        try:
            running = await self.sandbox.start(command)
        except SandboxUnavailable as error:
            raise RunStopped(str(error)) from None
        line = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            await running.write(orjson.dumps(folder.setup()) + b"\n")
            line = await asyncio.wait_for(running.readline(), _START)
        if line != b'"ready"\n':
            why = _broken(line) or running.last_words() or running.exceeded or "no explanation"
            await running.stop()
            raise HostBroken(f"{folder.name}: its tools do not load: {' '.join(why.split())[-400:]}")
        at_end(self, self.close)
        return _Process(running)

    async def close(self) -> None:
        """End all processes that are free."""
        processes, self._free = self._free, []
        await asyncio.gather(*(process.running.stop() for process in processes))


class _Process:
    def __init__(self, running: Running) -> None:
        self.running = running
        self.received = 0

    async def ask(self, job: dict[str, Any], seconds: int) -> dict[str, Any] | None:
        """None when the process is no more."""
        name = secrets.token_hex(16)
        sent = {**job, "id": name, "seconds": seconds, "wall_seconds": seconds * 5}
        try:
            await self.running.write(orjson.dumps(sent) + b"\n")
            line = await asyncio.wait_for(self.running.readline(), seconds * 5 + _GRACE)
            told = orjson.loads(line)
            if told["id"] != name or not isinstance(told["answer"], dict):
                return None
        except (ConnectionError, TimeoutError, ValueError, KeyError, TypeError):
            return None
        self.received += len(line)
        return told["answer"]


def _broken(line: bytes) -> str:
    try:
        return str(orjson.loads(line)["broken"])
    except (ValueError, KeyError, TypeError):
        return ""


@cache
def _guest() -> str:
    return resources.files(__package__).joinpath("guest.py").read_text(encoding="utf-8")

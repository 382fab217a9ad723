"""MCP servers as domains: their tools really run, over files that are the state of the world.

A domain folder whose `domain.json` says `"server": "mcp.json"` (the configuration of a client, with one server) has an MCP
server for its tools, and `files/` for its data. Each call starts the server in a sandbox of its own over the files as they are
then, calls the tool, and reads the files again. So a server must keep its state in files, as those for file systems, notes,
knowledge graphs and databases do; what it holds in memory alone is gone with the call.
"""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from tokenmill.tools_repo.domains.folder import DomainFolder, DomainInvalid, read_json
from tokenmill.tools_repo.domains.host import AGENT, Changes, Described, HostBroken
from tokenmill.tools_repo.harvest import client_configs
from tokenmill.tools_repo.harvest.harvester import Harvester, HarvestFailed
from tokenmill.tools_repo.harvest.servers import Server, ServerInvalid
from tokenmill.tools_repo.sandbox.base import MIB, Limits, Mount, Sandbox

DATA = "/data"
"""Where a server finds the files; its configuration names them so."""
FILES = "files"
"""The kind of record that a file is, by its path."""
MAX_FILES, MAX_BYTES = 2_000, 16 * MIB
_ATTEMPTS = 2


class McpHost:
    """One MCP server that is a domain's tools; the interface is that of `Host`."""

    def __init__(self, folder: DomainFolder, sandbox: Sandbox, store: Path, at_once: int = 2) -> None:
        self.folder = folder
        limits = Limits(memory=2048 * MIB, processes=256, output=32 * MIB, disk=64 * MIB)
        self.harvester = Harvester(sandbox, store, 60.0, 60.0, limits)
        self.server = server_of(folder)
        self._slots = asyncio.Semaphore(at_once)
        self._described: Described | None = None

    async def describe(self) -> Described:
        """The server's tools, and the files that it begins with.

        Raises:
            HostBroken: it does not start.
        """
        if self._described is None:
            state = {FILES: files_of(Path(self.folder.database))} if self.folder.database else {FILES: {}}
            found = await self._run(state, None, {})
            self._described = Described({AGENT: found["tools"]}, state)
        return self._described

    async def call(self, side: str, tool: str, arguments: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
        """`{"result": …, "changed": …}` or `{"error": …, "message": …}` of one call. Raises: see `describe`."""
        described = await self.describe()
        state = {FILES: dict(described.state[FILES])}
        for name, record in changes.get(FILES, {}).items():
            if record is None:
                state[FILES].pop(name, None)
            else:
                state[FILES][name] = record
        return await self._run(state, tool, arguments)

    async def prepare(self, data: Mapping[str, Any], actions: list[dict[str, Any]]) -> Changes:
        """Files put in place, and tools called, before a task. Raises: see `describe`."""
        changes: Changes = {FILES: dict((data.get(AGENT) or {}).get(FILES) or {})}
        for action in actions:
            answer = await self.call(AGENT, action["tool"], action["arguments"], changes)
            changes[FILES].update(answer.get("changed", {}).get(FILES, {}))
        return changes if changes[FILES] else {}

    async def _run(self, state: dict[str, Any], tool: str | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
        async with self._slots:
            for attempt in range(_ATTEMPTS):
                with tempfile.TemporaryDirectory(prefix="tokenmill-") as place:
                    data = Path(place, "data")
                    await asyncio.to_thread(lay_out, state[FILES], data)
                    mount = Mount(str(data), DATA, writable=True)
                    call = (tool, dict(arguments)) if tool is not None else None
                    try:
                        found = await self.harvester.harvest(self.server, (mount,), call)
                    except HarvestFailed as error:
                        if attempt + 1 < _ATTEMPTS and error.error == "timeout":
                            continue
                        raise HostBroken(
                            f"{self.folder.name}: {tool or 'its server'}: {error} {error.last_words}"
                        ) from None
                    if tool is None:
                        return {"tools": list(found.tools)}
                    if not found.tried:
                        raise HostBroken(f"{self.folder.name}: {tool} ended its server")
                    (done,) = found.tried[tool]
                    if done.error:
                        return {"error": done.error, "message": done.result}
                    after = await asyncio.to_thread(files_of, data)
                    return {"result": done.result, "changed": _changed(state[FILES], after)}
        raise HostBroken(f"{self.folder.name}: {tool}: no answer")

    async def close(self) -> None:
        """Nothing is held."""


def server_of(folder: DomainFolder) -> Server:
    """The one server of a domain.

    Raises:
        DomainInvalid: its configuration names none, several, or one that cannot be run.
    """
    configured = client_configs.entries(read_json(folder.server)) or {}
    if len(configured) != 1:
        raise DomainInvalid(f"{folder.server}: a domain has one MCP server, not {len(configured)}")
    ((name, entry),) = configured.items()
    try:
        server = client_configs.read_entry(name, entry)
    except ServerInvalid as error:
        raise DomainInvalid(f"{folder.server}: {error}") from None
    if server.url:
        raise DomainInvalid(f"{folder.server}: a server that is elsewhere cannot be started anew for each call")
    return replace(
        server, folders=tuple(path for path in server.folders if path != DATA and not path.startswith(f"{DATA}/"))
    )


def files_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The files of a folder as records by their paths; text as it is, other bytes in base64. Links are left out.

    Raises:
        HostBroken: there are too many, or they are too large.
    """
    found: dict[str, dict[str, Any]] = {}
    size = 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        size += path.stat().st_size
        if len(found) >= MAX_FILES or size > MAX_BYTES:
            raise HostBroken(f"{folder}: more than {MAX_FILES} files or {MAX_BYTES // MIB} MiB")
        content = path.read_bytes()
        name = str(PurePosixPath(path.relative_to(folder)))
        try:
            found[name] = {"text": content.decode("utf-8")}
        except UnicodeDecodeError:
            found[name] = {"base64": base64.b64encode(content).decode()}
    return found


def lay_out(files: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """The files of a state in a folder that the server, a user of its own, may write."""
    folder.mkdir()
    for name, record in files.items():
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts:
            raise HostBroken(f"{name!r} leads out of the folder")
        path = folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(record["base64"]) if "base64" in record else str(record["text"]).encode())
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    folder.parent.chmod(0o755)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    records = {name: record for name, record in after.items() if before.get(name) != record}
    records.update((name, None) for name in before if name not in after)
    return {FILES: records} if records else {}

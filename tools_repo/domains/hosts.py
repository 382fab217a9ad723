"""Who runs a domain's tools: a process with its Python, or its MCP server. One of them for each event loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tokenmill.tools_repo.domains.folder import DomainFolder
from tokenmill.tools_repo.domains.host import Changes, Described, Host
from tokenmill.tools_repo.domains.mcp_host import McpHost
from tokenmill.tools_repo.sandbox.base import Sandbox


class Runs(Protocol):
    """What runs a domain's tools; see `Host` for each."""

    folder: DomainFolder

    async def describe(self) -> Described: ...

    async def call(self, side: str, tool: str, arguments: Mapping[str, Any], changes: Changes) -> dict[str, Any]: ...

    async def prepare(self, data: Mapping[str, Any], actions: list[dict[str, Any]]) -> Changes: ...


def shared(folder: DomainFolder, sandbox: Sandbox, store: Path) -> Runs:
    """This event loop's host of a domain; `store` is where packages of servers are installed."""
    hosts = _hosts.setdefault(asyncio.get_running_loop(), {})
    key = repr((folder, sandbox))
    if key not in hosts:
        hosts[key] = McpHost(folder, sandbox, store) if folder.server else Host(folder, sandbox)
    return hosts[key]


_hosts: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Runs]] = weakref.WeakKeyDictionary()

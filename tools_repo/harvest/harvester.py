"""Asking MCP servers for their tools: install, start in the sandbox, `initialize`, `tools/list` page by page, stop.

    harvested = await Harvester(Bubblewrap(), store).harvest(server)

Kimi K2 report, section 3.1.1: "3,000+ real MCP tools from GitHub repositories". Servers are untrusted code. They are
installed without running it, and run without network, without our files and without our environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.schemas.tools import TriedCall
from tokenmill.tools_repo.harvest.install import Installed, Installer, InstallFailed
from tokenmill.tools_repo.harvest.servers import Server, ServerInvalid
from tokenmill.tools_repo.harvest.stdio import GARBAGE_LINES, Pipes
from tokenmill.tools_repo.harvest.trying import called, tried
from tokenmill.tools_repo.sandbox.base import (
    HOME,
    MIB,
    TEMPORARY,
    Command,
    Limits,
    Mount,
    Sandbox,
    SandboxUnavailable,
)

if TYPE_CHECKING:
    from mcp import ClientSession

TOOLS = 5000
"""More tools than this no server offers in earnest."""
PAGES = 500
LONGEST_RESULT = 64_000
"""Characters of the result of a call that was asked for."""
_installed: dict[tuple[str, str, str], Installed] = {}
"""Of this process: what was compared once is not compared before every call."""

# What a server's last words tell of why it ended.
_CREDENTIALS = re.compile(
    r"api[ _-]?key|access[ _-]?token|auth[ _-]?token|bearer|credential|unauthori[sz]ed|not authenticated|log ?in\b"
    r"|password|secret|subscription|(?:environment|env)(?:ironment)? var|must be set|is required|are required"
    r"|[A-Z][A-Z0-9]+_[A-Z0-9_]*(?:KEY|TOKEN|SECRET|URL|ID|HOST|USER|PASSWORD|ENDPOINT)\b",
    re.IGNORECASE,
)
_NETWORK = re.compile(
    r"\b(?:getaddrinfo|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH)\b|name resolution|name or service not known"
    r"|network is unreachable|connection refused|\bconnect(?:ion)?error|cannot connect|could not connect"
    r"|failed to (?:fetch|connect)|fetch failed",
    re.IGNORECASE,
)
_BROKEN = re.compile(
    r"\b(?:ModuleNotFoundError|ImportError|AttributeError|SyntaxError|ERR_MODULE_NOT_FOUND|MODULE_NOT_FOUND"
    r"|ERR_REQUIRE_ESM|ERR_PACKAGE_PATH_NOT_EXPORTED|ERR_DLOPEN_FAILED)\b|install it with|cannot find package"
    r"|cannot open shared object|GLIBC_",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Harvested:
    """What a server said of itself."""

    tools: tuple[dict[str, Any], ...]
    """Elements of `tools/list`, as JSON objects."""
    version: str = ""
    """Of the package, or as the server states it."""
    license: str = ""
    title: str = ""
    """The server's own name."""
    protocol: str = ""
    """MCP revision agreed on."""
    seconds: float = 0.0
    tried: Mapping[str, list[TriedCall]] = field(default_factory=dict)
    """Calls that were made to see what comes of them, by the tool's name."""


class HarvestFailed(Exception):
    """A server whose tools cannot be had."""

    def __init__(self, step: str, error: str, message: str, last_words: str = "") -> None:
        super().__init__(message)
        self.step = step
        """`install`, `start` or `list`."""
        self.error = error
        """Machine-readable kind, such as `needs_credentials`."""
        self.last_words = last_words


@dataclass(frozen=True)
class Harvester:
    """How servers are run."""

    sandbox: Sandbox
    store: Path
    start_seconds: float = 60.0
    """Until a server must have answered `initialize`."""
    list_seconds: float = 60.0
    """For all pages of `tools/list`."""
    limits: Limits = field(default_factory=lambda: Limits(memory=2048 * MIB, processes=256, output=32 * MIB))
    """Of a running server; its time follows from the two above."""
    try_seconds: float = 0.0
    """For calling the tools that were listed, see `trying`; 0: none is called."""
    network: bool = False
    """Whether servers may use the network while they run; installing always does."""

    async def harvest(
        self, server: Server, seen: Sequence[Mount] = (), call: tuple[str, dict[str, Any]] | None = None
    ) -> Harvested:
        """All tools of a server.

        Args:
            seen: what it sees beside its own.
            call: a tool to call, with its arguments; what came of it is in `tried`, nothing where the server ended with it.

        Raises:
            HarvestFailed: there are none to be had, with what the server said.
            SandboxUnavailable: programs cannot be isolated on this machine.
        """
        try:
            server = server.filled()
        except ServerInvalid as error:
            raise HarvestFailed("start", "missing_variable", str(error)) from None
        if server.url:
            stage = _Stage()
            async with _failures(None, stage), _streams(server.url, server.headers) as streams:
                return await self._ask(streams, server.license, server.version, stage, server, call)
        license, version = server.license, server.version
        if server.command:
            argv, mounts = server.command, tuple(Mount(m, m) for m in server.mounts)
        else:
            try:
                key = (str(self.store), server.package, server.version)
                installed = _installed.get(key) if call is not None else None
                if installed is None:  # which compares what is there with what was installed
                    installed = _installed[key] = await Installer(self.sandbox, self.store).install(server)
            except InstallFailed as error:
                raise HarvestFailed("install", "not_installable", str(error)) from None
            license, version = license or installed.license, installed.version
            argv, mounts = installed.argv, installed.mounts
        with empty_folders(server.folders) as folders:
            command = self.command(server, argv, (*mounts, *folders, *seen))
            async with await self.sandbox.start(command) as running:
                pipes, stage = Pipes(running), _Stage()
                async with _failures(pipes, stage), pipes.open() as streams:
                    return await self._ask(streams, license, version, stage, server, call)

    def command(self, server: Server, argv: tuple[str, ...], mounts: tuple[Mount, ...]) -> Command:
        """What starts a server in the sandbox."""
        # Most servers keep quiet about telemetry and updates when told that nobody is there.
        env = {"CI": "true", "NO_COLOR": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1", **server.env}
        # The sandbox's own clock is the second line of defence.
        limits = replace(self.limits, wall_seconds=self.start_seconds + self.list_seconds + self.try_seconds + 30)
        return Command((*argv, *server.args), env, mounts, network=self.network, limits=limits)

    async def _ask(
        self,
        streams: Any,
        license: str,
        version: str,
        stage: _Stage,
        server: Server,
        call: tuple[str, dict[str, Any]] | None,
    ) -> Harvested:
        from mcp import ClientSession

        loop = asyncio.get_running_loop()
        started = loop.time()
        async with ClientSession(*streams) as session:
            try:
                async with asyncio.timeout(self.start_seconds):
                    told = await session.initialize()
            except TimeoutError:
                raise _Silent(f"no answer to initialize within {self.start_seconds:g} s") from None
            stage.step = "list"
            if told.capabilities.tools is None:
                raise HarvestFailed("list", "no_tools", "the server says that it offers no tools")
            try:
                async with asyncio.timeout(self.list_seconds):
                    tools = await _all_tools(session)
            except TimeoutError:
                raise _Silent(f"tools/list took more than {self.list_seconds:g} s") from None
            calls: dict[str, list[TriedCall]] = {}
            if call is not None:
                done = await called(session, *call, self.list_seconds, LONGEST_RESULT)
                calls = {call[0]: [done]} if done is not None else {}
            elif self.try_seconds:
                folder = next(iter(server.folders), HOME)
                contained = not (self.network or server.url)
                calls = await tried(session, tools, folder, contained=contained, seconds=self.try_seconds)
        if not tools:
            raise HarvestFailed("list", "no_tools", "the server lists no tools")
        info = told.server_info
        seconds = round(loop.time() - started, 3)
        return Harvested(
            tuple(tools), version or info.version, license, info.name, str(told.protocol_version), seconds, calls
        )


@contextlib.contextmanager
def empty_folders(paths: Sequence[str]) -> Iterator[list[Mount]]:
    """Folders that a server may write, gone afterwards; a path below another needs none of its own."""
    outer = [p for p in dict.fromkeys(paths) if not any(p != q and p.startswith(f"{q}/") for q in paths)]
    inner = [path for path in outer if not path.startswith((f"{HOME}/", "/tmp/")) and path not in TEMPORARY]
    with contextlib.ExitStack() as stack:
        made = [(path, stack.enter_context(tempfile.TemporaryDirectory(prefix="tokenmill-"))) for path in inner]
        for path, folder in made:
            Path(folder).chmod(0o777)  # the server runs as a user of its own
            for below in paths:
                if below.startswith(f"{path}/"):
                    at = Path(folder, below[len(path) + 1 :])
                    at.mkdir(parents=True, exist_ok=True)
                    at.chmod(0o777)
        yield [Mount(folder, path, writable=True) for path, folder in made]


class _Stage:
    """How far a server has come."""

    step = "start"


class _Silent(Exception):
    """Nothing came within the time given."""


async def _all_tools(session: ClientSession) -> list[dict[str, Any]]:
    """Every page of `tools/list`."""
    from mcp_types import PaginatedRequestParams

    tools: list[dict[str, Any]] = []
    cursor, seen = None, set()
    for _ in range(PAGES):
        page = await session.list_tools(params=None if cursor is None else PaginatedRequestParams(cursor=cursor))
        # Unset fields are left out; a null that a schema says stays.
        tools += [tool.model_dump(mode="json", by_alias=True, exclude_unset=True) for tool in page.tools]
        cursor = page.next_cursor
        if not cursor:
            return tools
        if cursor in seen:
            raise HarvestFailed("list", "protocol", "tools/list gives the same cursor twice")
        if len(tools) > TOOLS:
            raise HarvestFailed("list", "protocol", f"the server lists more than {TOOLS} tools")
        seen.add(cursor)
    raise HarvestFailed("list", "protocol", f"tools/list goes on after {PAGES} pages")


@contextlib.asynccontextmanager
async def _streams(url: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(30.0, read=120.0)
    async with (
        httpx2.AsyncClient(timeout=timeout, headers=dict(headers)) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def _failures(pipes: Pipes | None, stage: _Stage) -> AsyncIterator[None]:
    """Turn whatever goes wrong with a server into `HarvestFailed`, with the reason that lies deepest."""
    try:
        yield
    except (asyncio.CancelledError, SandboxUnavailable):
        raise
    except BaseException as raised:
        if isinstance(raised, (KeyboardInterrupt, SystemExit)):
            raise
        error = _innermost(raised)
        if isinstance(error, HarvestFailed):
            raise HarvestFailed(error.step, error.error, str(error), pipes.last_words() if pipes else "") from None
        raise await _explained(error, pipes, stage.step) from None


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        # A task group reports what its other tasks met while it was being torn down, too.
        ours = [e for e in error.exceptions if isinstance(e, (HarvestFailed, _Silent, BaseExceptionGroup))]
        error = (ours or error.exceptions)[0]
    return error


async def _explained(error: BaseException, pipes: Pipes | None, step: str) -> HarvestFailed:
    """What became of a server, as far as it can be told."""
    message = " ".join(str(error).split())[:500] or type(error).__name__
    if pipes is None:
        kind = "timeout" if isinstance(error, (_Silent, TimeoutError)) else "unreachable"
        return HarvestFailed(step, kind, message)
    running = pipes.running
    with contextlib.suppress(TimeoutError):  # an ended server's stderr may still be on its way
        await asyncio.wait_for(running.wait(), 0.5)
    words = pipes.last_words()
    if running.exceeded:
        return HarvestFailed(step, f"over_{running.exceeded}", f"ended: over the limit of {running.exceeded}", words)
    if pipes.garbage > GARBAGE_LINES:
        return HarvestFailed(step, "garbage", f"more than {GARBAGE_LINES} lines of stdout are no JSON-RPC", words)
    code = running.process.returncode
    if code is not None and not isinstance(error, _Silent):
        message = f"the server ended with code {code}"
    for kind, pattern in (
        ("broken_package", _BROKEN),
        ("needs_network", _NETWORK),
        ("needs_credentials", _CREDENTIALS),
    ):
        if pattern.search(words):
            return HarvestFailed(step, kind, message, words)
    if isinstance(error, _Silent):
        return HarvestFailed(step, "timeout", message, words)
    if "usage:" in words.lower():
        return HarvestFailed(step, "needs_arguments", message, words)
    return HarvestFailed(step, "crashed" if code is not None else "protocol", message, words)

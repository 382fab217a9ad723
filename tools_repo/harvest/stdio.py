"""MCP over the pipes of a sandboxed program: what `mcp.client.stdio` does for programs that are trusted.

The differences: lines and total output are bounded, and what is no message is counted and not logged.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio
from tokenmill.tools_repo.sandbox.base import Running

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

GARBAGE_LINES = 10_000
"""Lines that are no JSON-RPC; many servers greet on stdout, none needs this many."""


class Pipes:
    """The two streams of an MCP session, over a running program's stdin and stdout."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.garbage = 0
        """Lines of stdout that are no message."""
        self._odd: deque[str] = deque(maxlen=12)

    def last_words(self) -> str:
        """What the program said last that is no message: on stderr, or else on stdout."""
        return self.running.last_words() or "\n".join(self._odd)[-600:].strip()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        """Streams as `mcp.ClientSession` takes them; the program's end closes them."""
        from mcp.shared.message import SessionMessage

        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            from mcp_types import jsonrpc_message_adapter

            async with to_session:
                while line := await self.running.readline():
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        if line.strip():
                            self.garbage += 1
                            self._odd.append(
                                "".join(c for c in line[:300].decode("utf-8", "replace") if c.isprintable())
                            )
                        if self.garbage > GARBAGE_LINES:
                            self.running.kill()
                            return
                        continue
                    try:
                        await to_session.send(SessionMessage(message))
                    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                        return

        async def write() -> None:
            async with from_session:
                async for message in from_session:
                    json = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    try:
                        await self.running.write(json.encode() + b"\n")
                    except OSError:
                        return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            try:
                yield from_server, to_server
            finally:
                tasks.cancel_scope.cancel()
                for stream in (from_server, to_server):
                    stream.close()

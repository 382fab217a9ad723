"""Calling the tools of a server that was just listed, to see what they really answer.

What is safe: in a sandbox without a network every tool, since whatever it does is thrown away with the sandbox. Where a server
may reach anything outside (`--network`, a `url`), only what it declares to be read-only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tokenmill.schemas.tools import TriedCall, dump
from tokenmill.tools_repo.harvest.arguments import drawn

if TYPE_CHECKING:
    from mcp import ClientSession

LONGEST = 2_000
"""Characters of a result that are kept."""
CALL_SECONDS = 15.0


async def tried(
    session: ClientSession, tools: Sequence[dict[str, Any]], folder: str, *, contained: bool, seconds: float
) -> dict[str, list[TriedCall]]:
    """What came of calls, by the tool's name; it ends early where the server does, or its time is up.

    Args:
        folder: one that the server may write.
        contained: whether nothing outside can be reached by what the server does.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    found: dict[str, list[TriedCall]] = {}
    for tool in tools:
        if not contained and (tool.get("annotations") or {}).get("readOnlyHint") is not True:
            continue
        calls: list[TriedCall] = []
        for arguments in drawn(tool.get("inputSchema") or {}, folder):
            left = min(CALL_SECONDS, end - loop.time())
            if left <= 0:
                return found
            call = await called(session, tool["name"], arguments, left)
            if call is None:
                return found
            calls.append(call)
            found[tool["name"]] = calls
    return found


async def called(
    session: ClientSession, name: str, arguments: dict[str, Any], seconds: float, longest: int = LONGEST
) -> TriedCall | None:
    """One call; None when the server is no more."""
    from mcp import MCPError

    text = dump(arguments)
    try:
        async with asyncio.timeout(seconds):
            result = await session.call_tool(name, arguments)
    except TimeoutError:
        return TriedCall(arguments=text, result="", error="timeout")
    except MCPError as error:
        if "closed" in str(error).lower():
            return None
        return TriedCall(arguments=text, result=str(error)[:longest], error="refused")
    except (RuntimeError, ValueError) as error:  # the answer does not meet what the tool declares
        return TriedCall(arguments=text, result=str(error)[:longest], error="invalid_result")
    said = result.model_dump(mode="json", by_alias=True, exclude_unset=True)
    shown = (
        dump(said["structuredContent"]) if said.get("structuredContent") is not None else _texts(said.get("content"))
    )
    return TriedCall(arguments=text, result=shown[:longest], error="tool_error" if said.get("isError") else "")


def _texts(content: Any) -> str:
    """The text of a result's blocks; of others their kind."""
    blocks = [block for block in content or () if isinstance(block, dict)]
    return "\n".join(str(b["text"]) if b.get("type") == "text" else f"[{b.get('type')}]" for b in blocks)

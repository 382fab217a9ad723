"""What is to be closed before an event loop ends, left by whoever keeps processes or connections there between uses."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable

_closings: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Callable[[], Awaitable[None]]]]
_closings = weakref.WeakKeyDictionary()


def at_end(owner: object, close: Callable[[], Awaitable[None]]) -> None:
    """Have `close` awaited before the running loop ends, once for an owner that lives as long as the loop."""
    _closings.setdefault(asyncio.get_running_loop(), {})[id(owner)] = close


async def end() -> None:
    """Close what the running loop has been left. What cannot be closed ends with the process."""
    for close in list(_closings.pop(asyncio.get_running_loop(), {}).values()):
        with contextlib.suppress(OSError):
            await close()

"""What workers on many machines tell each other through Redis: how many calls each may have in flight, what each has done, and
why one of them stopped."""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.inference.errors import CacheBroken

if TYPE_CHECKING:
    from tokenmill.inference.cache.redis import RedisCache
    from tokenmill.inference.client import Client

HUNGRY, QUIET = 0.1, 1.0
"""Seconds between two requests for slots, while calls wait for one and while none does."""
STOPPED = "stopped.json"
"""File in a state folder: what stopped the run."""


async def share(client: Client, cache: RedisCache, limit: int) -> None:
    """Keep this process's part of the calls that all workers may have in flight, for ever."""
    gate = client.gate
    assert gate is not None
    while True:
        with contextlib.suppress(CacheBroken):  # the next call says so; until then the part stays what it was
            gate.resize(await cache.allot(gate.in_flight, gate.in_flight + gate.waiting, limit))
        await asyncio.sleep(HUNGRY if gate.waiting else QUIET)


class Told:
    """What the workers of an attempt tell, as files of a state folder on the driver's machine: the same that workers of
    this machine write there themselves."""

    def __init__(self, cache: RedisCache, attempt: str, state: Path) -> None:
        self._cache = cache
        self._attempt = attempt
        self._state = state
        self._last: dict[bytes, bytes] = {}

    async def fetch(self) -> None:
        """
        Raises:
            CacheBroken: Redis cannot be reached.
        """
        told = await self._cache.told(self._attempt)
        for owner, figures in told.items():
            if self._last.get(owner) != figures:
                self._last[owner] = figures
                path = self._state / f"{zlib.crc32(owner)}.json"
                path.write_bytes(figures.replace(b'"time":0', b'"time":%.3f' % time.time()))  # by the clock here
        why = await self._cache.why_stopped(self._attempt)
        if why is not None and not (self._state / STOPPED).exists():
            (self._state / STOPPED).write_bytes(why)

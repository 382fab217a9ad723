"""Several model calls of one row at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from tokenmill.inference.errors import RunStopped, Waiting

T = TypeVar("T")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order, once all have ended: a call that is left behind when another one fails is paid for, and its
    answer lost when the process ends before it comes.

    Raises:
        RunStopped: one of them did, whatever the others did; `Waiting` only where none did for another reason.
        Exception: the first one's that raised.
    """
    done = await asyncio.gather(*work, return_exceptions=True)
    raised = [result for result in done if isinstance(result, BaseException)]
    if raised:
        stopped = sorted((e for e in raised if isinstance(e, RunStopped)), key=lambda e: isinstance(e, Waiting))
        raise (stopped or raised)[0]
    return done  # type: ignore[return-value]  # no exceptions are left

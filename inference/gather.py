"""Several model calls of one row at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from tokenmill.inference.errors import RunStopped

T = TypeVar("T")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order, once all have ended: a call that is left behind when another one fails is paid for, and its
    answer lost when the process ends before it comes.

    Raises:
        RunStopped: one of them did, whatever the others did.
        Exception: the first one's that raised.
    """
    done = await asyncio.gather(*work, return_exceptions=True)
    raised = [result for result in done if isinstance(result, BaseException)]
    if raised:
        raise next((error for error in raised if isinstance(error, RunStopped)), raised[0])
    return done  # type: ignore[return-value]  # no exceptions are left

"""Where batches are put and their results are taken from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Progress:
    """How far a batch is."""

    ended: bool
    done: int = 0
    """Requests that it is through with."""
    problem: str = ""
    """Why it was not worked off at all; empty where it was."""
    full: bool = False
    """Whether that was because too much is waiting at the endpoint already."""
    bad_lines: tuple[tuple[int, str], ...] = ()
    """Lines, from 0, that it was refused for, and why."""
    files: tuple[str, ...] = ()
    """What holds its results."""


class Box(Protocol):
    """Takes parts and gives results. `RunStopped` wherever the endpoint is gone or rejects us."""

    async def put(self, part: str, file: Path) -> str:
        """Have a file of requests worked off; the batch's id. `file` need not outlive the call.

        Raises:
            Unsure: there may be a batch now, or not.
        """
        ...

    async def find(self, part: str, since: float, calls: Set[str], known: Set[str]) -> str | None:
        """The id of the batch that a part put in after `since` (seconds since the epoch) has become.

        Args:
            calls: addresses of the part's calls, for endpoints at which a batch cannot bear the part's name.
            known: ids of the batches that other parts have become.
        """
        ...

    async def look(self, batch: str) -> Progress: ...

    def results(self, progress: Progress) -> AsyncIterator[bytes]:
        """The lines of an ended batch's results; one that is cut off, or too long, ends them."""
        ...

    async def close(self) -> None: ...


class Unsure(Exception):
    """It is not known whether a batch was made."""

"""The answer cache and token ledger: a model call is paid for once, and never beyond the budget.

cache = open_cache("answers.sqlite", run="knowledge", budget=1_000_000)      # or redis://host:6379/0
if (hit := await cache.get(call.address)) is None:
    hold = await cache.reserve(estimate)
    ...                                                                      # the paid call
    hit = await cache.put(call.address, Entry(200, raw), reservation=hold, tokens=billed)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import zstandard
from tokenmill.inference.errors import CacheBroken

PAID = 200
"""The status of an answer that was paid for. It is never replaced."""

REFUSALS = frozenset({400, 403, 404, 413, 422})
"""Statuses of a remembered refusal: the endpoint will never answer this request. Whatever comes later replaces it."""


@dataclass(frozen=True)
class Entry:
    """What the endpoint said to one call: its HTTP status and the raw body."""

    status: int
    body: bytes

    def __post_init__(self) -> None:
        if self.status != PAID and self.status not in REFUSALS:
            raise ValueError(
                f"an entry's status is {PAID} (paid answer) or one of {sorted(REFUSALS)}, not {self.status}"
            )


class Cache(Protocol):
    """Answers by content address, and the tokens they cost. Used from one event loop; several processes may share it.

    Every method raises `inference.errors.CacheBroken` when the store cannot be read or written. The ledger's invariant:
    tokens spent plus live reservations never exceed the budget, as long as no call is billed more than its reservation.
    """

    async def get(self, address: str, *, refusals: bool = True) -> Entry | None:
        """The entry stored for `address`, or None. With `refusals=False` a remembered refusal counts as absent."""
        ...

    async def put(self, address: str, entry: Entry, *, reservation: str | None = None, tokens: int = 0) -> Entry:
        """Store `entry` and settle its reservation with the tokens really billed, in one transaction.

        Returns the entry that is stored: the first paid answer wins, and an answer replaces a refusal. When it returns,
        the entry survives a SIGKILL of this process. From the moment of the call the reservation and the tokens are its
        business, even if the caller is cancelled or the store fails: releasing as well would count them twice.
        """
        ...

    async def reserve(self, tokens: int) -> str | None:
        """Set `tokens` of the budget aside for a call about to be made; None when there is no budget.

        Waits while reservations of other calls stand in the way.

        Raises:
            tokenmill.inference.errors.BudgetSpent: what is already spent leaves no room for `tokens`, however the others settle.
        """
        ...

    async def release(self, reservation: str | None, tokens: int = 0) -> None:
        """Give a reservation back because its call failed; `tokens` were billed all the same (a malformed body)."""
        ...

    async def spent(self) -> int:
        """Tokens billed to this run so far, over all its invocations and processes."""
        ...

    async def close(self) -> None:
        """Commit what is pending, drop this process's reservations and disconnect."""
        ...


class Codec:
    """Bodies as stored: one tag byte, then the bytes, zstd-compressed when that pays. Not thread-safe."""

    PLAIN, ZSTD = b"\0", b"\1"
    LEVEL = 1
    SMALL = 300
    """Bytes below which compression costs more time than it saves space."""

    def __init__(self) -> None:
        self._compress = zstandard.ZstdCompressor(level=self.LEVEL, write_checksum=False).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def pack(self, body: bytes) -> bytes:
        if len(body) >= self.SMALL:
            packed = self._compress(body)
            if len(packed) < 0.9 * len(body):
                return self.ZSTD + packed
        return self.PLAIN + body

    def unpack(self, packed: bytes) -> bytes:
        """Undo `pack`.

        Raises:
            CacheBroken: the bytes were not written by `pack`.
        """
        tag = packed[:1]
        if tag == self.PLAIN:
            return packed[1:]
        if tag == self.ZSTD:
            try:
                return self._decompress(memoryview(packed)[1:])
            except zstandard.ZstdError as error:
                raise CacheBroken(f"the cache holds a damaged answer ({error}); move the cache aside") from error
        raise CacheBroken(f"the cache holds an answer of an unknown encoding ({tag!r}); move the cache aside")

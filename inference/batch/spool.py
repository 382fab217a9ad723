"""Where workers leave the calls that are to go into a batch, for the driver to collect."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
from tokenmill.inference.call import Call
from tokenmill.inference.errors import CacheBroken, CallFailed, CallRefused, RowError, Waiting

GIVEN_UP = "given_up.json"


@dataclass(frozen=True)
class Filed:
    """A call that waits: who asked first, how many tokens it may take, and where its body stands."""

    role: str
    bound: int
    path: Path
    offset: int
    length: int

    @property
    def body(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


class Spool:
    """A folder of calls that wait. Every process appends to a file of its own."""

    def __init__(self, folder: str | Path, encode: Callable[[bytes], bytes] = bytes) -> None:
        """
        Args:
            encode: makes of a call's body what its endpoint reads.
        """
        self.folder = Path(folder)
        self._encode = encode
        self._file: int | None = None
        self._seen: set[str] = set()
        try:
            self._given_up = orjson.loads((self.folder / GIVEN_UP).read_bytes())
        except OSError:
            self._given_up = {}

    def file(self, call: Call, role: str, bound: int) -> RowError | Waiting:
        """Put a call into the folder; what its row is to be told: that it waits, or that the endpoint will not answer.

        Args:
            bound: tokens that the call may be billed for at most.

        Raises:
            CacheBroken: the folder cannot be written.
        """
        told = self._given_up.get(call.address)
        if told is not None:
            return CallRefused(told["status"], told["said"].encode()) if told["status"] else CallFailed(told["said"])
        if call.address not in self._seen:
            head = orjson.dumps({"role": role, "address": call.address, "bound": bound})
            self._append(head + b"\n" + self._encode(call.body) + b"\n")
            self._seen.add(call.address)
        return Waiting("the answer is asked for in a batch")

    def _append(self, record: bytes) -> None:
        try:
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                path = self.folder / f"{os.getpid()}.calls"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            while record:
                record = record[os.write(self._file, record) :]
        except OSError as error:
            raise CacheBroken(f"calls cannot be filed in {self.folder}: {error.strerror}; make room there") from error

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def collected(folder: str | Path) -> dict[str, Filed]:
    """All calls that wait in a folder, by address, in the addresses' order."""
    calls: dict[str, Filed] = {}
    for path in sorted(Path(folder).glob("*.calls")):
        with path.open("rb") as file:
            while head := file.readline():
                told = orjson.loads(head)
                offset = file.tell()
                length = len(file.readline()) - 1
                calls.setdefault(told["address"], Filed(told["role"], told["bound"], path, offset, length))
    return dict(sorted(calls.items()))


def give_up(folder: str | Path, calls: Mapping[str, tuple[int, str]]) -> None:
    """Have workers that use this folder from now on tell the rows of these calls that no answer will come.

    Args:
        calls: by address the HTTP status with which the endpoint refused, or 0, and what it said.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    told = {address: {"status": status, "said": said} for address, (status, said) in calls.items()}
    Path(folder, GIVEN_UP).write_bytes(orjson.dumps(told))

"""What was sent in batches, on this machine: which calls are in which part, and which batch a part became.

A part is on record before it is sent. Whoever was killed in between has left it `prepared`: whether its batch exists only
the endpoint can tell, by the part's name in the batch's metadata.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tokenmill.inference.batch.spool import Filed
from tokenmill.inference.cache.sqlite import _started, _whereabouts
from tokenmill.inference.errors import CacheBroken

SCHEMA = """
CREATE TABLE IF NOT EXISTS parts (
  part TEXT PRIMARY KEY, box TEXT NOT NULL, batch TEXT NOT NULL, tried REAL NOT NULL,
  place TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS lines (
  box TEXT NOT NULL, address TEXT NOT NULL, part TEXT NOT NULL, role TEXT NOT NULL, bound INTEGER NOT NULL,
  PRIMARY KEY (box, address)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lines_of ON lines (part);
"""


@dataclass(frozen=True)
class Part:
    """Calls that were, or are about to be, sent together."""

    name: str
    box: str
    """Whom they are sent to: an endpoint's address and the model."""
    batch: str
    """The batch's id; empty while it is not known that there is one."""
    tried: float
    """When its creation was asked for, in seconds since the epoch; 0 for not yet."""
    mine: bool
    abandoned: bool
    """Whether the process that prepared it is gone."""


def ledger_path(cache: str) -> Path:
    """The ledger that belongs to a cache: beside its file, or among this user's where the cache is on a server."""
    if "://" not in cache:
        return Path(f"{cache}.batches")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "tokenmill", f"{hashlib.sha256(cache.encode()).hexdigest()[:16]}.batches")


class Ledger:
    """The record in a SQLite file, which several commands may share: what one has sent, the others wait for."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            CacheBroken: the file cannot be used.
        """
        self.path = path
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            # Unlike an answer, a batch that is not on record after a power cut would be paid for twice.
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise CacheBroken(f"the record of batches {self.path} cannot be used: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def prepare(self, box: str, calls: Iterable[tuple[str, Filed]]) -> tuple[str, set[str]]:
        """Put calls on record as a part about to be sent: its name, and the addresses in it, which are those that nobody
        else has sent. There is no part where there are none."""
        name = uuid.uuid4().hex
        with self._writing() as db:
            held = [
                (box, address, name, call.role, call.bound)
                for address, call in calls
                if db.execute("SELECT 1 FROM lines WHERE box = ? AND address = ?", (box, address)).fetchone() is None
            ]
            if held:
                db.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", held)
                db.execute("INSERT INTO parts VALUES (?, ?, '', 0, ?, ?, ?)", (name, box, *_whereabouts(os.getpid())))
        return name, {address for _, address, *_ in held}

    def trying(self, part: str) -> None:
        """From now on there may be a batch of this part."""
        with self._writing() as db:
            db.execute("UPDATE parts SET tried = ? WHERE part = ?", (time.time(), part))

    def sent(self, part: str, batch: str) -> None:
        """There is a batch of this part."""
        with self._writing() as db:
            db.execute("UPDATE parts SET batch = ? WHERE part = ?", (batch, part))

    def end(self, part: str) -> None:
        """Forget a part: its answers are stored, or there is no batch of it."""
        with self._writing() as db:
            db.execute("DELETE FROM lines WHERE part = ?", (part,))
            db.execute("DELETE FROM parts WHERE part = ?", (part,))

    def parts(self, boxes: Iterable[str]) -> list[Part]:
        """All parts of these boxes, oldest first."""
        with self._explained():
            rows = self._db.execute("SELECT part, box, batch, tried, place, pid, started FROM parts ORDER BY rowid")
            mine = _whereabouts(os.getpid())
            wanted = set(boxes)
            return [
                Part(name, box, batch, tried, tuple(whose) == mine, _gone(*whose))
                for name, box, batch, tried, *whose in rows.fetchall()
                if box in wanted
            ]

    def lines(self, part: str) -> dict[str, tuple[str, int]]:
        """(role, bound) of the calls in a part, by address."""
        with self._explained():
            rows = self._db.execute("SELECT address, role, bound FROM lines WHERE part = ?", (part,))
            return {address: (role, bound) for address, role, bound in rows}

    def holds(self, box: str, address: str) -> bool:
        """Whether a call is in a part of this box."""
        with self._explained():
            row = self._db.execute("SELECT 1 FROM lines WHERE box = ? AND address = ?", (box, address)).fetchone()
            return row is not None


def _gone(place: str, pid: int, started: str) -> bool:
    """Whether a process has ended; of one on another machine, or in another container, that cannot be told."""
    return place == _whereabouts(os.getpid())[0] != "" and _started(pid) != started

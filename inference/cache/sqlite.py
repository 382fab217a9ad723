"""The cache in one SQLite file, shared by the threads and processes of one machine.

WAL mode with synchronous=NORMAL: a commit is in the operating system's hands and survives a SIGKILL of the process; a
power cut may lose the last commits, never the file. The file must be on a local disk (WAL does not work over network
file systems); machines share a cache through Redis.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from itertools import compress
from pathlib import Path
from typing import TypeVar

from tokenmill.inference.cache.base import PAID, Entry
from tokenmill.inference.cache.batching import OWNER_TTL, Batch, BatchedCache, Outcome, admit
from tokenmill.inference.errors import CacheBroken

APPLICATION_ID = 0x544D494C
"""`TMIL`, in the header of every cache file."""

VERSION = 1
"""Schema version of a new file, as `PRAGMA user_version`."""

NEWEST = 2
"""Newest schema version that is read: 2 has one table more, `notes`, which is left alone."""

T = TypeVar("T")

CHECKPOINT_BYTES = 4 << 20
"""Bytes of answers after which the log is copied into the file, on a thread because that waits for the disk."""

LOG_LIMIT = 8192
"""Pages of 4 KiB in the log beyond which a commit itself copies the rest, so that the log can start over. While commits
keep coming the thread alone never gets to the log's end."""

SHUT = 0o600
"""Permissions of a cache: answers repeat the documents and prompts of every run. SQLite gives its log files the same."""

SCHEMA = """
CREATE TABLE answers (address BLOB NOT NULL UNIQUE, status INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE runs (run TEXT PRIMARY KEY, spent INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE owners (
  owner TEXT PRIMARY KEY, run TEXT NOT NULL, held INTEGER NOT NULL, seen REAL NOT NULL,
  place TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL
) WITHOUT ROWID;
"""

PUT = f"""INSERT INTO answers VALUES (?, ?, ?) ON CONFLICT (address) DO UPDATE
SET status = excluded.status, body = excluded.body WHERE status <> {PAID}"""
GET = "SELECT status, body FROM answers WHERE address = ?"
BILL = """INSERT INTO runs VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET spent = spent + excluded.spent
RETURNING spent"""
HOLD = """INSERT INTO owners VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner) DO UPDATE
SET held = excluded.held, seen = excluded.seen"""

_INHERITED: list[sqlite3.Connection] = []
"""Connections of a parent process: a forked child must neither use nor close them."""


class SqliteCache(BatchedCache):
    """`inference.cache.base.Cache` in a SQLite file; open it through `inference.cache.open.open_cache`.

    Reads and commits run on the event loop itself: a read takes microseconds, a commit of a batch less than a hop
    to a thread and back, and a taken write lock is waited for with the loop running.
    """

    patience = 60.0
    """Seconds to wait for other processes to give up the write lock."""

    def __init__(self, location: str, run: str, budget: int | None) -> None:
        self._db: sqlite3.Connection | None = None
        super().__init__(location, run, budget)

    def _reset(self) -> None:
        if self._db is not None:
            _INHERITED.append(self._db)
        self._db = None
        self._logged = 0
        self._checkpoint: asyncio.Future[None] | None = None
        super()._reset()

    def check(self) -> None:
        try:
            self._connect().close()
        except sqlite3.Error as error:
            raise CacheBroken(self._explain(error)) from error

    # Connection

    def _connect(self) -> sqlite3.Connection:
        """Open the file, creating folders and schema as needed. Blocks for milliseconds."""
        path = Path(self.location)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CacheBroken(f"cannot create the cache folder {path.parent}: {error.strerror}") from error
        if path.is_dir():
            raise CacheBroken(f"the cache {path} is a folder; name a file")
        _keep_private(path)
        db = sqlite3.connect(path, timeout=self.patience, isolation_level=None)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        if _pragma(db, "application_id") != APPLICATION_ID:
            # Nobody's file yet, or another process is creating it at this moment: look again under the write lock.
            db.execute("BEGIN IMMEDIATE")
            if _pragma(db, "application_id") != APPLICATION_ID:
                if db.execute("SELECT 1 FROM sqlite_schema").fetchone():
                    raise CacheBroken(f"{self.location} is a database of another program; name another file as cache")
                for statement in filter(str.strip, SCHEMA.split(";")):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        version = _pragma(db, "user_version")
        if version > NEWEST:
            raise CacheBroken(f"the cache {self.location} was written by a newer Tokenmill (schema {version})")
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise CacheBroken(f"the cache {self.location} cannot use a write-ahead log; put it on a local disk")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA busy_timeout = 0")
        db.execute(f"PRAGMA wal_autocheckpoint = {LOG_LIMIT}")

    def _connected(self) -> sqlite3.Connection:
        self._check_process()
        if self._db is None:
            self._db = self._connect()
        return self._db

    async def _disconnect(self) -> None:
        if self._checkpoint is not None and self._checkpoint.get_loop() is asyncio.get_running_loop():
            await self._checkpoint
        if self._db is not None:
            self._db.close()
            self._db = None

    def _explain(self, error: sqlite3.Error) -> str:
        """One line that says what to do."""
        remedy = {
            sqlite3.SQLITE_FULL: "the disk is full; make room and repeat the command",
            sqlite3.SQLITE_IOERR: "the disk refuses to read or write (full, over quota or failing)",
            sqlite3.SQLITE_CANTOPEN: "it cannot be opened or created; check the folder and its permissions",
            sqlite3.SQLITE_READONLY: "it is read-only; check the permissions of the file and its folder",
            sqlite3.SQLITE_PERM: "it may not be opened; check the permissions",
            sqlite3.SQLITE_CORRUPT: "it is damaged; move it aside or rescue it with `sqlite3 FILE .recover`",
            sqlite3.SQLITE_NOTADB: "it is not a Tokenmill cache; name another file",
            sqlite3.SQLITE_BUSY: f"another process kept it locked for {self.patience:.0f} s",
        }.get(_code(error), "it cannot be used")
        return f"the cache {self.location}: {remedy} ({error})"

    async def _when_free(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run `action`; while another process has the lock, let the event loop run and try again.

        Raises:
            CacheBroken: SQLite failed, or the lock was not free within the patience.
        """
        deadline, pause = 0.0, 0.0005
        while True:
            try:
                return action(self._connected())
            except sqlite3.Error as error:
                deadline = deadline or time.monotonic() + self.patience
                if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                    raise CacheBroken(self._explain(error)) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, 0.02)

    # Entries and ledger

    async def _load(self, address: str) -> Entry | None:
        key = _key(address)
        row = await self._when_free(lambda db: db.execute(GET, (key,)).fetchone())
        return None if row is None else self._entry(*row)

    def _entry(self, status: int, body: bytes) -> Entry:
        return Entry(status, self._codec.unpack(body))

    async def _spent(self) -> int:
        row = await self._when_free(
            lambda db: db.execute("SELECT spent FROM runs WHERE run = ?", (self.run,)).fetchone()
        )
        return row[0] if row else 0

    async def _commit(self, batch: Batch) -> Outcome:
        rows = [(_key(address), entry.status, self._codec.pack(entry.body)) for address, entry in batch.puts]
        outcome = await self._when_free(lambda db: self._transact(db, batch, rows))
        self._logged += sum(len(row[2]) for row in rows)
        if self._logged > CHECKPOINT_BYTES and (self._checkpoint is None or self._checkpoint.done()):
            self._logged = 0
            self._checkpoint = asyncio.get_running_loop().run_in_executor(None, _checkpoint, self.location)
        return outcome

    def _transact(self, db: sqlite3.Connection, batch: Batch, rows: list[tuple[bytes | str, int, bytes]]) -> Outcome:
        db.execute("BEGIN IMMEDIATE")
        try:
            outcome = Outcome([entry for _, entry in batch.puts])
            if rows and db.executemany(PUT, rows).rowcount != len(rows):
                found = [db.execute(GET, (key,)).fetchone() for key, _, _ in rows]
                outcome.stored = [self._entry(*row) for row in found]
            if batch.billed or batch.asks:
                outcome.spent = db.execute(BILL, (self.run, batch.billed)).fetchone()[0]
            if batch.asks:
                outcome.granted = self._admit(db, batch, outcome.spent)
            self._hold(db, batch.held + sum(compress(batch.asks, outcome.granted)))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return outcome

    def _admit(self, db: sqlite3.Connection, batch: Batch, spent: int) -> list[bool]:
        assert self.budget is not None
        taken = spent + batch.held
        granted = admit(batch.asks, taken + self._held_by_others(db), self.budget)
        if not all(granted) and self._strike_dead(db):
            granted = admit(batch.asks, taken + self._held_by_others(db), self.budget)
        return granted

    def _held_by_others(self, db: sqlite3.Connection) -> int:
        return db.execute(
            "SELECT coalesce(sum(held), 0) FROM owners WHERE run = ? AND owner <> ?", (self.run, self._owner)
        ).fetchone()[0]

    def _hold(self, db: sqlite3.Connection, held: int) -> None:
        """Record what this owner holds, and that it lives."""
        if held:
            db.execute(HOLD, (self._owner, self.run, held, time.time(), *_whereabouts(os.getpid())))
        elif self._recorded:
            db.execute("DELETE FROM owners WHERE owner = ?", (self._owner,))

    def _strike_dead(self, db: sqlite3.Connection) -> bool:
        """Drop reservations of owners whose process is gone, or that have not been heard of for long."""
        place = _whereabouts(os.getpid())[0]
        dead = [
            (owner,)
            for owner, seen, where, pid, started in db.execute(
                "SELECT owner, seen, place, pid, started FROM owners WHERE run = ? AND owner <> ?",
                (self.run, self._owner),
            )
            if seen < time.time() - OWNER_TTL or (where == place != "" and _started(pid) != started)
        ]
        db.executemany("DELETE FROM owners WHERE owner = ?", dead)
        return bool(dead)


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return db.execute(f"PRAGMA {name}").fetchone()[0]


def _checkpoint(path: str) -> None:
    """Copy the log into the file, as far as readers and writers allow; what is left is for the next time."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _key(address: str) -> bytes | str:
    """A SHA-256 in hex as its 32 bytes, which halves the index; any other address as it is."""
    try:
        return bytes.fromhex(address) if len(address) == 64 else address
    except ValueError:
        return address


def _started(pid: int) -> str:
    """The start time of a process in clock ticks since boot, or "" if there is none (or no /proc)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@cache
def _whereabouts(pid: int) -> tuple[str, int, str]:
    """(place, pid, start time). Within one place, one boot and PID namespace, a pid and its start time name a process.

    The place is "" where that cannot be told; an owner there is dead only once its heartbeat stops.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}", pid, _started(pid)
    except OSError:
        return "", pid, ""


def _keep_private(path: Path) -> None:
    """Create the file for its owner alone; shut one that an earlier version left open to all. Where it cannot be created,
    SQLite says why."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, SHUT))
        if path.stat().st_mode & 0o007:
            path.chmod(SHUT)

"""Where a model's answers come from: `acquire` turns a spec into an address that answers, and keeps it answering.

For managed kinds one server runs per machine and user, however many processes lease it; `inference.servers.keeper` owns it. An
endpoint that someone else runs is only named. Importing this module starts nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tokenmill.inference.errors import RunStopped
from tokenmill.inference.providers import PROVIDERS, NoAddress, address_of
from tokenmill.inference.servers.launch import Launch, ProgramMissing, clean_environment, launch_of, python_module
from tokenmill.inference.spec import ModelSpec

LINGER = 10.0
"""Seconds a server outlives its last lease, so that the next pipeline of the same job finds it warm."""

_OPENAI = "https://api.openai.com/v1"
_ATTEMPTS = 5
_KEEPER_GONE = 60.0
"""Seconds to wait for the lock of a keeper that is stopping its server."""


class ServerFailed(RunStopped):
    """A model server is not to be had; the text is one line with the cause and, where there is one, the log's words."""


class Lease:
    """The right to use a server until closed. Dropped by the system if its process dies. Not picklable."""

    def __init__(self, base_url: str, model: str, *, parallel: int | None = None, log: Path | None = None) -> None:
        self.base_url = base_url
        """Up to and with `/v1`; holds no credentials."""
        self.model = model
        """The name to send as `model`."""
        self.parallel = parallel
        """Requests the server works on at once (more are queued), or None when unknown."""
        self.log = log
        self._line: _Line | None = None
        self._problem: str | None = None

    def problem(self) -> str | None:
        """Why the server is gone for good, in one line; None while it runs or is being restarted, or is not ours."""
        if self._line is not None and self._problem is None:
            for message in self._line.pending():
                if message["state"] == "failed":
                    self._problem = message["error"]
            if self._problem is None and self._line.ended:
                self._problem = f"the keeper of {self.model}'s server has ended (log: {self.log})"
        return self._problem

    def close(self) -> None:
        """Give the lease back. Closing twice is harmless."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lease({self.model!r} at {self.base_url}, parallel={self.parallel})"


def acquire(
    spec: ModelSpec,
    *,
    log_dir: Path | str | None = None,
    linger: float = LINGER,
    notify: Callable[[str], None] | None = None,
) -> Lease:
    """Lease the server of a spec, starting it if it is a managed one that does not run yet. Blocks until it is healthy.

    Args:
        log_dir: where a server started by this call logs; default `$XDG_CACHE_HOME/tokenmill/logs`.
        linger: seconds a server started by this call outlives its last lease.
        notify: told once, in one line, when there is a wait for a server to come up.

    Raises:
        ServerFailed: the server is not installed, cannot start, or the environment lacks what the spec needs.
    """
    if spec.kind == "endpoint":
        assert spec.base_url is not None
        return Lease(spec.base_url, spec.model)
    if spec.kind == "openai":
        return Lease(_openai_url(spec), spec.model)
    if spec.kind == "provider":
        return Lease(_provider_url(spec), spec.model)
    try:
        launch = launch_of(spec)
    except ProgramMissing as error:
        raise ServerFailed(str(error)) from None
    log = _log_file(launch, log_dir)
    for _ in range(_ATTEMPTS):
        line = _Line(_connect(launch, log, linger))
        try:
            ready = _await_ready(line, launch, notify)
        except BaseException:
            line.close()
            raise
        if ready is not None:
            lease = Lease(ready["base_url"], launch.model, parallel=launch.parallel, log=Path(ready["log"]))
            lease._line = line
            return lease
        # The keeper was just ending, or was killed: the next round finds or starts another.
        line.close()
    raise ServerFailed(f"{launch.label}: its keeper ended {_ATTEMPTS} times without a word; {_last_words(log)}")


class _Line:
    """The connection to a keeper: JSON messages, one a line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        self.ended = False

    def pending(self) -> Iterator[dict[str, Any]]:
        """Messages that have arrived, without waiting."""
        yield from self._read(0.0)

    def next(self, timeout: float) -> dict[str, Any] | None:
        """The next message, or None at the end.

        Raises:
            TimeoutError: none in `timeout` seconds.
        """
        while not self.ended and b"\n" not in self._buffer:
            self._fill(timeout)
        return self._pop()

    def close(self) -> None:
        self._connection.close()

    def _read(self, timeout: float) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(BlockingIOError, TimeoutError):
            while not self.ended:
                self._fill(timeout)
        while (message := self._pop()) is not None:
            yield message

    def _fill(self, timeout: float) -> None:
        self._connection.settimeout(timeout)
        try:
            data = self._connection.recv(65536)
        except ConnectionError:
            data = b""
        self._buffer += data
        self.ended = not data

    def _pop(self) -> dict[str, Any] | None:
        if b"\n" not in self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)


def _await_ready(line: _Line, launch: Launch, notify: Callable[[str], None] | None) -> dict[str, Any] | None:
    """The `ready` message, or None if the keeper ended before it said anything final."""
    # The keeper bounds each start itself; this bounds a keeper that was stopped or starved.
    deadline = time.monotonic() + launch.start_timeout + _KEEPER_GONE
    while True:
        try:
            message = line.next(max(0.1, deadline - time.monotonic()))
        except TimeoutError:
            raise ServerFailed(f"{launch.label}: its keeper does not answer") from None
        if message is None:
            return None
        if message["state"] == "ready":
            return message
        if message["state"] == "failed":
            raise ServerFailed(message["error"])
        if notify is not None:
            notify(f"{message['state']} {launch.label} (log: {message['log']})")
            notify = None


def _connect(launch: Launch, log: Path, linger: float) -> socket.socket:
    """A connection to the launch's keeper, which is started if this process gets the lock."""
    folder = _runtime_dir()
    path, lock = folder / f"{launch.key}.sock", folder / f"{launch.key}.lock"
    deadline = time.monotonic() + _KEEPER_GONE
    started = 0
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
        except OSError as error:
            connection.close()
            raise ServerFailed(f"{launch.label}: cannot reach its keeper at {path}: {error}") from None
        with lock.open("a") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                if started == _ATTEMPTS:
                    raise ServerFailed(f"{launch.label}: its keeper cannot start; {_last_words(log)}")
                started += 1
                _start_keeper(launch, path, held.fileno(), log, linger)
                continue
        if time.monotonic() > deadline:
            raise ServerFailed(f"{launch.label}: a former keeper still holds {lock}")
        time.sleep(0.05)


def _start_keeper(launch: Launch, path: Path, lock_fd: int, log: Path, linger: float) -> None:
    """Start a keeper that inherits the lock and a socket that listens already: nobody has to wait for either."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(256)
        config = {
            "launch": asdict(launch),
            "listen_fd": listener.fileno(),
            "lock_fd": lock_fd,
            "socket": str(path),
            "log": str(log),
            "linger": linger,
        }
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        log.touch(mode=0o600)
        with log.open("wb") as output:
            subprocess.run(
                python_module("tokenmill.inference.servers.keeper", json.dumps(config)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(lock_fd, listener.fileno()),
                env=clean_environment(),
                check=False,
            )


def _runtime_dir() -> Path:
    """A directory of this user's alone for sockets and locks.

    Not `$XDG_RUNTIME_DIR`: that one vanishes when the user logs out, with the lock of a run left under nohup.
    """
    given = os.environ.get("TOKENMILL_RUNTIME_DIR")
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"tokenmill-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise ServerFailed(f"cannot make {folder}: {error.strerror}; set TOKENMILL_RUNTIME_DIR") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise ServerFailed(f"{folder} is not a directory of this user's alone; set TOKENMILL_RUNTIME_DIR")
    if len(os.fsencode(folder)) > 80:
        raise ServerFailed(f"{folder} is too long a path for a socket; set TOKENMILL_RUNTIME_DIR")
    return folder


def _log_file(launch: Launch, log_dir: Path | str | None) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(log_dir) if log_dir is not None else cache / "tokenmill" / "logs"
    name = re.sub(r"[^\w.-]+", "-", launch.model)[-60:].strip("-")
    return folder.absolute() / f"{launch.kind}-{name}-{launch.key[:8]}.log"


def _last_words(log: Path) -> str:
    with contextlib.suppress(OSError):
        if lines := log.read_text(encoding="utf-8", errors="replace").split("\n")[-4:]:
            return f"its log ends: {' | '.join(line.strip() for line in lines if line.strip())[-400:]} (log: {log})"
    return f"log: {log}"


def _provider_url(spec: ModelSpec) -> str:
    try:
        url = address_of(spec.provider)
    except NoAddress as error:
        raise ServerFailed(str(error)) from None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
        raise ServerFailed(f"the address of {spec.provider} is no plain http(s) address; give the key by itself")
    if not spec.api_key():
        raise ServerFailed(f"{spec.text} needs a key: set {spec.option('key') or PROVIDERS[spec.provider].key}")
    return url


def _openai_url(spec: ModelSpec) -> str:
    url = os.environ.get("OPENAI_BASE_URL", "").rstrip("/") or _OPENAI
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerFailed("OPENAI_BASE_URL is not an http(s) address")
    if parts.username is not None or parts.query:
        raise ServerFailed("OPENAI_BASE_URL holds credentials or a query; put the key in OPENAI_API_KEY")
    if url == _OPENAI and not spec.api_key():
        raise ServerFailed(f"{spec.text} needs a key: set OPENAI_API_KEY")
    return url

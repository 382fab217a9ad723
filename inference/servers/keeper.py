"""The process that owns one managed server on behalf of every worker process of this user on this machine.

A lease is a connection to the keeper's Unix socket: it ends when its holder closes it or dies, however it dies. Some
seconds after the last lease has gone the keeper stops the server and ends. Over the socket it says, in JSON lines,
where it stands: `starting`, `ready` (with the address), `restarting`, `failed` (with one line for the user).

The keeper is started by `inference.servers.acquire`, which hands it the listening socket and a lock; the lock is held until
keeper and server are both gone, so that there is never a second server of the same kind beside a dying one.

    python -m tokenmill.inference.servers.keeper \\
        {"launch": ..., "listen_fd": N, "lock_fd": N, "socket": PATH, "log": PATH, "linger": SECONDS}
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tokenmill.inference.servers.launch import PORT, Launch, clean_environment, diagnose, port_taken, python_module

RESTARTS = 3
"""Times a server that had been ready is started again within `RESTART_WINDOW` seconds before the keeper gives up."""
RESTART_WINDOW = 600.0
STOP_GRACE = 10.0
PROBE_EVERY = 5.0
FAILED_PROBES = 3
_TICK = 0.1


class GaveUp(Exception):
    """The server cannot be had; the text is one line for the user."""


class Keeper:
    """One server, its leases, and the loop that minds both. One thread: the kernel ties the guard's life to it."""

    def __init__(
        self, launch: Launch, listener: socket.socket, *, path: Path, lock_fd: int, log: Path, linger: float
    ) -> None:
        self.launch = launch
        self.path = path
        self.lock_fd = lock_fd
        self.log = log
        self.linger = linger
        self.stopping = False
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._clients: set[socket.socket] = set()
        self._idle_since: float | None = time.monotonic()
        self._port = 0
        self._guard: subprocess.Popen[bytes] | None = None
        self._log_offset = 0
        self._crashes: list[float] = []
        self._state: dict[str, object] = {"state": "starting", "log": str(log)}

    def run(self) -> None:
        """Serve until the last lease has been gone for `linger` seconds, SIGTERM, or the server cannot be had."""
        try:
            self._bring_up()
            while self._wanted():
                self._mind()
                self._restart()
        except GaveUp as error:
            self._say(state="failed", error=str(error))
            # Those still waiting to be let in hear it too, instead of trying the same again.
            self._attend(0)
        finally:
            # Whoever comes from now on finds no socket and waits for the lock.
            self.path.unlink(missing_ok=True)
            self._listener.close()
            self._stop_server()

    def _bring_up(self) -> None:
        """Start the server and wait for health, moving to another port when the chosen one was taken meanwhile."""
        for _ in range(3):
            self._start_server()
            code = self._wait_healthy()
            if code is None or not self._wanted():
                return
            words = self._own_log()
            if not port_taken(words):
                raise GaveUp(self._line("failed to start", words, code))
            self._port = 0
        raise GaveUp(self._line("failed to start", self._own_log(), code))

    def _wait_healthy(self) -> int | None:
        """None once healthy (or no longer wanted), else the exit status of a server that ended before.

        Raises:
            GaveUp: it is up for longer than its start timeout without an answer.
        """
        deadline = time.monotonic() + self.launch.start_timeout
        while self._wanted():
            code = self._exit_status()
            if code is not None:
                return code
            if _healthy(self._port, self.launch.model):
                self._say(state="ready", base_url=f"http://127.0.0.1:{self._port}/v1", log=str(self.log))
                return None
            if time.monotonic() > deadline:
                words = self._own_log()
                self._stop_server()
                raise GaveUp(self._line(f"gave no healthy answer in {self.launch.start_timeout:.0f} s", words, None))
            self._attend(_TICK)
        return None

    def _mind(self) -> None:
        """Return when the server has crashed or is no longer wanted."""
        refused = 0
        probe_at = time.monotonic() + PROBE_EVERY
        while self._wanted() and self._exit_status() is None:
            self._attend(_TICK * 2)
            if time.monotonic() >= probe_at:
                probe_at = time.monotonic() + PROBE_EVERY
                # A slow answer is a busy server; a refusal is one whose workers have died under its front end.
                refused = refused + 1 if _refuses(self._port) else 0
                if refused >= FAILED_PROBES:
                    self._stop_server()

    def _restart(self) -> None:
        while self._wanted():
            now = time.monotonic()
            self._crashes = [t for t in self._crashes if now - t < RESTART_WINDOW] + [now]
            code, words = self._exit_status(), self._own_log()
            if len(self._crashes) > RESTARTS:
                raise GaveUp(self._line(f"crashed {len(self._crashes)} times", words, code))
            self._say(state="restarting", log=str(self.log))
            pause_until = now + 2.0 ** (len(self._crashes) - 2)
            while self._wanted() and time.monotonic() < pause_until:
                self._attend(_TICK)
            if not self._wanted():
                return
            self._start_server()
            if self._wait_healthy() is None:
                return

    def _start_server(self) -> None:
        # The same port after a crash: the address is in other processes' hands.
        self._port = self._port or _free_port()
        argv = [part.replace(PORT, str(self._port)) for part in self.launch.argv]
        with self.log.open("ab") as log:
            self._log_offset = log.tell()
            # The guard inherits the lock, so that it outlives this process if the server does.
            self._guard = subprocess.Popen(
                python_module("tokenmill.inference.servers.guard", str(os.getpid()), str(STOP_GRACE), *argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(self.lock_fd,),
                env=clean_environment(),
            )

    def _stop_server(self) -> None:
        if self._guard is None or self._guard.poll() is not None:
            return
        self._guard.terminate()
        try:
            self._guard.wait(STOP_GRACE + 5)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()

    def _exit_status(self) -> int | None:
        code = self._guard.poll() if self._guard else None
        return code if code is None or code <= 128 else 128 - code

    def _own_log(self) -> str:
        """What the server now in question has written, its last 64 KB."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_offset, size - 65536))
            return log.read().decode("utf-8", "replace")
        return ""

    def _line(self, what: str, words: str, code: int | None) -> str:
        return f"{self.launch.label} {what}: {diagnose(words, code)} (log: {self.log})"

    def _wanted(self) -> bool:
        if self.stopping:
            return False
        return self._idle_since is None or time.monotonic() - self._idle_since < self.linger

    def _attend(self, seconds: float) -> None:
        """Take new leases and notice ended ones for at most `seconds`."""
        for event, _ in self._selector.select(seconds):
            if event.fileobj is self._listener:
                self._let_in()
            elif isinstance(event.fileobj, socket.socket) and not _still_there(event.fileobj):
                self._drop(event.fileobj)
        if self._clients:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = time.monotonic()

    def _let_in(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setblocking(False)
                self._clients.add(client)
                self._selector.register(client, selectors.EVENT_READ)
                self._tell(client)

    def _drop(self, client: socket.socket) -> None:
        if client in self._clients:
            self._clients.discard(client)
            self._selector.unregister(client)
            client.close()

    def _say(self, **state: object) -> None:
        self._state = state
        for client in list(self._clients):
            self._tell(client)

    def _tell(self, client: socket.socket) -> None:
        try:
            client.sendall(json.dumps(self._state).encode() + b"\n")
        except OSError:
            self._drop(client)


def _still_there(client: socket.socket) -> bool:
    try:
        return bool(client.recv(4096))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(1 << 20)
    finally:
        connection.close()


def _healthy(port: int, model: str) -> bool:
    """Whether the server answers and is ours: another program may have taken the port."""
    try:
        if _get(port, "/health")[0] != 200:
            return False
        status, body = _get(port, "/v1/models")
        return status == 200 and model in [entry["id"] for entry in json.loads(body)["data"]]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False


def _refuses(port: int) -> bool:
    try:
        return _get(port, "/health")[0] == 503
    except TimeoutError:
        return False
    except (OSError, http.client.HTTPException):
        return True


def main() -> None:
    config: dict[str, Any] = json.loads(sys.argv[1])
    # The one who started us waits for this process only; its child belongs to nobody and leaves no zombie behind.
    if os.fork():
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    listener = socket.socket(fileno=config["listen_fd"])
    listener.setblocking(False)
    os.set_inheritable(config["lock_fd"], False)
    keeper = Keeper(
        Launch.from_json(json.dumps(config["launch"])),
        listener,
        path=Path(config["socket"]),
        lock_fd=config["lock_fd"],
        log=Path(config["log"]),
        linger=config["linger"],
    )

    def stop(*_: object) -> None:
        keeper.stopping = True

    signal.signal(signal.SIGTERM, stop)
    keeper.run()


if __name__ == "__main__":
    main()

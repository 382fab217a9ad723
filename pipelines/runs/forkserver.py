"""Worker processes that start at once: forked from one that has already imported everything.

Importing Beam, Arrow and the openai client takes a worker process some seconds; a process forked after the imports
needs milliseconds and shares their memory. `Zygote` is forked from the driver before it has any threads, and loads what
the job's checks need while the driver goes on. Beam starts each worker by a command; ours is this file, run as a script,
which asks the zygote for a fork, hands over the environment that Beam gave it, and lasts as long as the worker does.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import os
import random
import shlex
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_MESSAGE = 1 << 20


class Zygote:
    """A process that forks workers on request, listening at a Unix socket. It ends with the driver."""

    def __init__(self, folder: str, preload: Callable[[], None] | None = None) -> None:
        self.path = f"{folder}/zygote"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        # Imported here, they are there in every fork.
        from apache_beam.runners.worker import sdk_worker_main  # noqa: F401
        from tokenmill.inference import client  # noqa: F401

        alive, self._driver = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # or it could end this function in both processes
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if self.pid == 0:
            os.close(self._driver)
            if preload is not None:
                with contextlib.suppress(Exception):  # a worker that needs it will say what is wrong
                    preload()
            gc.freeze()
            _serve(listener, alive)
        os.close(alive)
        listener.close()

    def command(self, log: str) -> str:
        """The shell command by which Beam starts a worker whose output goes to the file `log`; to stderr where it is empty."""
        words = [sys.executable, "-S", "-E", os.path.abspath(__file__), self.path, log]  # noqa: PTH100 (starts faster)
        return ignoring_interrupts(words)

    def close(self) -> None:
        os.close(self._driver)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def ignoring_interrupts(words: list[str]) -> str:
    """The shell command that runs a program without it hearing Ctrl-C: the driver hears it, too, and ends its workers."""
    return f"trap '' INT; exec {shlex.join(words)}"


def possible() -> bool:
    """Whether this process may be forked safely: on Linux, while it has one thread."""
    return sys.platform == "linux" and threading.active_count() == 1


def _serve(listener: socket.socket, alive: int) -> None:
    """The zygote's life: one fork per connection, until the driver is gone. Never returns."""
    import select

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers are not waited for here
    while True:
        ready, _, _ = select.select([listener.fileno(), alive], [], [])
        if alive in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os.close(alive)
            _work(connection)
        connection.close()


def _work(connection: socket.socket) -> None:
    """A worker's life: Beam's own main function, with what the command was given. Never returns."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with connection.makefile("rb") as stream:
            request = json.loads(stream.readline(_MAX_MESSAGE))
        random.seed()  # or every worker would draw the same jitter
        os.environ.clear()
        os.environ.update(request["env"])
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        work(request["log"])
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            connection.send(bytes([status]))
        os._exit(status)


def work(log: str) -> None:
    """Beam's main function of a worker, with everything it prints in a file; on stderr where `log` is empty."""
    with contextlib.suppress(OSError):
        if log:
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(file, 1)
            os.dup2(file, 2)
    from tokenmill.inference.redaction import redacted

    sys.stdout, sys.stderr = _Printed(1, redacted), _Printed(2, redacted)
    gc.set_threshold(50_000, 20, 50)  # rollouts make many objects and few cycles
    logging.getLogger("apache_beam").setLevel(logging.NOTSET)  # what the driver keeps quiet belongs into that file
    from apache_beam.runners.worker import sdk_worker_main
    from tokenmill.inference import runtime

    try:
        sdk_worker_main.main(["sdk_worker_main"])
    finally:
        runtime.retire()  # a driver that was killed leaves calls in flight


class _Printed(io.TextIOWrapper):
    """What is printed, without our secrets, as long as there is room for it. Beam prints what broke before it tells the driver,
    who would wait
    for ever for a worker that could not."""

    def __init__(self, descriptor: int, clean: Callable[[str], str] = str) -> None:
        self._clean = clean
        raw = io.FileIO(descriptor, "w", closefd=False)
        super().__init__(raw, "utf-8", "backslashreplace", write_through=True)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(self._clean(text))
        return len(text)


def _end_with(connection: socket.socket) -> None:
    """End when the command is gone: Beam ends a worker by killing the command that started it."""
    with contextlib.suppress(OSError):
        while connection.recv(64):
            pass
    os._exit(1)


def _ask(path: str, log: str) -> int:
    """The command's life: ask for a worker, wait for it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps({"env": dict(os.environ), "log": log}).encode() + b"\n")
        answer = connection.recv(1)
    return answer[0] if answer else 1


if __name__ == "__main__":
    sys.exit(_ask(sys.argv[1], sys.argv[2]))

"""The main text of HTML pages.

The parser is native code whose time is quadratic on hostile pages and which no signal interrupts. So it runs in a process
of its own, one per worker, that is killed at a deadline and started anew.

    title, text = extract(page, charset="iso-8859-1")
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

SECONDS = 5.0
"""For one page."""
STARTUP_SECONDS = 60.0
"""Patience with a busy machine."""
_HEAD = struct.Struct("!II")
_BROKEN = 0xFFFFFFFF
_READ = 1 << 20


class NotExtracted(Exception):
    """A page that gives no text; `error` is its machine-readable kind."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


class _Helper:
    """The one child of this Python process."""

    def __init__(self) -> None:
        # -I keeps the caller's environment and folder out of the child's import path; no environment, no secrets.
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("helper.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "OMP_NUM_THREADS": "1"},
            bufsize=0,
        )
        self.owner = os.getpid()
        assert self._child.stdin is not None and self._child.stdout is not None
        self._to, self._from = self._child.stdin.fileno(), self._child.stdout.fileno()
        os.set_blocking(self._to, False)
        try:
            self._read(5, time.monotonic() + STARTUP_SECONDS)
        except (BrokenPipeError, TimeoutError):
            self.stop()
            raise RuntimeError("the extractor did not start: is resiliparse installed?") from None

    def _read(self, size: int, deadline: float) -> bytes:
        found = bytearray()
        poll = select.poll()  # `select` breaks beyond 1,024 open files, which a run with many connections has
        poll.register(self._from, select.POLLIN)
        while len(found) < size:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            piece = os.read(self._from, min(_READ, size - len(found)))
            if not piece:
                raise BrokenPipeError
            found += piece
        return bytes(found)

    def _write(self, content: bytes, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._to, select.POLLOUT)
        left = memoryview(content)
        while left:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            left = left[os.write(self._to, left[:_READ]) :]

    def extract(self, page: bytes, charset: bytes, seconds: float) -> tuple[str, str]:
        """Raises: NotExtracted, TimeoutError, BrokenPipeError."""
        deadline = time.monotonic() + seconds
        self._write(_HEAD.pack(len(charset), len(page)) + charset + page, deadline)
        title, text = _HEAD.unpack(self._read(_HEAD.size, deadline))
        if title == _BROKEN:
            raise NotExtracted("extraction_failed", self._read(text, deadline).decode("utf-8", "replace"))
        answer = self._read(title + text, deadline)
        return answer[:title].decode("utf-8", "replace"), answer[title:].decode("utf-8", "replace")

    def stop(self) -> None:
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()


_helper: _Helper | None = None
_lock = threading.Lock()


def _stop() -> None:
    global _helper
    if _helper and _helper.owner == os.getpid():
        _helper.stop()
    _helper = None


atexit.register(_stop)


def extract(page: bytes, charset: str = "", seconds: float = SECONDS) -> tuple[str, str]:
    """(title, main text) of an HTML page.

    Args:
        charset: as its server said; what the page itself shows goes before.

    Raises:
        NotExtracted: `extraction_timeout`, `extraction_crashed` (the parser died or ran out of memory) or `extraction_failed`.
    """
    global _helper
    with _lock:
        if _helper is None or _helper.owner != os.getpid():
            _helper = _Helper()
        try:
            return _helper.extract(page, charset.encode("ascii", "replace")[:100], seconds)
        except TimeoutError:
            _stop()
            raise NotExtracted("extraction_timeout", f"the page took the parser more than {seconds:g} s") from None
        except OSError:
            _stop()
            raise NotExtracted(
                "extraction_crashed", "the page broke the parser, or took more memory than it may"
            ) from None

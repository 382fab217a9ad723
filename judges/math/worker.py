"""A warm, guarded computer-algebra process, one per Python process, started when first needed."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.judges.math.expressions import Node, Num, Op, Quantity, Sym

STARTUP_SECONDS = 60
"""Patience with the first import of sympy on a busy machine."""


def encode(node: Node) -> list[Any]:
    """An expression as nested lists, units dropped; numerals as decimal strings of numerator and denominator."""
    if isinstance(node, Num):
        return ["num", str(node.value.numerator), str(node.value.denominator)]
    if isinstance(node, Sym):
        return ["sym", node.name]
    if isinstance(node, Quantity):
        return encode(node.body)
    assert isinstance(node, Op)
    return [node.op, *(encode(arg) for arg in node.args)]


class _Process:
    """The one child of this Python process."""

    def __init__(self) -> None:
        # -I keeps the caller's environment and folder out of the child's import path; no environment, no secrets.
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("symbolic.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "OMP_NUM_THREADS": "1"},
        )
        self.owner = os.getpid()
        if self._line(STARTUP_SECONDS) != b"ready":
            self.stop()
            raise RuntimeError("the computer-algebra process did not start: is sympy with math-verify installed?")

    def _line(self, seconds: float) -> bytes | None:
        out = self._child.stdout
        assert out is not None
        data, deadline = b"", time.monotonic() + seconds
        poll = select.poll()  # `select` breaks beyond 1,024 open files, which a run with many connections has
        poll.register(out, select.POLLIN)
        while not data.endswith(b"\n"):
            piece = os.read(out.fileno(), 4096) if poll.poll(max(0, deadline - time.monotonic()) * 1000) else b""
            if not piece:
                return None
            data += piece
        return data.strip()

    def ask(self, request: bytes, seconds: float) -> bool | None:
        """The answer, or None; `BrokenPipeError` if the child is gone or silent."""
        assert self._child.stdin is not None
        self._child.stdin.write(request)
        self._child.stdin.flush()
        line = self._line(seconds)
        if line is None:
            raise BrokenPipeError
        return json.loads(line)["ok"]

    def stop(self) -> None:
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


_process: _Process | None = None
_lock = threading.Lock()


def _stop() -> None:
    global _process
    if _process and _process.owner == os.getpid():
        _process.stop()
    _process = None


atexit.register(_stop)


@dataclass(frozen=True)
class Algebra:
    """A handle on the guarded process: picklable, cheap, stateless."""

    seconds: float = 0.5
    """Wall time of one question; after it the answer is None."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 60:
            raise ValueError(f"seconds={self.seconds}: give between 0 and 60")

    def warm(self) -> None:
        """Start the process now (about a second) rather than at the first question."""
        with _lock:
            self._running()

    def equal(self, left: Node, right: Node) -> bool | None:
        """Whether two expressions are equal for all real values of their symbols; None if undecided in time."""
        return self._ask("equal", encode(left), encode(right))

    def solves(self, left: Node, right: Node, name: str, values: list[Node]) -> bool | None:
        """Whether `values` are all real solutions of `left = right` in `name`; None if undecided in time."""
        return self._ask("solves", ["eq", encode(left), encode(right)], name, [encode(v) for v in values])

    def _running(self) -> _Process:
        global _process
        if _process is None or _process.owner != os.getpid():
            _process = _Process()
        return _process

    def _ask(self, op: str, *args: Any) -> bool | None:
        request = json.dumps({"op": op, "args": args, "seconds": self.seconds}).encode() + b"\n"
        with _lock:
            try:
                # The child keeps the time; the margin here only catches a child that was stopped or killed.
                return self._running().ask(request, self.seconds + 0.4)
            except (BrokenPipeError, OSError):
                _stop()
                return None

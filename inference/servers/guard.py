"""Runs one command and takes its whole process group down when the command ends, on SIGTERM, or when the parent dies.

The guard stands between keeper and server because a server such as vLLM starts processes of its own, which a signal to
the server alone would leave behind with the GPU in hand.

    python -m tokenmill.inference.servers.guard KEEPER_PID GRACE_SECONDS COMMAND...
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, with_signal: signal.Signals) -> None:
    """Have the kernel send `with_signal` to this process when its parent ends (Linux only; elsewhere a no-op)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)
        # The parent may have died before the call.
        if os.getppid() != parent:
            os.kill(os.getpid(), with_signal)


def main() -> int:
    keeper, grace, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    wanted_down = False

    def take_down(*_: object) -> None:
        nonlocal wanted_down
        wanted_down = True

    signal.signal(signal.SIGTERM, take_down)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(keeper, signal.SIGTERM)
    if wanted_down:
        return 0
    me = os.getpid()
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=lambda: die_with_parent(me, signal.SIGKILL),
    )
    while not wanted_down and not _ended(server.pid):
        time.sleep(0.05)
    if wanted_down:
        _signal_group(server.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while not _ended(server.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
    # Before the server is reaped: until then its process id cannot belong to anyone else.
    _signal_group(server.pid, signal.SIGKILL)
    code = server.wait()
    return code if code >= 0 else 128 - code


def _ended(pid: int) -> bool:
    """Whether a child has ended, leaving it unreaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(group: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, what)


if __name__ == "__main__":
    sys.exit(main())

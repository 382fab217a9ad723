"""A command with all its processes: how long it takes, how much of the processors and of memory."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import psutil

from tokenmill import IMPORT_ROOT

EVERY = 0.2
"""Seconds between two looks at the processes."""


class Finished:
    """A command that has run through.

    Workers are nobody's children for long, so their time is read while they live: up to `EVERY` seconds of each may be
    missing at the end. Looking at memory takes a tenth of the processes' time, and is done only where it is asked for.
    """

    def __init__(self, command: Sequence[str], *, memory: bool = False) -> None:
        """
        Raises:
            SystemExit: the command failed; the end of what it printed.
        """
        self.started = time.monotonic()
        """On the clock that all processes of the machine share."""
        self.peak = 0
        """Most bytes that its processes held at once; 0 where nobody looked."""
        self._cpu: dict[int, float] = {}
        process = subprocess.Popen(
            command, cwd=IMPORT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        watcher = threading.Thread(target=self._watch, args=(process, memory))
        watcher.start()
        self.output = process.communicate()[0]
        self.seconds = time.monotonic() - self.started
        watcher.join()
        if process.returncode:
            sys.exit(f"{' '.join(command)}\nexit code {process.returncode}\n{self.output[-3000:]}")

    @property
    def cpu(self) -> float:
        """Processor seconds of all its processes."""
        return sum(self._cpu.values())

    def _watch(self, process: subprocess.Popen[str], memory: bool) -> None:
        tree = psutil.Process(process.pid)
        known: dict[int, psutil.Process] = {tree.pid: tree}
        while process.poll() is None:
            held = 0
            with contextlib.suppress(psutil.Error):
                known |= {child.pid: child for child in tree.children(recursive=True) if child.pid not in known}
            for pid, part in list(known.items()):
                try:
                    times = part.cpu_times()
                    self._cpu[pid] = times.user + times.system
                    held += part.memory_full_info().pss if memory else 0
                except psutil.Error:  # it has ended
                    del known[pid]
            self.peak = max(self.peak, held)
            time.sleep(EVERY)

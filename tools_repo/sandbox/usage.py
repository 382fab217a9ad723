"""What processes and folders take, read from the system."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

GVISOR = 96 << 20
"""Bytes that gVisor's own processes take for themselves."""


def children(pid: int) -> list[int]:
    """Ids of a process's children that its first thread started; empty when it is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []


def memory(pid: int) -> int:
    """Bytes of memory that a process and all below it hold privately, as shared memory, or as page tables."""
    total, todo = 0, [pid]
    while todo:
        current = todo.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path(f"/proc/{current}/status").read_text().splitlines():
                if line.startswith(("RssAnon:", "RssShmem:", "VmPTE:")):
                    total += int(line.split()[1]) * 1024
            todo += children_of_all(current)
    return total


def gvisor_memory(pid: int) -> int:
    """Bytes of all that the programs of a gVisor sandbox hold, files in memory among it: its kernel keeps that in one file of
    no name, which a process below the given one has open, and what it notes about them in its own memory."""
    todo, held, own = [pid], 0, 0
    while todo:
        current = todo.pop()
        todo += children_of_all(current)
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path(f"/proc/{current}/status").read_text().splitlines():
                own += int(line.split()[1]) * 1024 if line.startswith("RssAnon:") else 0
            for place in Path(f"/proc/{current}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if place.readlink().name.startswith("memfd:runsc-memory"):
                        held = max(held, place.stat().st_blocks * 512)
    return held + max(0, own - GVISOR)


def children_of_all(pid: int) -> list[int]:
    """Ids of a process's children, whichever of its threads started them."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def sockets(pid: int) -> int:
    """Bytes that the sockets in the network of a process's first child may hold, each counted with a full buffer; 0 where it
    shares our network."""
    for child in children(pid)[:1]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            if Path(f"/proc/{child}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
                return 0
            used = int(Path(f"/proc/{child}/net/sockstat").read_text().split()[2])
            return used * int(Path("/proc/sys/net/core/wmem_default").read_text())
    return 0


def in_memory(pid: int, folders: Iterable[str]) -> tuple[int, int]:
    """(files and folders, bytes) on the file systems that the first child of a process has mounted at `folders`; 0 for what
    cannot be asked."""
    total, size, ours = 0, 0, set()
    for folder in folders:
        with contextlib.suppress(OSError):
            ours.add(Path(folder).stat().st_dev)
    for child in children(pid)[:1]:
        for folder in folders:
            with contextlib.suppress(OSError):
                # One descriptor for both questions: while a sandbox is being set up, a path may mean one folder and then another.
                place = os.open(f"/proc/{child}/root{folder}", os.O_PATH | os.O_DIRECTORY)
                try:
                    if os.fstat(place).st_dev not in ours:  # otherwise it has not mounted its own yet
                        told = os.fstatvfs(place)
                        total += told.f_files - told.f_ffree
                        size += (told.f_blocks - told.f_bfree) * told.f_frsize
                finally:
                    os.close(place)
    return total, size


def disk_usage(folder: str) -> int:
    """Bytes of all files under a folder, and one KiB for each file and folder itself; links are not followed."""
    total = 0
    for parent, folders, files in os.walk(folder):
        total += 1024 * (len(folders) + len(files))
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118
    return total

"""What every guest does first: hide itself from the code that it will run, and lay out the files."""

import base64
import contextlib
import ctypes
import os
import signal
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
DERIVED = {"__pycache__", ".pytest_cache"}


def prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def hide() -> None:
    """From now on other processes of this user can neither read nor write this one's memory or open files."""
    prctl(PR_SET_DUMPABLE, 0)


def open_channel() -> tuple[BinaryIO, BinaryIO]:
    """(what comes, what goes) as private files; what is printed from now on goes nowhere.

    They are a descriptor that only this process holds, or, where a sandbox can pass none on, stdin and stdout.
    """
    given = int(os.environ.pop("TOKENMILL_CHANNEL", "-1"))
    lines, channel = (given, os.dup(given)) if given >= 0 else (os.dup(0), os.dup(1))
    os.set_inheritable(lines, False)
    with Path("/dev/null").open("r+b") as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    return os.fdopen(lines, "rb"), os.fdopen(channel, "wb", buffering=0)


def adopt() -> None:
    """Become the parent of every process below whose own parent ends, so that none gets away."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_children(seconds: float = 5.0) -> None:
    """Kill every process below this one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        below = descendants(os.getpid())
        if not below:
            return
        for pid in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    todo = [pid]
    while todo:
        current = todo.pop()
        with contextlib.suppress(OSError, ValueError):
            for task in Path(f"/proc/{current}/task").iterdir():
                below = [int(child) for child in (task / "children").read_text().split()]
                found += below
                todo += below
    return found


def lay_out(root: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write the files of a workspace. Links last, so that no file is written through one."""
    root.mkdir(parents=True, exist_ok=True)
    for path, mode, content in sorted(rows, key=lambda row: row[1] == "l"):
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if mode == "l":
            place.symlink_to(content)
        else:
            place.write_bytes(base64.b64decode(content))
            place.chmod(0o755 if mode == "x" else 0o644)


def collect(root: Path, max_files: int, max_bytes: int) -> dict[str, list[str]] | None:
    """{path: [path, mode, content]} of all files and links below; None when they are too many or too large."""
    found: dict[str, list[str]] = {}
    size, todo = 0, [root]
    while todo:
        folder = todo.pop()
        try:
            entries = list(os.scandir(folder))
        except PermissionError:
            folder.chmod(0o755)
            entries = list(os.scandir(folder))
        for entry in entries:
            place = Path(entry.path)
            path, mode = str(place.relative_to(root)), entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                if entry.name not in DERIVED:
                    todo.append(place)
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) or path.encode("utf-8", "replace").decode() != path:
                continue
            size += entry.stat(follow_symlinks=False).st_size
            if len(found) >= max_files or size > max_bytes:
                return None
            if stat.S_ISLNK(mode):
                found[path] = [path, "l", str(place.readlink())]
            else:
                if not mode & stat.S_IRUSR:
                    place.chmod(0o644)
                content = base64.b64encode(place.read_bytes()).decode()
                found[path] = [path, "x" if mode & stat.S_IXUSR else "-", content]
    return found


def read_line(lines: BinaryIO) -> bytes:
    """The next line; empty at the end."""
    return lines.readline()


def write_all(channel: BinaryIO, data: bytes) -> None:
    """Write to an unbuffered file, which may take less than it is given."""
    view = memoryview(data)
    while view:
        view = view[channel.write(view) :]

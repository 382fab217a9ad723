"""Both sides of a repository's verdict: files that one side changes appear on the other, by value. And what both know of
objects that stay where they are."""

import base64
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenmill.tools_repo.code.guests.values import Unsendable  # ours, sent along

MAX_MIRRORED = 8 << 20
"""Bytes of files that one message carries."""
_UNARY = "len iter next reversed bool int float complex index abs neg pos invert round floor ceil trunc str repr bytes fspath"
_ITEMS = "call contains getitem setitem delitem enter exit await aenter aexit aiter anext hash format"
COMPARED = tuple(f"__{name}__" for name in ["eq", "ne", "lt", "le", "gt", "ge"])
_ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor"]
_ARITHMETIC += ["lshift", "rshift"]
COMPUTED = tuple(
    f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r", "i") if (side, name) != ("i", "divmod")
)
SPECIALS = (*(f"__{name}__" for name in f"{_UNARY} {_ITEMS}".split()), *COMPARED, *COMPUTED)
"""Methods that Python calls of itself, as far as they pass between the sandboxes."""


def specials(kind: type[Any]) -> list[str]:
    """Those that a class has beyond what every object has."""
    own = {name for each in kind.__mro__ if each is not object for name in vars(each)}
    return [name for name in SPECIALS if name in own]


class Mirror:
    """Notices what changes below some folders, and applies what changed on the other side."""

    def __init__(self, roots: tuple[str, ...], refused: Callable[[str], bool]) -> None:
        self.roots = roots
        self.refused = refused
        """Paths that the other side may not change."""
        self.written = False
        """Whether this process may have written anything since it began; until then nobody looks."""
        self.known = self._look()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, given: tuple[Any, ...]) -> None:
        if self.written:
            return
        if event == "open":
            flags = given[2] if len(given) > 2 and isinstance(given[2], int) else 0
            temporary = getattr(os, "O_TMPFILE", 0)
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or flags & temporary == temporary:
                return
            path = os.path.abspath(os.fsdecode(given[0])) if isinstance(given[0], (str, bytes)) else ""  # noqa: PTH100
            self.written = path.startswith(self.roots)
        elif event.partition(".")[0] in ("os", "shutil", "subprocess", "sqlite3", "ctypes", "mmap"):
            self.written = event not in (
                "os.listdir",
                "os.scandir",
                "os.walk",
                "os.putenv",
                "os.unsetenv",
                "os.getxattr",
            )

    def _look(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        todo = list(self.roots)
        while todo:
            try:
                entries = list(os.scandir(todo.pop()))
            except OSError:
                continue
            for entry in entries:
                told = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(told.st_mode):
                    if entry.name != "__pycache__":
                        found[entry.path] = (told.st_mode,)
                        todo.append(entry.path)
                else:
                    found[entry.path] = (told.st_mode, told.st_ino, told.st_size, told.st_mtime_ns)
        return found

    def changes(self) -> list[list[Any]]:
        """`[path, kind, mode, content]` of what is new here, `[path]` of what is gone; links are left out."""
        if not self.written:
            return []
        now, size = self._look(), 0
        told: list[list[Any]] = [[path] for path in self.known if path not in now]
        for path in sorted(now):
            if self.known.get(path) == now[path]:
                continue
            mode = now[path][0]
            if stat.S_ISDIR(mode):
                told.append([path, "d", mode & 0o777])
            elif stat.S_ISREG(mode):
                size += now[path][2]
                if size > MAX_MIRRORED:
                    raise Unsendable(f"more than {MAX_MIRRORED} bytes in files")
                told.append([path, "f", mode & 0o777, base64.b64encode(Path(path).read_bytes()).decode()])
        self.known = now
        return told

    def apply(self, changes: list[list[Any]]) -> None:
        """Make what changed on the other side so here. Raises: ValueError: a path leads elsewhere."""
        if not changes:
            return
        for path, *rest in changes:
            place = Path(path)
            inside = os.path.realpath(place.parent)
            if os.path.normpath(path) != path or not f"{inside}/".startswith(tuple(f"{root}/" for root in self.roots)):
                raise ValueError(f"a file at {path[:200]}")
            if self.refused(path):
                continue
            if not rest:
                if place.is_dir() and not place.is_symlink():
                    shutil.rmtree(place, ignore_errors=True)
                else:
                    place.unlink(missing_ok=True)
                continue
            if place.is_symlink() or (place.exists() and place.is_dir() != (rest[0] == "d")):
                continue
            if rest[0] == "d":
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(base64.b64decode(rest[2]))
            place.chmod(rest[1] & 0o777 | 0o600)
        self.known = self._look()

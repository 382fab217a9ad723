"""The files of one trajectory, held in memory: paths are names here, never places on this machine."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tokenmill.schemas.code import CodeFile
from tokenmill.tools_repo.sandbox.base import MIB

MAX_BYTES = 16 * MIB
MAX_FILES = 4000
_MAX_HOPS = 20
_MAX_SHOWN = 64 * 1024
"""Longer files stand in a state by their hash alone."""


class PathRefused(ValueError):
    """A path that leads out of the workspace, or that no file can have."""


class WorkspaceFull(ValueError):
    """The files are too many or too large."""


@dataclass(frozen=True)
class Entry:
    """A file or a symbolic link."""

    content: bytes = b""
    executable: bool = False
    link: str | None = None
    """Target of a link; such an entry has no content."""

    @property
    def record(self) -> dict[str, Any]:
        """The entry as a state shows it."""
        if self.link is not None:
            return {"link": self.link}
        record: dict[str, Any] = {"sha256": hashlib.sha256(self.content).hexdigest(), "bytes": len(self.content)}
        if self.executable:
            record["executable"] = True
        text = _text(self.content)
        return record if text is None else {**record, "content": text}


def _text(content: bytes) -> str | None:
    if len(content) > _MAX_SHOWN or b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def normal(path: str) -> str:
    """The path with `.` and `..` and doubled slashes resolved.

    Raises:
        PathRefused: it is absolute, empty, leads out, or cannot name a file.
    """
    if not path or "\0" in path or len(path) > 1000:
        raise PathRefused(f"{path[:80]!r} is no path")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise PathRefused(f"{path[:80]!r} is no path") from None
    if path.startswith("/"):
        raise PathRefused(f"{path[:200]} is outside the workspace")
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == "..":
            if not parts:
                raise PathRefused(f"{path[:200]} is outside the workspace")
            parts.pop()
        elif len(part.encode()) > 255:
            raise PathRefused(f"{part[:80]}… is too long a name")
        else:
            parts.append(part)
    if not parts:
        raise PathRefused(f"{path[:200]} is the workspace itself")
    return "/".join(parts)


class Workspace(Mapping[str, Entry]):
    """Files by path. Immutable: every change is a new workspace, sharing what did not change."""

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        """Raises: PathRefused, WorkspaceFull."""
        self._entries = dict(sorted((entries or {}).items()))
        if len(self._entries) > MAX_FILES:
            raise WorkspaceFull(f"{len(self._entries)} files, more than {MAX_FILES}")
        size = sum(len(entry.content) for entry in self._entries.values())
        if size > MAX_BYTES:
            raise WorkspaceFull(f"{size} bytes, more than {MAX_BYTES}")
        for path in self._entries:
            if normal(path) != path:
                raise PathRefused(f"{path[:200]!r} is not written plainly")
            for parent in list(PurePosixPath(path).parents)[:-1]:
                if str(parent) in self._entries:
                    raise PathRefused(f"{path[:200]}: {parent} is no folder")

    @classmethod
    def of(cls, files: Iterable[CodeFile]) -> Workspace:
        """The workspace of text files.

        Raises:
            PathRefused, WorkspaceFull
        """
        return cls({normal(file.path): Entry(file.content.encode("utf-8", "replace")) for file in files})

    def __getitem__(self, path: str) -> Entry:
        return self._entries[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workspace) and self._entries == other._entries

    def changed(self, changes: Mapping[str, Entry | None]) -> Workspace:
        """With entries put in, or taken out where None is given. Raises: PathRefused, WorkspaceFull."""
        entries = {path: entry for path, entry in self._entries.items() if path not in changes}
        entries.update({path: entry for path, entry in changes.items() if entry is not None})
        return Workspace(entries)

    def resolve(self, path: str) -> str:
        """The path with every link on the way followed, inside the workspace.

        Raises:
            PathRefused: it leads out, or in circles.
        """
        todo = list(PurePosixPath(normal(path)).parts)
        done: list[str] = []
        hops = 0
        while todo:
            done.append(todo.pop(0))
            entry = self._entries.get("/".join(done))
            if entry is not None and entry.link is not None:
                hops += 1
                if hops > _MAX_HOPS:
                    raise PathRefused(f"{path[:200]}: too many levels of symbolic links")
                done.pop()
                target = "/".join([*done, entry.link]) if not entry.link.startswith("/") else entry.link
                todo = [*PurePosixPath(normal(target)).parts, *todo]
                done = []
        return "/".join(done)

    def folder(self, path: str) -> list[str]:
        """Names directly below a folder, sorted, folders with a slash at their end; empty when there is no such folder."""
        prefix = "" if path in ("", ".") else f"{path}/"
        below = (p[len(prefix) :] for p in self._entries if p.startswith(prefix))
        return sorted({name.split("/", 1)[0] + ("/" if "/" in name else "") for name in below})

    @property
    def state(self) -> dict[str, dict[str, Any]]:
        """`{path: {"sha256", "bytes", "content"} or {"link"}}`; content of text files of up to 64 KiB only."""
        return {path: entry.record for path, entry in self._entries.items()}

    def to_wire(self) -> list[list[str]]:
        """The entries as guests read them: [path, mode, content], content in base64."""
        return [_to_wire(path, entry) for path, entry in self._entries.items()]


def _to_wire(path: str, entry: Entry) -> list[str]:
    if entry.link is not None:
        return [path, "l", entry.link]
    return [path, "x" if entry.executable else "-", base64.b64encode(entry.content).decode()]


def from_wire(rows: Any) -> dict[str, Entry]:
    """Entries as a guest sent them, which nobody vouches for.

    Raises:
        ValueError: they are not what a guest of ours sends.
    """
    if not isinstance(rows, list) or len(rows) > MAX_FILES:
        raise ValueError("no list of files")
    entries = {}
    for row in rows:
        if not (isinstance(row, list) and len(row) == 3 and all(isinstance(part, str) for part in row)):
            raise ValueError("no file")
        path, mode, content = row
        try:
            entries[normal(path)] = (
                Entry(link=content[:1000])
                if mode == "l"
                else Entry(base64.b64decode(content, validate=True), executable=mode == "x")
            )
        except binascii.Error as error:
            raise ValueError(f"{path[:80]}: {error}") from None
    return entries

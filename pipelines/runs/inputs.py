"""What a run is to read: files found, formats known, columns there, contents identified; all before any money is spent."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from tokenmill.pipelines.runs import hub_input, input_columns
from tokenmill.pipelines.runs.errors import UsageError, line_of
from tokenmill.pipelines.runs.exit import OK, say
from tokenmill.pipelines.runs.folder import BESIDE, KINDS, MANIFEST
from tokenmill.pipelines.transforms.bounded import check_parquet
from tokenmill.pipelines.transforms.files import absolute, is_local
from tokenmill.pipelines.transforms.sources import (
    FORMATS,
    HTML_FILES,
    PARQUET,
    TEXT,
    Parser,
    Piece,
    RawRows,
    ends_with,
    raw_rows,
)

HASHED_BYTES = 4_000_000_000
"""Local input up to this size is identified by its content, more (or remote input) by names, sizes and times."""
COUNTED_LINE = 1 << 20
"""Bytes of a line that are held where lines are only counted."""
PIECES, SMALLEST_PIECE, LARGEST_PIECE = 64, 1 << 15, 1 << 23
"""A file is cut into about so many pieces, within these sizes in bytes, so that all workers get their share of it."""
GROUP_PIECES, SMALLEST_GROUP_PIECE = 16, 1 << 18
"""The same for a row group of a Parquet file; each piece unpacks what stands before it, too, so there are fewer."""
OPENED = 32
"""Files elsewhere that are looked into at a time."""


@dataclass(frozen=True)
class InputFile:
    path: str
    name: str
    """Relative to the inputs' common folder, as rows carry it."""
    size: int
    stamp: str
    """Identifies the content: SHA-256, or size and time."""

    def absolute(self) -> InputFile:
        return dataclasses.replace(self, path=absolute(self.path))


@dataclass(frozen=True)
class Inputs:
    files: tuple[InputFile, ...]
    pieces: tuple[Piece, ...]
    rows: int | None
    """Rows to read, where that is known without reading everything."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def absolute(self) -> Inputs:
        """The same for workers that were not started in this folder."""
        pieces = tuple(dataclasses.replace(piece, path=absolute(piece.path)) for piece in self.pieces)
        return Inputs(tuple(file.absolute() for file in self.files), pieces, self.rows)

    def manifest(self, counters: dict[str, int]) -> list[dict[str, Any]]:
        """What was read, for the manifest; rows by file where they were counted."""
        return [
            {"file": f.name, "bytes": f.size, "rows": counters.get(f"read from {f.name}"), "stamp": f.stamp}
            for f in self.files
        ]


def find(
    globs: Sequence[str],
    *,
    limit: int | None = None,
    formats: tuple[str, ...] = FORMATS,
    read: Callable[[Piece, tuple[str, ...] | None, int], RawRows] = raw_rows,
) -> Inputs:
    """All files that the patterns match, in order of their names; a finished run's folder stands for its data.

    Args:
        formats: endings of the files that the job reads.
        read: gives their rows.

    Raises:
        UsageError: nothing matches, or a file's format is unknown.
    """
    found: dict[str, tuple[int, float]] = {}
    for pattern in globs:
        if pattern.startswith(hub_input.PREFIX):
            found.update(
                {path: (size, time) for path, size, time in map(_about, map(Path, hub_input.fetched(pattern)))}
            )
            continue
        matched = _match(pattern, formats)
        if not matched:
            raise UsageError(f"--input {pattern}: no such file")
        found.update({path: (size, time) for path, size, time in matched})
    for path in found:
        if not ends_with(path, formats):
            raise UsageError(f"--input {path}: unknown format; known are {', '.join(formats)}")
    names = _names(found)
    paths = list(names)
    hashed = all(is_local(p) for p in paths) and sum(size for size, _ in found.values()) <= HASHED_BYTES
    files, counted = [], {}
    for path in paths:
        size, time = found[path]
        if hashed:
            stamp, counted[path] = _digest(path, size)
        else:
            stamp = f"{size} bytes, modified {time:.0f}"
        files.append(InputFile(path, names[path], size, stamp))
    pieces, rows = _pieces(files, counted, limit, read)
    return Inputs(tuple(files), tuple(pieces), rows)


def _match(pattern: str, formats: tuple[str, ...]) -> list[tuple[str, int, float]]:
    """(path, bytes, time) of each file. What is there under this very name is taken before it is read as a pattern."""
    if is_local(pattern):
        here = Path(pattern)
        if here.is_file():
            return [_about(here)]
        if here.is_dir():
            if (here / MANIFEST).is_file():
                if shards := sorted((here / "data").glob("*.parquet")):
                    return [_about(shard) for shard in shards]
                raise UsageError(f"--input {pattern}: is a finished run that kept no rows")
            hint = f"name its files, such as '{pattern.rstrip('/')}/*.parquet'"
            raise UsageError(f"--input {pattern}: is a folder; {hint}")
    try:
        if is_local(pattern):
            # Beam looks for `*.jsonl` nowhere, but for `./*.jsonl` here.
            whole = str(here) if here.is_absolute() else f"./{here}"
        else:
            finished = not ends_with(pattern, formats) and FileSystems.exists(FileSystems.join(pattern, MANIFEST))
            whole = FileSystems.join(pattern, "data", "*.parquet") if finished else pattern
        (result,) = FileSystems.match([whole])
    except Exception as error:
        raise UsageError(f"--input {pattern}: {line_of(error)}") from None
    found = [
        (str(Path(m.path)) if is_local(m.path) else m.path, m.size_in_bytes, m.last_updated_in_seconds or 0.0)
        for m in result.metadata_list
        if m.size_in_bytes is not None
    ]
    unmeant = _unmeant(pattern, [path for path, _, _ in found])
    if unmeant:
        say(f"--input {pattern}: left out {', '.join(sorted(unmeant))}: what a finished run did not keep", OK)
    return [file for file in found if posixpath.dirname(file[0]) not in unmeant]


def _unmeant(pattern: str, paths: Iterable[str]) -> set[str]:
    """Folders of refused and failed rows that a pattern takes in without naming them: a finished run means its data."""
    folders = {posixpath.dirname(path) for path in paths}
    return {
        folder
        for folder in folders
        if posixpath.basename(folder) in (*KINDS[1:], *BESIDE)
        and posixpath.basename(folder) not in pattern.split("/")
        and FileSystems.exists(FileSystems.join(posixpath.dirname(folder), MANIFEST))
    }


def _about(file: Path) -> tuple[str, int, float]:
    about = file.stat()
    return str(file), about.st_size, about.st_mtime


def _names(paths: Iterable[str]) -> dict[str, str]:
    """Each file once, however often and in whatever spelling it is among the paths, with its name relative to the common
    folder, in order of the names. The spelling does not change the names, which ids are made of."""
    paths = list(paths)
    local = all(map(is_local, paths))
    spelled: dict[str, str] = {}
    for path in paths:
        whole = os.path.abspath(path) if local else path  # noqa: PTH100 - a link keeps the name that it is given by
        spelled.setdefault(whole, path)
    root = _common_folder(sorted(spelled), local)
    return {spelled[whole]: whole[len(root) :].lstrip("/") for whole in sorted(spelled)}


def _common_folder(paths: Sequence[str], local: bool) -> str:
    if len(paths) == 1:
        return posixpath.dirname(paths[0])
    return posixpath.commonpath(paths) if local else posixpath.commonprefix(paths).rpartition("/")[0]


@dataclass(frozen=True)
class _Lines:
    """What one pass over a local file tells of its lines."""

    count: int
    cuts: tuple[tuple[int, int], ...]
    """(offset in bytes, line) at which the file may be cut, the beginning first."""


def _digest(path: str, size: int) -> tuple[str, _Lines]:
    """SHA-256 of a local file, its number of lines and where to cut it, in one pass."""
    sha, lines, position, begun = hashlib.sha256(), 0, 0, False
    step = min(LARGEST_PIECE, max(SMALLEST_PIECE, size // PIECES))
    cuts = [(0, 0)]
    try:
        with Path(path).open("rb") as file:
            while block := file.read(SMALLEST_PIECE):
                sha.update(block)
                last = block.rfind(b"\n")
                if last >= 0 and position + last + 1 - cuts[-1][0] >= step:
                    cuts.append((position + last + 1, lines + block.count(b"\n", 0, last + 1)))
                lines += block.count(b"\n")
                position += len(block)
                rest = block[last + 1 :]
                begun = (begun and last < 0) or (rest != b"" and not rest.isspace())
    except OSError as error:
        raise UsageError(f"--input {path}: {error.strerror}") from None
    if cuts[-1][0] >= position and len(cuts) > 1:
        cuts.pop()
    return sha.hexdigest(), _Lines(lines + begun, tuple(cuts))


def _pieces(
    files: Sequence[InputFile],
    counted: dict[str, _Lines],
    limit: int | None,
    read: Callable[[Piece, tuple[str, ...] | None, int], RawRows],
) -> tuple[list[Piece], int | None]:
    """Work for the readers. With a limit, rows are allotted file by file, in order, until it is reached."""
    pieces: list[Piece] = []
    groups = _row_groups(files)
    left = limit
    total: int | None = 0
    for file in files:
        if left == 0:
            break
        if ends_with(file.path, PARQUET):
            first = 0
            for group, (rows, size) in enumerate(groups[file.path]()):
                take = rows if left is None else min(left, rows)
                if take:
                    pieces += _cut_group(file, group, first, rows, size, take)
                    total = None if total is None else total + take
                    left = None if left is None else left - take
                first += rows
        elif left is None:
            pieces += _cut(file, counted.get(file.path))
            if total is not None:
                if ends_with(file.path, (*TEXT, *HTML_FILES)):
                    total += 1
                elif ends_with(file.path, (".gz", ".zst", ".warc")) or file.path not in counted:
                    total = None
                else:
                    total += counted[file.path].count
        else:
            for whole in _cut(file, counted.get(file.path)):
                if left == 0:
                    break
                piece = dataclasses.replace(whole, rows=left)
                rows = sum(1 for _ in read(piece, (), COUNTED_LINE))
                pieces.append(piece)
                total = None if total is None else total + rows
                left -= rows
    return pieces, total


def _cut(file: InputFile, lines: _Lines | None) -> list[Piece]:
    """A text or JSONL file in pieces; what is compressed or not on this machine stays whole."""
    if lines is None or not ends_with(file.path, (".jsonl", ".ndjson")):
        return [Piece(file.path, file.name, heavy=file.size > LARGEST_PIECE and not ends_with(file.path, TEXT))]
    ends = [offset for offset, _ in lines.cuts[1:]] + [-1]
    return [
        Piece(file.path, file.name, first_row=line, offset=offset, end=end)
        for (offset, line), end in zip(lines.cuts, ends, strict=True)
    ]


def _cut_group(file: InputFile, group: int, first: int, rows: int, size: int, take: int) -> list[Piece]:
    """The first `take` of the rows of a row group, which begins with row `first` of the file and has `size` bytes unpacked."""
    count = max(1, min(GROUP_PIECES, size // SMALLEST_GROUP_PIECE, rows))
    step = -(-rows // count)
    return [
        Piece(file.path, file.name, group, skip, first + skip, min(step, take - skip)) for skip in range(0, take, step)
    ]


RowGroups = list[tuple[int, int]]
"""(rows, bytes unpacked) of each row group of a file."""


def _row_groups(files: Sequence[InputFile]) -> dict[str, Callable[[], RowGroups]]:
    """The row groups of the Parquet files, by path. Footers of files elsewhere are read many at a time, since each takes as
    long as its store takes to answer."""
    parquet = [file for file in files if ends_with(file.path, PARQUET)]
    if all(is_local(file.path) for file in parquet):
        return {file.path: functools.partial(_footer, file) for file in parquet}
    with ThreadPoolExecutor(OPENED, "tokenmill-footers") as pool:
        return {file.path: pool.submit(_footer, file).result for file in parquet}


def _footer(file: InputFile) -> RowGroups:
    """
    Raises:
        UsageError: it is not readable as Parquet.
    """
    try:
        with FileSystems.open(file.path, compression_type=CompressionTypes.UNCOMPRESSED) as raw:
            metadata = pq.read_metadata(raw)
            check_parquet(metadata, file.size)
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            return [(group.num_rows, group.total_byte_size) for group in groups]
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"--input {file.path}: not readable as Parquet: {line_of(error)}") from None


def check_columns(inputs: Inputs, parser: Parser[Any]) -> None:
    """The columns that the job needs are in every file, as far as its schema or first rows show; of several named
    together, one. Those of texts hold text.

    Raises:
        UsageError: one is missing or cannot hold text, or the beginning of a file is not readable at all.
    """
    files = [file for file in inputs.files if not ends_with(file.path, TEXT)]
    here = all(is_local(file.path) for file in files)
    with contextlib.nullcontext() if here else ThreadPoolExecutor(OPENED, "tokenmill-columns") as pool:
        look = pool.map if pool else map
        for file, present in zip(
            files, look(lambda file: input_columns.columns_of(file.path, file.name), files), strict=True
        ):
            if present is not None:
                input_columns.check(file.path, present, parser)

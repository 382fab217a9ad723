"""The output folder, on any Beam filesystem: what may be touched, how shards become final, when a run counts as finished."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from tokenmill.pipelines.report.formatting import by_count
from tokenmill.pipelines.runs.errors import RowsMissing, UsageError, line_of
from tokenmill.pipelines.transforms import PAIRS
from tokenmill.pipelines.transforms.counts import FILE as COUNTS
from tokenmill.pipelines.transforms.files import (
    delete_file,
    delete_folder,
    files_in,
    folder_exists,
    is_local,
    replace_file,
    whole_path,
)
from tokenmill.pipelines.transforms.sinks import EMPTY, Shard, describe

KINDS = ("data", "rejected", "failed")
BESIDE = (PAIRS,)
"""Folders of rows that stand beside those of `KINDS`, in runs that make any."""
WORK = ".unfinished"
"""Holds everything until the run is complete. Its presence without a manifest marks a run that can be resumed."""
OURS = "tokenmill.json"
"""Within `WORK`: says that a run of ours made it. Without, the folder is somebody else's of that name."""
MANIFEST = "manifest.json"
ASKED = 32
"""Files whose descriptions are read at a time."""
PAGES = ("README.md", "report.html")


@dataclass(frozen=True)
class OutputFolder:
    """An output folder by its path or URL.

    Raises:
        UsageError: a URL with characters that mean a pattern to an object store, or of a store that is not installed here.
    """

    path: str

    def __post_init__(self) -> None:
        if self.local:
            return
        if set(self.path) & set("*?[]"):
            raise UsageError(f"--output {self.path}: a URL must be without * ? [ ]")
        try:
            FileSystems.get_filesystem(self.path)
        except ValueError as error:
            raise UsageError(f"--output {self.path}: cannot be read: {line_of(error)}") from None

    @property
    def local(self) -> bool:
        return is_local(self.path)

    def at(self, *names: str) -> str:
        return FileSystems.join(self.path, *names)

    def manifest(self) -> dict[str, Any] | None:
        """The manifest of a finished run, None where there is none.

        Raises:
            UsageError: there is a manifest.json that is none of ours, or the folder cannot be looked into.
        """
        try:
            if not FileSystems.exists(self.at(MANIFEST)):
                return None
            with FileSystems.open(self.at(MANIFEST), compression_type=CompressionTypes.UNCOMPRESSED) as file:
                content = file.read()
        except Exception as error:  # each filesystem has errors of its own
            raise UsageError(f"--output {self.path}: cannot be read: {line_of(error)}") from None
        try:
            manifest = orjson.loads(content)
        except ValueError:
            raise UsageError(
                f"--output {self.path}: its manifest.json is not readable; choose another folder"
            ) from None
        counts = manifest.get("counts") if isinstance(manifest, dict) else None
        if not isinstance(counts, dict) or not {"accepted", "rejected", "failed"} <= counts.keys():
            raise UsageError(f"--output {self.path}: its manifest.json is no run's of ours; choose another folder")
        return manifest

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs on this machine out of the folder. Folders elsewhere are the user's care."""
        if not self.local:
            yield
            return
        try:
            Path(self.path).mkdir(parents=True, exist_ok=True)
            handle = os.open(Path(self.path, ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"--output {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise UsageError(f"--output {self.path}: another run is writing there") from None
        try:
            yield
        finally:
            os.close(handle)

    def check_ours(self) -> None:
        """
        Raises:
            UsageError: there is something that a run would replace, and no run of ours made it.
        """
        if self.manifest() is not None:
            return
        if folder_exists(self.at(WORK)):
            if FileSystems.exists(self.at(WORK, OURS)):
                return
            raise UsageError(
                f"--output {self.path}: {WORK}/ is there but no run of ours made it; remove it or choose another folder"
            )
        there = [f"{kind}/" for kind in (*KINDS, *BESIDE) if folder_exists(self.at(kind))]
        there += [page for page in PAGES if FileSystems.exists(self.at(page))]
        if there:
            raise UsageError(
                f"--output {self.path}: {there[0]} is there but no manifest of ours; choose another folder"
            )

    def check_apart(self, inputs: Iterable[str]) -> None:
        """
        Raises:
            UsageError: one of these files would be replaced by a run.
        """
        written = [whole_path(self.at(name)) for name in (*KINDS, *BESIDE, WORK, MANIFEST, *PAGES)]
        for path in inputs:
            whole = whole_path(path)
            if any(whole == place or whole.startswith(f"{place}/") for place in written):
                raise UsageError(f"--output {self.path}: the input {path} lies there; choose another folder")

    def begin(self) -> None:
        """Make an empty work folder. Rows of an earlier, unfinished try are dropped; its answers are in the cache.

        Raises:
            UsageError: the folder cannot be written, or holds data that no run of ours made.
        """
        self.check_ours()
        try:
            self.claim()
            delete_file(self.at(WORK, COUNTS))
            for kind in (*KINDS, *BESIDE):
                delete_folder(self.at(WORK, kind))
                FileSystems.mkdirs(self.at(WORK, kind))
        except Exception as error:
            raise UsageError(f"--output {self.path}: cannot be written: {line_of(error)}") from None

    def claim(self) -> None:
        """Mark the folder as that of a run of ours, which is not finished.

        Raises:
            OSError: it cannot be written.
        """
        if self.local:
            Path(self.path, WORK).mkdir(parents=True, exist_ok=True)
        if not FileSystems.exists(self.at(WORK, OURS)):
            self.write(f"{WORK}/{OURS}", b'{"program": "tokenmill"}\n')

    def unfinished(self, kind: str) -> list[str]:
        """Complete shards of one kind in the work folder, in shard order."""
        return files_in(self.at(WORK, kind), ".parquet")

    def publish(self) -> list[dict[str, Any]]:
        """Move the shards to their final names: `{"file", "rows", "bytes", "sha256"}` of each.

        From here on until the manifest is written the folder holds shards without a manifest: unfinished.
        """
        delete_file(self.at(MANIFEST))
        files = []
        for kind in (*KINDS, *BESIDE):
            shards = self.unfinished(kind) or files_in(self.at(WORK, kind), EMPTY)
            delete_folder(self.at(kind))
            if not shards:
                continue
            FileSystems.mkdirs(self.at(kind))
            names = [f"train-{number:05d}-of-{len(shards):05d}.parquet" for number in range(len(shards))]
            told = describe_all(shards)
            FileSystems.rename(shards, [self.at(kind, name) for name in names])
            files += [{"file": f"{kind}/{name}", **one._asdict()} for name, one in zip(names, told, strict=True)]
        return files

    def write(self, name: str, content: bytes) -> None:
        """Write a small file whole or not at all."""
        part = self.at(f"{name}.part")
        with FileSystems.create(part, mime_type="application/octet-stream", compression_type="uncompressed") as file:
            file.write(content)
        replace_file(part, self.at(name))

    def end(self) -> None:
        """Remove the work folder, if it is there.

        Raises:
            OSError: something in it cannot be deleted.
        """
        delete_folder(self.at(WORK))


def describe_all(paths: list[str]) -> list[Shard]:
    """What the workers that wrote these shards say of them; many at a time, since a store takes a while to answer."""
    with ThreadPoolExecutor(ASKED, "tokenmill-shards") as pool:
        return list(pool.map(describe, paths))


def count_column(paths: list[str], name: str) -> dict[str, int]:
    """How often each value of a text column occurs in Parquet files, most frequent first; nothing where there is none."""
    counts: Counter[str] = Counter()
    for path in paths:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            parquet = pq.ParquetFile(file)
            if name not in parquet.schema_arrow.names:
                continue
            column = parquet.read(columns=[name])[name]
        for pair in column.value_counts().to_pylist():
            counts[pair["values"] or ""] += pair["counts"]
    return dict(by_count(counts))


def an_example(paths: list[str], error: str) -> str:
    """The message of one row with this error, from Parquet files of failed rows; empty where there is none."""
    for path in paths:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            parquet = pq.ParquetFile(file)
            for batch in parquet.iter_batches(columns=["error", "message"]):
                for row in batch.to_pylist():
                    if row["error"] == error:
                        return row["message"]
    return ""


def check_sum(counts: dict[str, int], tasks_per_row: int) -> None:
    """Every input row ends in exactly one place; `extra` rows are those beyond one for each task.

    Raises:
        RowsMissing: or doubled.
    """
    tasks = (counts["read"] - counts["unreadable"]) * tasks_per_row
    expected = tasks + counts["unreadable"] + counts.get("extra", 0)
    found = counts["accepted"] + counts["rejected"] + counts["failed"]
    if tasks != counts["tasks"] or found != expected:
        raise RowsMissing(
            f"the rows do not add up: {counts['read']} read, {counts['unreadable']} of them unreadable, {tasks_per_row} "
            f"tasks each make {expected} rows, but {counts['accepted']} accepted + {counts['rejected']} rejected + "
            f"{counts['failed']} failed are {found}. The shards are left in {WORK}/"
        )

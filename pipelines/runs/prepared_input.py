"""Rows that a job makes before its run: they are its input, kept in the output folder."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.inputs import Inputs, find
from tokenmill.pipelines.runs.options import RunOptions
from tokenmill.pipelines.transforms.files import is_local, replace_file
from tokenmill.schemas.columns import to_table


def made_input(
    options: RunOptions,
    folder: str,
    shape: Any,
    rows: Callable[[], Sequence[Any]],
    row_type: type,
    *,
    group: int = 1000,
) -> Inputs:
    """Write rows where workers can read them; they are the run's input. Rows of the same shape that stand there from an
    earlier try are taken as they are.

    Args:
        folder: within the output, where they are kept; a preview or an estimate keeps them in a temporary folder.
        shape: all that decides which rows these are, as JSON can write it.
        rows: makes them, in the order in which they are to be read.
        group: rows in a row group, which one worker reads at a time.

    Raises:
        UsageError: they cannot be written; and what `rows` raises.
    """
    seen = options.preview or options.estimate
    parent = OutputFolder(options.output).at(folder) if options.output and not seen else _temporary()
    path = FileSystems.join(parent, f"{hashlib.sha256(orjson.dumps(shape)).hexdigest()[:16]}.parquet")
    if not FileSystems.exists(path):
        table = to_table(rows(), row_type)
        try:
            if is_local(parent):
                Path(parent).mkdir(parents=True, exist_ok=True)
            part = f"{path}.part-{os.getpid()}"
            with FileSystems.create(part, "application/octet-stream", compression_type="uncompressed") as file:
                pq.write_table(table, file, row_group_size=group, compression="zstd")
            replace_file(part, path)
        except OSError as error:
            raise UsageError(f"--output {parent}: {error.strerror or error}") from None
    return find([path], limit=options.limit)


def _temporary() -> str:
    folder = tempfile.mkdtemp(prefix="tokenmill-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

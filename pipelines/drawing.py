"""Draws the tool-sets of `agentic agents` before the run: they are its input, kept in the output folder."""

from __future__ import annotations

import argparse
import asyncio
import atexit
import hashlib
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from judges.similarity import Embedder
from pipelines.agentic_flags import MAX_ROW_BYTES
from pipelines.runs import inputs
from pipelines.runs.errors import UsageError
from pipelines.transforms.records import RecordParser
from pipelines.transforms.sources import Parser, RowUnreadable, raw_rows
from pipelines.transforms.tools import ToolParser, validated
from schemas.agentic import Domain
from schemas.columns import to_table
from schemas.tools import RefusedTool, ToolSpec
from schemas.toolsets import ToolSet
from tools_repo.likeness import describe
from tools_repo.toolsets import Sampling, draw_toolsets

FOLDER = "tool_sets"
"""Folder within the output in which the tool-sets are kept."""
PIECE = 64
"""Tool-sets in a row group, which one worker reads at a time."""
MANY = 2_000
"""Tools whose embedding takes long enough to say so."""


@dataclass(frozen=True)
class Drawn:
    """What was drawn from."""

    stamps: list[list[str]]
    """[name, stamp] of the files that the tools and domains come from."""
    notes: tuple[str, ...]


def draw(args: argparse.Namespace, sampling: Sampling) -> Drawn:
    """Draw the tool-sets, write them where workers can read them and make them the run's input. A draw that stands there
    from an earlier try is taken as it is.

    Raises:
        UsageError: a file cannot be read, no tool is valid, or there is no such embedding model.
    """
    found = inputs.find(args.input)
    inputs.check_columns(found, ToolParser())
    worlds = inputs.find(args.domains) if args.domains else None
    if worlds is not None:
        inputs.check_columns(worlds, RecordParser(Domain))
    files = [*found.files, *(worlds.files if worlds else ())]
    stamps = [[file.name, file.stamp] for file in files]
    shape = orjson.dumps([stamps, asdict(sampling), args.agents, args.seed, args.embedding_model])
    name = f"{hashlib.sha256(shape).hexdigest()[:16]}.parquet"
    kept = args.output and not args.preview and not args.estimate
    folder = FileSystems.join(args.output.rstrip("/"), FOLDER) if kept else _temporary()
    path = FileSystems.join(folder, name)
    notes: list[str] = []
    if not FileSystems.exists(path):
        tools, left_out = _tools(found)
        if left_out:
            notes.append(f"{left_out:,} rows of --tools are no valid tools, or repeat an id, and were left out")
        sets = draw_toolsets(
            tools,
            args.agents,
            sampling,
            seed=args.seed,
            vectors=_vectors(tools, args.embedding_model),
            domains=_rows(worlds, RecordParser(Domain)) if worlds else (),
        )
        _write(list(sets), folder, path)
    args.input = [path]
    return Drawn(stamps, tuple(notes))


def _write(sets: list[ToolSet], folder: str, path: str) -> None:
    try:
        if "://" not in folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
        part = f"{path}.part-{os.getpid()}"
        with FileSystems.create(part, mime_type="application/octet-stream", compression_type="uncompressed") as file:
            pq.write_table(to_table(sets, ToolSet), file, row_group_size=PIECE, compression="zstd")
        if FileSystems.exists(path):
            FileSystems.delete([path])
        FileSystems.rename([part], [path])
    except OSError as error:
        raise UsageError(f"--output {folder}: {error.strerror or error}") from None


def _temporary() -> str:
    folder = tempfile.mkdtemp(prefix="tokenmill-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _rows(found: inputs.Inputs, parser: Parser) -> list[Any]:
    """All readable rows of an input, in order."""
    rows = []
    for piece in found.pieces:
        for number, values in raw_rows(piece, parser.columns, MAX_ROW_BYTES):
            if isinstance(values, RowUnreadable):
                continue
            try:
                rows.append(parser(values, piece.name, number))
            except RowUnreadable:
                continue
    return rows


def _tools(found: inputs.Inputs) -> tuple[list[ToolSpec], int]:
    """The valid tools, each id once, and how many rows are left out.

    Raises:
        UsageError: none is left.
    """
    tools: dict[str, ToolSpec] = {}
    rows = 0
    for piece in found.pieces:
        for number, values in raw_rows(piece, ToolParser.columns, MAX_ROW_BYTES):
            rows += 1
            try:
                if isinstance(values, RowUnreadable):
                    continue
                tool = validated(ToolParser()(values, piece.name, number))
            except RowUnreadable:
                continue
            if not isinstance(tool, RefusedTool):
                tools.setdefault(tool.id, tool)
    if not tools:
        raise UsageError("--tools: there is no valid tool in it")
    return list(tools.values()), rows - len(tools)


def _vectors(tools: Sequence[ToolSpec], model: str) -> Any:
    """Embeddings of the tools, made in a process of their own: this one forks workers, and must be without threads.

    Raises:
        UsageError: no such model.
    """
    if model == "none":
        return None
    if len(tools) > MANY:
        print(f"tokenmill: reading {len(tools):,} tools to find neighbours", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        try:
            return apart.submit(_embedded, model, [describe(tool) for tool in tools]).result()
        except ValueError as error:
            raise UsageError(f"--embedding-model {model}: {error}") from None


def _embedded(model: str, texts: list[str]) -> Any:
    """Unit vectors (len(texts), dimension).

    Raises:
        ValueError: no such model.
    """
    os.environ["TQDM_DISABLE"] = "1"  # the bar of loading weights, in this process of our own
    try:
        return asyncio.run(Embedder(model).embed(texts))
    except (OSError, ValueError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None

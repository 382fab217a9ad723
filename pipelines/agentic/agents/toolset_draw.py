"""Draws the tool-sets of `agentic agents` before the run: they are its input, kept in the output folder."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from typing import Any

from tokenmill.judges.embedding.similarity import Embedder
from tokenmill.pipelines.agentic.agents.options import AgentsOptions
from tokenmill.pipelines.runs import inputs
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.prepared_input import made_input
from tokenmill.pipelines.runs.read_rows import parsed_rows, tried_rows
from tokenmill.pipelines.tools.parse import ToolParser, validated
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.tools import RefusedTool, ToolSpec
from tokenmill.schemas.toolsets import ToolSet
from tokenmill.tools_repo.agents.toolsets import draw_toolsets
from tokenmill.tools_repo.specs.likeness import describe
from tokenmill.tools_repo.world.merge import worlds_of

FOLDER = "tool_sets"
"""Folder within the output in which the tool-sets are kept."""
PIECE = 64
"""Tool-sets in a row group, which one worker reads at a time."""
MANY = 2_000
"""Tools whose embedding takes long enough to say so."""


def draw(options: AgentsOptions) -> tuple[inputs.Inputs, list[list[str]], list[str]]:
    """Draw the tool-sets.

    Returns:
        The tool-sets as the run's input, [name, stamp] of the files that the tools and domains come from, and notes for
        the user.

    Raises:
        UsageError: a file cannot be read, no tool is valid, or there is no such embedding model.
    """
    found = inputs.find(options.input)
    inputs.check_columns(found, ToolParser())
    worlds = inputs.find(options.domains) if options.domains else None
    if worlds is not None:
        inputs.check_columns(worlds, RecordParser(Domain))
    stamps = [[file.name, file.stamp] for file in (*found.files, *(worlds.files if worlds else ()))]
    notes: list[str] = []

    def sets() -> list[ToolSet]:
        tools, left_out = _tools(found, options.max_document_bytes)
        if left_out:
            notes.append(f"{left_out:,} rows of --tools are no valid tools, or repeat an id, and were left out")
        domains = tuple(parsed_rows(worlds.pieces, RecordParser(Domain), options.max_document_bytes)) if worlds else ()
        _used(domains, tools)
        vectors = _vectors(tools, options.embedding_model)
        return list(
            draw_toolsets(tools, options.agents, options.draws(), seed=options.seed, vectors=vectors, domains=domains)
        )

    shape = [stamps, asdict(options.draws()), options.agents, options.seed, options.embedding_model]
    return made_input(options, FOLDER, shape, sets, ToolSet, group=PIECE), stamps, notes


def _tools(found: inputs.Inputs, max_bytes: int) -> tuple[list[ToolSpec], int]:
    """The valid tools, each id once, and how many rows are left out.

    Raises:
        UsageError: none is left.
    """
    tools: dict[str, ToolSpec] = {}
    count = 0
    for _, row in tried_rows(found.pieces, ToolParser(), max_bytes):
        count += 1
        if not isinstance(row, RowUnreadable) and not isinstance(tool := validated(row), RefusedTool):
            tools.setdefault(tool.id, tool)
    if not tools:
        raise UsageError("--tools: there is no valid tool in it")
    return list(tools.values()), count - len(tools)


def _used(domains: Sequence[Domain], tools: Sequence[ToolSpec]) -> None:
    """
    Raises:
        UsageError: domains were given, and no tool is of one of them, or none of them has a world that can be used.
    """
    if not domains:
        return
    worlds, sets = worlds_of(domains), sorted({tool.toolset for tool in tools})
    if not worlds:
        raise UsageError("--domains: none of them has an entity model and a sample state that meets it")
    if not worlds.keys() & set(sets):
        raise UsageError(
            f"--domains: no tool is of one of them: tools are of {', '.join(sets[:3])}, "
            f"domains are named {', '.join(list(worlds)[:3])} (their `path`, joined by /, or `id`)"
        )


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

"""Harvesting real tool specifications (Kimi K2 report, section 3.1.1 and figure 8a, "real-world tool specs").

servers | install & ask | validate | one of each, named, judged | data, rejected, failed
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import apache_beam as beam
import orjson
from tokenmill.inference.call import Ask
from tokenmill.pipelines.tools.curate.dag import CurateTools
from tokenmill.pipelines.tools.curation import Curation
from tokenmill.pipelines.tools.parse import validated
from tokenmill.pipelines.transforms import DATA, FAILED, REJECTED
from tokenmill.pipelines.transforms.counts import count
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Rollout, Several
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.tools import RefusedTool, ToolSpec, from_mcp, refuse
from tokenmill.tools_repo.harvest.harvester import Harvested, Harvester, HarvestFailed
from tokenmill.tools_repo.harvest.server_lists import Source
from tokenmill.tools_repo.harvest.servers import slug
from tokenmill.tools_repo.specs.names import assign_names


@dataclass(frozen=True)
class Offer:
    """A source and the tools that it lists."""

    source: Source
    listed: Harvested


@dataclass(frozen=True)
class HarvestTools:
    """The rollout of one source: its server is installed, started and asked, and each tool that it lists is checked."""

    harvester: Harvester
    at_once: int = 4
    """Servers at a time in a process, each on a thread of its own, which lives as long as the server's sandbox must."""

    row_type: ClassVar[type] = ToolSpec
    rejected_type: ClassVar[type] = RefusedTool

    async def __call__(self, source: Source, _: Ask) -> Several:
        """Raises: SandboxUnavailable."""
        loop = asyncio.get_running_loop()
        offer = await loop.run_in_executor(_threads(self.at_once), ask, source, self.harvester)
        if isinstance(offer, FailedRow):
            return Several([offer])
        return Several([_sorted(row) for row in specs(offer)])

    def failed(self, source: Source, error: str, message: str) -> FailedRow:
        return _failed(source, "harvest", error, message)


@functools.cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="harvest")


def _sorted(row: ToolSpec | RefusedTool | FailedRow) -> Accepted | Rejected | FailedRow:
    if isinstance(row, FailedRow):
        return row
    return Rejected(row, row.reason) if isinstance(row, RefusedTool) else Accepted(row)


def ask(source: Source, harvester: Harvester | None) -> Offer | FailedRow:
    """The tools of one source.

    Raises:
        SandboxUnavailable: programs cannot be isolated on this machine.
    """
    if source.error:
        return _failed(source, "read", source.error, source.message)
    if source.listed is not None:
        return Offer(source, source.listed)
    assert source.server is not None and harvester is not None
    try:
        return Offer(source, asyncio.run(harvester.harvest(source.server)))
    except HarvestFailed as error:
        return _failed(source, error.step, error.error, str(error), error.last_words)


def _failed(source: Source, step: str, error: str, message: str, excerpt: str = "") -> FailedRow:
    return failed_row(source.name, step, error, message, excerpt[-500:], source_file=source.file, source_row=source.row)


def specs(offer: Offer) -> Iterator[ToolSpec | RefusedTool | FailedRow]:
    """The tools of an offer, each as a specification, a refused specification, or what is wrong with it."""
    source, listed, server = offer.source, offer.listed, offer.source.server
    provenance = {
        "origin": source.origin,
        "category": server.category if server else "",
        "package": server.package if server else f"file:{source.file}",
        "version": listed.version,
        "license": listed.license,
    }
    good: list[ToolSpec] = []
    seen: set[str] = set()
    for number, tool in enumerate(listed.tools):
        try:
            calls = listed.tried.get(tool["name"], []) if isinstance(tool.get("name"), str) else []
            spec = from_mcp(tool, server=slug(source.name), tried=calls, **provenance)
        except ValueError as error:
            row = _failed(source, "validate", "invalid_tool", str(error), orjson.dumps(tool).decode()[:500])
            yield replace(row, id=f"{source.name}/{number}")
            continue
        if spec.id in seen:
            twin = replace(spec, id=f"{spec.id}#{number}")
            yield refuse(twin, "duplicate_name", "the server lists this name twice", duplicate_of=spec.id)
            continue
        seen.add(spec.id)
        good.append(spec)
    for spec in assign_names(good):
        yield validated(spec)


class _Read(beam.DoFn):
    """Sources; those that name nothing to harvest are in `failed`."""

    def process(self, source: Source) -> Iterator[Any]:
        if source.error:
            yield beam.pvalue.TaggedOutput(FAILED, ask(source, None))
        else:
            yield source


def build(step: HarvestTools, sources: Sequence[Source], chosen: Curation, seed: int, flow: Flow) -> None:
    """The whole job; one shard of each kind is enough."""
    servers = flow.root | "Servers" >> beam.Create(list(sources))
    read = servers | "Read" >> beam.ParDo(_Read()).with_outputs(FAILED, main=DATA)
    read[DATA].element_type, read[FAILED].element_type = Source, FailedRow
    count(servers, "read")
    count(read[FAILED], "unreadable")
    listed = (
        read[DATA]
        | "Spread servers" >> beam.Reshuffle()
        | "Install and ask" >> Rollout(step, flow.models, window=step.at_once)
    )
    curated = listed[DATA] | "Curate" >> CurateTools(flow.models, chosen.judge, seed, likeness=chosen.likeness)
    refused, failed = [listed[REJECTED], curated[REJECTED]], [read[FAILED], listed[FAILED], curated[FAILED]]
    replace(flow, shards=1).write(ToolSpec, RefusedTool, curated[DATA], refused, failed)

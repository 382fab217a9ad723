"""Harvesting real tool specifications (Kimi K2 report, section 3.1.1 and figure 8a, "real-world tool specs").

servers | install & ask | validate | one of each, named, judged | data, rejected, failed
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.metrics import Metrics
from apache_beam.utils.windowed_value import WindowedValue
from tokenmill.pipelines.tools.curate.dag import CurateTools
from tokenmill.pipelines.tools.parse import validated
from tokenmill.pipelines.transforms import DATA, FAILED, NAMESPACE, REJECTED
from tokenmill.pipelines.transforms.sinks import write_outputs
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.tools import RefusedTool, ToolSpec, from_mcp, refuse
from tokenmill.tools_repo.harvest.harvester import Harvested, Harvester, HarvestFailed
from tokenmill.tools_repo.harvest.server_lists import Source, slug
from tokenmill.tools_repo.specs.names import assign_names


@dataclass(frozen=True)
class Offer:
    """A source and the tools that it lists."""

    source: Source
    listed: Harvested


class InstallAndAsk(beam.PTransform):
    """Sources to offers, several at once; a source without tools is a row of `failed`, with the server's own words."""

    def __init__(self, harvester: Harvester, concurrency: int, state: str = "") -> None:
        super().__init__()
        self.harvester = harvester
        self.concurrency = concurrency
        self.state = state
        """A folder in which workers tell how far they are; empty for none."""

    def expand(self, sources: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        asked = sources | beam.ParDo(_Ask(self.harvester, self.concurrency, self.state)).with_outputs(FAILED, main=DATA)
        asked[DATA].element_type = Offer
        asked[FAILED].element_type = FailedRow
        return asked


class _Ask(beam.DoFn):
    """A rolling window of servers, each on a thread of its own, which lives as long as the server's sandbox must."""

    def __init__(self, harvester: Harvester, concurrency: int, state: str) -> None:
        self.harvester = harvester
        self.concurrency = concurrency
        self.state = state

    def setup(self) -> None:
        self._pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="harvest")
        self._told = {"data": 0, "failed": 0}
        self._tools = 0

    def teardown(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start_bundle(self) -> None:
        self._running: dict[Future, tuple[Any, Any]] = {}

    def process(
        self, source: Source, window=beam.DoFn.WindowParam, timestamp=beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        while len(self._running) >= self.concurrency:
            yield from self._finished()
        self._running[self._pool.submit(ask, source, self.harvester)] = (timestamp, window)

    def finish_bundle(self) -> Iterator[Any]:
        while self._running:
            yield from self._finished()

    def _finished(self) -> Iterator[Any]:
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            timestamp, window = self._running.pop(future)
            outcome = future.result()
            failed = isinstance(outcome, FailedRow)
            Metrics.counter(NAMESPACE, "servers failed" if failed else "servers").inc()
            self._told[FAILED if failed else DATA] += 1
            self._tools += 0 if failed else len(outcome.listed.tools)
            value = WindowedValue(outcome, timestamp, (window,))
            yield beam.pvalue.TaggedOutput(FAILED, value) if failed else value
        self._tell()

    def _tell(self) -> None:
        """Leave the figures where `pipelines.runs.progress` gathers them."""
        if self.state:
            told = {"time": time.time(), "in_flight": len(self._running), "rows": self._told}
            path = Path(self.state, f"{os.getpid()}.json")
            path.with_suffix(".part").write_bytes(orjson.dumps({**told, "roles": {"servers": {"tools": self._tools}}}))
            path.with_suffix(".part").rename(path)


def ask(source: Source, harvester: Harvester) -> Offer | FailedRow:
    """The tools of one source.

    Raises:
        SandboxUnavailable: programs cannot be isolated on this machine.
    """
    if source.error:
        return _failed(source, "read", source.error, source.message)
    if source.listed is not None:
        return Offer(source, source.listed)
    assert source.server is not None
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
            spec = from_mcp(tool, server=slug(source.name), **provenance)
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


class Validate(beam.PTransform):
    """Offers to specifications, sorted into `data`, `rejected` and `failed`."""

    def expand(self, offers: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        sorted_ = offers | beam.ParDo(_Validate()).with_outputs(REJECTED, FAILED, main=DATA)
        sorted_[DATA].element_type = ToolSpec
        sorted_[REJECTED].element_type = RefusedTool
        sorted_[FAILED].element_type = FailedRow
        return sorted_


class _Validate(beam.DoFn):
    def __init__(self) -> None:
        self.listed = Metrics.counter(NAMESPACE, "tools listed")

    def process(self, offer: Offer) -> Iterator[Any]:
        self.listed.inc(len(offer.listed.tools))
        for row in specs(offer):
            if isinstance(row, FailedRow):
                yield beam.pvalue.TaggedOutput(FAILED, row)
            elif isinstance(row, RefusedTool):
                yield beam.pvalue.TaggedOutput(REJECTED, row)
            else:
                yield row


def build(
    root: beam.Pipeline,
    sources: Sequence[Source],
    harvester: Harvester,
    folder: str,
    *,
    concurrency: int = 4,
    state: str = "",
    curate: CurateTools | None = None,
) -> None:
    """The whole job on a pipeline: one shard of each kind under `folder`/{data,rejected,failed}.

    Args:
        curate: what becomes of near-duplicates and unclear tools; None for `CurateTools()`.
    """
    offers = (
        root
        | "Servers" >> beam.Create(list(sources))
        | "Spread servers" >> beam.Reshuffle()
        | "Install and ask" >> InstallAndAsk(harvester, concurrency, state)
    )
    checked = offers[DATA] | "Validate" >> Validate()
    curated = checked[DATA] | "Curate" >> (curate or CurateTools())
    refused = (checked[REJECTED], curated[REJECTED]) | "All rejected" >> beam.Flatten()
    failed = (offers[FAILED], checked[FAILED], curated[FAILED]) | "All failed" >> beam.Flatten()
    rows = {DATA: curated[DATA], REJECTED: refused, FAILED: failed}
    write_outputs(rows, folder, ToolSpec, RefusedTool, 1)

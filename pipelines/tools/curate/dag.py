"""What of many specifications is worth keeping: each tool once, under a name of its own, and clear.

    curated = specs | CurateTools()                                  # no model is called
    curated = specs | CurateTools(models, ToolClarity(), seed=0)     # and a judge reads every tool that is left
    curated[DATA], curated[REJECTED], curated[FAILED]

specs | one of each id | near-duplicates across origins | names | judge     (Kimi K2 report, section 3.1.1)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import apache_beam as beam
import orjson
from tokenmill.inference.call import Ask
from tokenmill.inference.roles import Models
from tokenmill.judges.model.tool_clarity import ToolClarity
from tokenmill.pipelines.tools.dedup import DropDuplicates, Duplicate
from tokenmill.pipelines.tools.parse import validated
from tokenmill.pipelines.transforms import DATA, FAILED, REJECTED
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Rollout
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.tools import RefusedTool, ToolSpec, refuse
from tokenmill.tools_repo.specs.likeness import Likeness
from tokenmill.tools_repo.specs.names import assign_names

SAME_ID, NEAR_DUPLICATE = "same_id", "near_duplicate"
"""Reasons of a refusal, beside those of the judge."""
_DETAIL = 600


class CurateTools(beam.PTransform[Any, Any]):
    """PCollection[ToolSpec] -> {DATA: ToolSpec, REJECTED: RefusedTool, FAILED: FailedRow}, every tool in exactly one.

    Specifications must have passed `tools_repo.specs.validate`. Of near-duplicates the real tool (`mcp`, then `openapi`) is
    kept before a synthetic one; a refused one names it in `duplicate_of`, with the similarity as `score`. A kept tool
    that the judge goes on to refuse takes its duplicates with it. What the judge cannot decide is in FAILED; without a
    judge FAILED is empty. Nothing is added to the counts of the job's tasks (`data`, `rejected`, `failed`); those of the
    judge are `clarity: data` and so on.

    Args:
        models: has the role `judge`; needed exactly when `judge` is given.
        judge: None calls no model.
        seed: of the run; shifts the sampling seeds of the judge's votes.
        likeness: what makes two tools one; None keeps near-duplicates.

    Raises:
        ValueError: a judge without models.
    """

    def __init__(
        self,
        models: Models | None = None,
        judge: ToolClarity | None = None,
        seed: int = 0,
        *,
        likeness: Likeness | None = Likeness(),  # noqa: B008  a frozen value
    ) -> None:
        super().__init__()
        if judge is not None and (models is None or "judge" not in models.roles):
            raise ValueError("CurateTools: a judge needs `models` with the role `judge`")
        self.models = models
        self.judge = judge if judge is None else replace(judge, seed=seed)
        self.likeness = likeness

    def expand(self, tools: beam.PCollection[Any]) -> dict[str, beam.PCollection[Any]]:
        single = (
            tools
            | "Key by id" >> beam.Map(lambda tool: (tool.id, tool))
            | "Same id" >> beam.GroupByKey()
            | "One of each id" >> beam.FlatMapTuple(one_of_each_id)
            | "Part" >> beam.ParDo(_Part()).with_outputs(REJECTED, main=DATA)
        )
        kept, refused = _typed(single[DATA], ToolSpec), [_typed(single[REJECTED], RefusedTool)]
        if self.likeness is not None:
            kept, duplicates = kept | "Drop duplicates" >> DropDuplicates(self.likeness)
            kept = _typed(kept, ToolSpec)
            refused.append(
                duplicates | "Refuse duplicates" >> beam.Map(refuse_duplicate).with_output_types(RefusedTool)
            )
        named = (
            kept
            | "Key by tool-set" >> beam.Map(lambda tool: (f"{tool.origin}/{tool.toolset}", tool))
            | "Same tool-set" >> beam.GroupByKey()
            | "Name" >> beam.FlatMapTuple(_named).with_output_types(ToolSpec)
        )
        outputs = {REJECTED: refused | "Refused" >> beam.Flatten()}
        if self.judge is None or self.models is None:
            outputs[DATA] = named
            outputs[FAILED] = tools.pipeline | "None failed" >> beam.Create([])
        else:
            judge = Rollout(JudgeTool(self.judge), self.models, follows="clarity")
            judged = named | "Spread" >> beam.Reshuffle() | "Judge" >> judge
            outputs[DATA], outputs[FAILED] = judged[DATA], judged[FAILED]
            outputs[REJECTED] = (outputs[REJECTED], judged[REJECTED]) | "All refused" >> beam.Flatten()
        for kind, row_type in ((DATA, ToolSpec), (REJECTED, RefusedTool), (FAILED, FailedRow)):
            _typed(outputs[kind], row_type)
        return outputs


@dataclass(frozen=True)
class JudgeTool:
    """The rollout of one tool: a judge says whether it is clear enough to be called and simulated."""

    judge: ToolClarity = field(default_factory=ToolClarity)

    row_type: ClassVar[type] = ToolSpec
    rejected_type: ClassVar[type] = RefusedTool

    async def __call__(self, tool: ToolSpec, ask: Ask) -> Accepted | Rejected:
        verdict = await self.judge(tool, ask)
        if verdict.passed:
            return Accepted(tool)
        faults = [f"{found.detail} «{found.source}»" if found.source else found.detail for found in verdict.findings]
        detail = " ".join("; ".join(faults).split())[:_DETAIL]
        return Rejected(refuse(tool, verdict.reason, detail, score=verdict.score), verdict.reason)

    def failed(self, tool: ToolSpec, error: str, message: str) -> FailedRow:
        where = tool.package or tool.toolset
        return failed_row(tool.id, "judge", error, message, tool.description, source_file=where)


@dataclass(frozen=True)
class LookAtTool:
    """What can be said of one tool by itself, for a preview: whether it is valid, and clear."""

    judge: ToolClarity | None

    async def __call__(self, tool: ToolSpec, ask: Ask) -> Accepted | Rejected:
        checked = validated(tool)
        if isinstance(checked, RefusedTool):
            return Rejected(checked, checked.reason)
        return await JudgeTool(self.judge)(checked, ask) if self.judge else Accepted(checked)


def one_of_each_id(id: str, tools: Iterable[ToolSpec]) -> Iterator[ToolSpec | RefusedTool]:
    """The tool of the newest version under an id; the others refused, under ids of their own."""
    ordered = sorted(tools, key=lambda tool: orjson.dumps(tool, option=orjson.OPT_SORT_KEYS))
    first = max(ordered, key=lambda tool: natural(tool.version))
    yield first
    others = [tool for tool in ordered if tool is not first]
    for number, tool in enumerate(others, start=2):
        same = tool.description == first.description and tool.input_schema == first.input_schema
        what = f"version {first.version or 'not stated'} of the same tool is kept"
        twin = replace(tool, id=f"{id}#{number}")
        yield refuse(twin, SAME_ID, f"the same tool is there twice; {what}", duplicate_of=id, score=float(same))


def natural(version: str) -> list[tuple[int, int | str]]:
    """A version as something that sorts as people count: 1.10 after 1.9."""
    return [(1, int(part)) if part.isdigit() else (0, part) for part in re.findall(r"\d+|[^\W\d_]+", version)]


def refuse_duplicate(found: Duplicate) -> RefusedTool:
    """A near-duplicate as a row of `rejected/`."""
    how = "the same tool as" if found.similarity == 1 else "nearly the same tool as"
    detail = f"{how} {found.of} (similarity {found.similarity:.2f})"
    return refuse(found.tool, NEAR_DUPLICATE, detail, duplicate_of=found.of, score=found.similarity)


def _named(_: str, tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    return assign_names(sorted(tools, key=lambda tool: tool.id))


def _typed(rows: beam.PCollection[Any], row_type: type) -> beam.PCollection[Any]:
    rows.element_type = row_type
    return rows


class _Part(beam.DoFn):
    def process(self, tool: ToolSpec) -> Iterator[Any]:
        yield beam.pvalue.TaggedOutput(REJECTED, tool) if isinstance(tool, RefusedTool) else tool

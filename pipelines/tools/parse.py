"""From the values of an input row to a `ToolSpec`, and from there to what validation lets through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import apache_beam as beam
import orjson
from tokenmill.pipelines.transforms import DATA, REJECTED
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.columns import from_values
from tokenmill.schemas.tools import RefusedTool, ToolSpec, dump, refuse, tool_id
from tokenmill.tools_repo.specs.validate import validate

_JSON = ("input_schema", "output_schema", "annotations")


@dataclass(frozen=True)
class ToolParser:
    """Reads the columns of `ToolSpec`, as a harvest or an evolution writes them; JSON columns may also be objects, and a
    row without `id` gets the one that follows from where it stands."""

    row_type: ClassVar[type] = ToolSpec
    columns: ClassVar[tuple[str, ...]] = tuple(ToolSpec.__dataclass_fields__)
    required: ClassVar[tuple[str, ...]] = ("name", "description", "input_schema", "origin")

    def key(self, values: dict[str, Any], file: str, row: int) -> None:
        """Rows may share an id: the same tool in two runs. `CurateTools` decides which one stays."""

    def __call__(self, values: dict[str, Any], file: str, row: int) -> ToolSpec:
        """Raises: RowUnreadable."""
        id = values.get("id") or ""
        try:
            given = values | {name: dump(values[name]) for name in _JSON if isinstance(values.get(name), dict)}
            spec = from_values(ToolSpec, {**given, "id": id or "unknown"})
            if not spec.name:
                raise ValueError("its name is empty")
            if not isinstance(spec.parameters, dict):
                raise ValueError("`input_schema` is no JSON object")
        except ValueError as error:
            excerpt = orjson.dumps(values, default=str).decode("utf-8", "replace")[:500]
            known = id if isinstance(id, str) else ""
            raise RowUnreadable("invalid_tool", f"not a tool specification: {error}", excerpt, known) from None
        derived = tool_id(spec.origin, spec.toolset, spec.original_name)
        return spec if id else replace(spec, id=derived)


class ValidateTools(beam.PTransform[Any, Any]):
    """ToolSpec -> {DATA: ToolSpec, REJECTED: RefusedTool}."""

    def expand(self, tools: beam.PCollection[Any]) -> beam.pvalue.DoOutputsTuple:
        parted = tools | beam.ParDo(_Validate()).with_outputs(REJECTED, main=DATA)
        parted[DATA].element_type = ToolSpec
        parted[REJECTED].element_type = RefusedTool
        return parted


class _Validate(beam.DoFn):
    def process(self, tool: ToolSpec) -> Iterator[Any]:
        row = validated(tool)
        if isinstance(row, RefusedTool):
            yield beam.pvalue.TaggedOutput(REJECTED, row)
        else:
            yield row


def validated(tool: ToolSpec) -> ToolSpec | RefusedTool:
    """The tool, or what is wrong with it."""
    verdict = validate(tool)
    if verdict.passed:
        return tool
    return refuse(tool, verdict.reason, "; ".join(f.detail for f in verdict.findings), score=verdict.score)

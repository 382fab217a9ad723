"""Tool specifications: what a model reads of each, where they come from, and what they cover."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from rich.console import RenderableType
from rich.text import Text
from tokenmill.pipelines.report.formatting import one_line
from tokenmill.pipelines.report.sample_draw import Sample
from tokenmill.pipelines.report.tally import Shards, Survey
from tokenmill.pipelines.report.views.base import Stage, View
from tokenmill.schemas.tools import SYNTHETIC, ToolSpec, to_openai
from tokenmill.schemas.typescript.render import render_namespace

if TYPE_CHECKING:
    from huggingface_hub import DatasetCardData
    from tokenmill.pipelines.report.views.tool_space import ToolSpace
    from tokenmill.schemas.manifest import Manifest

_SHOWN = 6000
"""Characters shown of a declaration or a description."""
_CHIPS = ("origin", "category", "server", "license")


class ToolView(View):
    """Rows that are tool specifications."""

    rows = "tools"
    facet = "Origin"
    facets = (("origin", "Kept by origin"), ("category", "Kept by category"))
    card = "tools.md.j2"
    page = "tools.html.j2"

    def total(self, manifest: Manifest, survey: Survey) -> int:
        """Tools that were listed; a harvest's other failures are servers."""
        return manifest.counts.get("listed") or super().total(manifest, survey)

    def headline(self, manifest: Manifest, survey: Survey) -> str:
        counts, line = manifest.counts, super().headline(manifest, survey)
        if "servers" not in counts:
            return line
        return f"{line[:-1]} from {counts['servers']:,} of {counts['read']:,} sources."

    def funnel(self, manifest: Manifest, survey: Survey) -> list[Stage]:
        counts, total = manifest.counts, self.total(manifest, survey)
        return [
            ("Sources tried" if "servers" in counts else "Input rows read", counts.get("read"), "plain"),
            ("Sources with tools", counts.get("servers"), "plain"),
            ("Tools", total, "plain"),
            ("Not near-duplicates", total - manifest.reasons.get("near_duplicate", 0), "plain"),
            ("Kept", survey.data.count, "kept"),
        ]

    def figures(self, out: Path, shards: Shards) -> ToolSpace | None:
        from tokenmill.pipelines.report.views.tool_space import survey_tools

        return survey_tools(out, shards("data"))

    def describe(self, metadata: DatasetCardData, survey: Survey) -> None:
        """Real tools are written by the people who wrote the servers, not by a model."""
        origins = survey.data.values.get("origin", {}).keys()
        found, made = bool(origins - {SYNTHETIC}), SYNTHETIC in origins
        creators = [*(["found"] if found or not made else []), *(["machine-generated"] if made else [])]
        metadata.annotations_creators, metadata.language_creators = creators, list(creators)
        kinds = [*(["mcp"] if found else []), *(["synthetic"] if made else [])]
        metadata["tags"] = ["tool-use", "function-calling", *kinds, "tokenmill"]

    def sample(self, folder: str, sample: Sample) -> dict[str, Any]:
        """The tool that a row is, beside the one that it repeats."""
        row, twin = sample.row, sample.twin
        tools = [_declared(row, "Refused" if twin else "")]
        if twin:
            tools.append(_declared(twin.row, "Kept" if twin.row.get("reason") is None else "Refused too"))
        shown = super().sample(folder, sample)
        nothing = [name for name, value in row.items() if isinstance(value, dict) and not any(value.values())]
        return shown | {
            "title": row["name"],
            "style": row["origin"],
            "message": row.get("detail", ""),
            "own": tools,
            "fields": [(name, value) for name, value in shown["fields"] if name not in nothing],
        }

    def record(self, sample: Sample) -> dict[str, Any]:
        return _declared(sample.row, "")

    def told(self, row: ToolSpec) -> Iterable[RenderableType]:
        from rich.syntax import Syntax

        yield Syntax(render_namespace([to_openai(row)]), "typescript", word_wrap=True)
        for name in ("reads", "writes", "preconditions", "effects", "errors"):
            if told := getattr(row.semantics, name):
                yield Text(f"  {name}: {'; '.join(told)}", "dim")


def _declared(row: dict[str, Any], label: str) -> dict[str, Any]:
    """Name, description, TypeScript declaration and provenance of a tool."""
    package = "@".join(filter(None, (row["package"], row["version"])))
    chips = [*(row[name] for name in _CHIPS), " / ".join(row["domain"]), package]
    language, code = _declaration(row)
    return {
        "label": label,
        "id": row["id"],
        "name": row["name"],
        "description": row["description"][:_SHOWN],
        "chips": [one_line(chip, 80) for chip in chips if chip],
        "language": language,
        "code": code[:_SHOWN],
        "more": max(len(code) - _SHOWN, 0),
    }


def _declaration(row: dict[str, Any]) -> tuple[str, str]:
    """(language, code): the TypeScript declaration, or the schema as it stands where none can be made of it."""
    try:
        parameters = orjson.loads(row["input_schema"])
        function = {"name": row["name"], "description": row["description"], "parameters": parameters}
        return "typescript", render_namespace([{"type": "function", "function": function}])
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return "json", row["input_schema"]

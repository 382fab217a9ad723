"""The dataset card of tool specifications: where they come from, under which licence, how they were got, what they cover."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tokenmill.pipelines.report import figures, templates
from tokenmill.pipelines.report.card_metadata import card_metadata, type_name
from tokenmill.pipelines.report.licenses import hub_license
from tokenmill.pipelines.report.masking import masked_command, masked_text
from tokenmill.pipelines.report.survey import Survey
from tokenmill.pipelines.report.tools.sample import tool_view
from tokenmill.schemas.manifest import Manifest
from tokenmill.schemas.tools import SYNTHETIC

_COLUMNS = ["origin", "server", "package", "version", "license", "category"]
_SAMPLES = 3


def write_tool_card(out: Path, manifest: Manifest, survey: Survey) -> Path:
    """Write `OUT/README.md` of a run whose rows are tool specifications.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read, or the card not written.
    """
    metadata = card_metadata(manifest, survey)
    origins = dict(survey.data.values.get("origin", {}))
    found, made = bool(origins.keys() - {SYNTHETIC}), SYNTHETIC in origins
    # Real tools are written by the people who wrote the servers, not by a model.
    metadata.annotations_creators = [
        *(["found"] if found or not made else []),
        *(["machine-generated"] if made else []),
    ]
    metadata.language_creators = list(metadata.annotations_creators)
    metadata.tags = ["tool-use", "function-calling", *(["mcp"] if found else []), *(["synthetic"] if made else [])]
    metadata.tags.append("tokenmill")
    licenses, categories, servers = _counts(out)
    schema = survey.data.schema or survey.rejected.schema
    body = templates.render(
        "tools.md.j2",
        m=manifest,
        harvested="servers" in manifest.counts,
        made=made,
        survey=survey,
        command=shlex.join(masked_command(manifest.command)),
        models=[{**model, "spec": masked_text(str(model.get("spec", "")))} for model in manifest.models],
        origins=sorted(origins.items()),
        servers=servers,
        licenses=[(stated, hub_license(stated), n) for stated, n in figures.by_count(licenses)],
        categories=figures.by_count(categories),
        space=survey.tools and survey.tools.tables(),
        pictures=survey.tools.pictures if survey.tools else (),
        samples=[view for sample in survey.data.samples[:_SAMPLES] if (view := tool_view(sample.row))],
        columns=[
            (f.name, type_name(f.type), (f.metadata or {}).get(b"doc", b"").decode("utf-8", "replace"))
            for f in schema or ()
        ],
        share=figures.share,
    )
    return templates.write_whole(Path(out) / "README.md", f"---\n{metadata.to_yaml()}\n---\n{body}")


def _counts(out: Path) -> tuple[Counter[str], Counter[str], list[dict[str, Any]]]:
    """Tools kept by licence and by category, and every server with the number of its tools, most first."""
    licenses: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    servers: dict[str, dict[str, Any]] = {}
    for path in sorted((Path(out) / "data").glob("*.parquet")):
        for row in pq.read_table(path, columns=_COLUMNS).to_pylist():
            categories[row["category"]] += 1
            if row["origin"] == SYNTHETIC:
                continue
            licenses[row["license"]] += 1
            server = servers.setdefault(row["server"], {**row, "tools": 0})
            server["tools"] += 1
    return licenses, categories, sorted(servers.values(), key=lambda s: (-s["tools"], s["server"]))

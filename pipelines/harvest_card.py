"""The dataset card of harvested tools: who wrote them, under which licence, and how they were got."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipelines.runs import templates
from pipelines.runs.card import card_metadata, type_name
from pipelines.runs.licenses import hub_license
from pipelines.runs.masking import masked_command
from pipelines.runs.survey import Survey
from schemas.manifest import Manifest

_COLUMNS = ["server", "package", "version", "license", "category", "name"]
_SAMPLES = 3


def write_harvest_card(out: Path, manifest: Manifest, survey: Survey) -> Path:
    """Write `OUT/README.md` of a harvest.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read, or the card not written.
    """
    metadata = card_metadata(manifest, survey)
    # Tools are written by the people who wrote the servers, not by a model.
    metadata.annotations_creators, metadata.language_creators = ["found"], ["found"]
    metadata.tags = ["tool-use", "function-calling", "mcp", "tokenmill"]
    servers = _servers(out)
    licenses = Counter()
    for server in servers:
        licenses[server["license"]] += server["tools"]
    schema = survey.data.schema
    body = templates.render(
        "harvest.md.j2",
        m=manifest,
        command=shlex.join(masked_command(manifest.command)),
        servers=servers,
        licenses=[
            (stated, hub_license(stated), n) for stated, n in sorted(licenses.items(), key=lambda i: (-i[1], i[0]))
        ],
        categories=sorted(Counter(s["category"] for s in servers for _ in range(s["tools"])).items()),
        samples=[sample.row for sample in survey.data.samples[:_SAMPLES]],
        columns=[
            (f.name, type_name(f.type), (f.metadata or {}).get(b"doc", b"").decode("utf-8", "replace"))
            for f in schema or ()
        ],
    )
    return templates.write_whole(out / "README.md", f"---\n{metadata.to_yaml()}\n---\n{body}")


def _servers(out: Path) -> list[dict[str, Any]]:
    """Every server with the number of its tools that were kept, most first."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((out / "data").glob("*.parquet")):
        for row in pq.read_table(path, columns=_COLUMNS).to_pylist():
            server = found.setdefault(row["server"], {**row, "tools": 0})
            server["tools"] += 1
    return sorted(found.values(), key=lambda s: (-s["tools"], s["server"]))

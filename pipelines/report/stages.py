"""The runs of a chain, as its report and its card show them: what went in, what was kept, what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmill.pipelines.report.formatting import by_count


def stage_entry(name: str, folder: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A finished run's entry in `Manifest.stages`, from its own manifest; `folder` is below the chain's output."""
    figures = {part: manifest[part] for part in ("counts", "reasons", "errors", "calls")}
    return {"name": name, "folder": folder, **figures}


def stage_line(run: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run, from its entry in `Manifest.stages`."""
    counts, why = run["counts"], {**run["reasons"], **run["errors"]}
    roles = run["calls"].values()
    return {
        "name": run["name"],
        "tasks": counts.get("tasks", 0) + counts.get("extra", 0),
        **{name: counts.get(name, 0) for name in ("accepted", "rejected", "failed")},
        "why": by_count(why)[:4],
        "calls": sum(role.get("paid", 0) + role.get("cached", 0) for role in roles),
        "tokens": sum(role.get("prompt_tokens", 0) + role.get("completion_tokens", 0) for role in roles),
    }

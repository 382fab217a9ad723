"""The runs of a chain, as its report and its card show them: what went in, what was kept, what it took."""

from __future__ import annotations

from typing import Any


def stage_line(run: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run, from its entry in `Manifest.stages`."""
    counts, why = run["counts"], {**run["reasons"], **run["errors"]}
    roles = [role for role in run["calls"].values() if isinstance(role, dict)]
    return {
        "name": run["name"],
        "tasks": counts.get("tasks", 0) + counts.get("extra", 0),
        **{name: counts.get(name, 0) for name in ("accepted", "rejected", "failed")},
        "why": sorted(why.items(), key=lambda item: (-item[1], item[0]))[:4],
        "calls": sum(role.get("paid", 0) + role.get("cached", 0) for role in roles),
        "tokens": sum(role.get("prompt_tokens", 0) + role.get("completion_tokens", 0) for role in roles),
    }

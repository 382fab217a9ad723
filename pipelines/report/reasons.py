"""What each reason for refusing a row, and each error of a failed row, means: the texts of `reasons.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml


@dataclass(frozen=True)
class Reason:
    """One entry of the catalogue."""

    name: str
    check: str
    """Check, or step of a failed row, that gives it; several with commas between, empty where there is only the one."""
    means: str
    do: str


@dataclass(frozen=True)
class Group:
    """Reasons that belong together."""

    title: str
    folder: str
    """`rejected` or `failed`."""
    jobs: str
    reasons: tuple[Reason, ...]
    intro: str = ""


@cache
def catalogue() -> tuple[Group, ...]:
    """All reasons, in groups, in the order in which a reader meets them."""
    groups = yaml.safe_load(resources.files(__package__).joinpath("reasons.yaml").read_text(encoding="utf-8"))
    return tuple(
        Group(
            group["title"],
            group["folder"],
            group["jobs"],
            tuple(Reason(name, **entry) for name, entry in group["reasons"].items()),
            group.get("intro", ""),
        )
        for group in groups
    )


@cache
def meanings(folder: str) -> dict[str, str]:
    """What each reason says, by its name, among those of `rejected` or of `failed` rows."""
    return {r.name: r.means for group in catalogue() if group.folder == folder for r in group.reasons}

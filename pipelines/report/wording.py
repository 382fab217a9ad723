"""What the rows of a run are called, and the way that they have come, by the columns they have."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.pipelines.report.figures import share
from tokenmill.pipelines.report.survey import Survey
from tokenmill.pipelines.report.tools.sample import are_tools
from tokenmill.schemas.manifest import Manifest

Stage = tuple[str, int | None, str]
"""(name, rows, class of the bar)"""


@dataclass(frozen=True)
class Wording:
    """Words for rows that are texts rewritten from a source."""

    rows: str = "rows"
    made: str = "Written and judged"
    facet: str = "Style"
    """Name of what samples can be chosen by."""
    facets: tuple[tuple[str, str], ...] = (("style", "Kept by style"),)
    """(column, heading) of what kept and refused rows are counted by."""

    def total(self, manifest: Manifest, survey: Survey) -> int:
        """Rows that could have been kept."""
        return sum(rows.count for rows in survey)

    def headline(self, manifest: Manifest, survey: Survey) -> str:
        kept, total = survey.data.count, self.total(manifest, survey)
        return f"{kept:,} of {total:,} {self.rows} kept ({share(kept, total)})."

    def funnel(self, manifest: Manifest, survey: Survey) -> list[Stage]:
        """From what was read to what was kept; a stage that the manifest does not know has no number."""
        counts, kept, failed = manifest.counts, survey.data.count, survey.failed.count
        tasks = manifest.attempted if manifest.attempted is not None else self.total(manifest, survey)
        return [
            ("Input rows read", counts.get("read"), "plain"),
            ("Pieces of work", tasks, "plain"),
            (self.made, tasks - (failed - counts.get("unreadable", 0)), "plain"),
            ("Kept", kept, "kept"),
            ("Kept at first try", kept - survey.data.repaired if survey.data.repaired else None, "kept"),
        ]


@dataclass(frozen=True)
class ToolWording(Wording):
    """Words for rows that are tool specifications."""

    rows: str = "tools"
    facet: str = "Origin"
    facets: tuple[tuple[str, str], ...] = (("origin", "Kept by origin"), ("category", "Kept by category"))

    def total(self, manifest: Manifest, survey: Survey) -> int:
        """Tools that were listed; a harvest's other failures are servers."""
        return manifest.counts.get("listed") or super().total(manifest, survey)

    def headline(self, manifest: Manifest, survey: Survey) -> str:
        counts = manifest.counts
        line = super().headline(manifest, survey)
        if "servers" not in counts:
            return line
        return f"{line[:-1]} from {counts['servers']:,} of {counts['read']:,} sources."

    def funnel(self, manifest: Manifest, survey: Survey) -> list[Stage]:
        counts = manifest.counts
        harvested = "servers" in counts
        return [
            ("Sources tried" if harvested else "Input rows read", counts.get("read"), "plain"),
            ("Sources with tools", counts.get("servers"), "plain"),
            ("Tools", self.total(manifest, survey), "plain"),
            ("Not near-duplicates", self.total(manifest, survey) - manifest.reasons.get("near_duplicate", 0), "plain"),
            ("Kept", survey.data.count, "kept"),
        ]


@dataclass(frozen=True)
class TrajectoryWording(Wording):
    """Words for rows that are trajectories."""

    rows: str = "trajectories"
    facet: str = "Level"
    facets: tuple[tuple[str, str], ...] = ()
    """Levels have a table of their own."""

    def funnel(self, manifest: Manifest, survey: Survey) -> list[Stage]:
        counts, figures = manifest.counts, survey.trajectories
        return [
            ("Tasks read", counts.get("read"), "plain"),
            ("Tries", counts.get("tasks"), "plain"),
            ("Run and judged", figures and figures.whole.judged, "plain"),
            ("Ended by the user", figures and figures.endings.get("user_done", 0), "plain"),
            ("Kept", survey.data.count, "kept"),
        ]


def wording(survey: Survey) -> Wording:
    """By the columns of the rows that were kept, or else of those refused."""
    if survey.trajectories is not None:
        return TrajectoryWording()
    return ToolWording() if are_tools(survey.data.schema or survey.rejected.schema) else Wording()

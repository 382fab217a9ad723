"""What the report, the card and a preview say of rows of one type: the protocol, and the words for rows of any type."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text
from tokenmill.pipelines.report.formatting import one_line, share, words
from tokenmill.pipelines.report.sample_draw import Sample
from tokenmill.pipelines.report.tally import Shards, Survey

if TYPE_CHECKING:
    from huggingface_hub import DatasetCardData
    from tokenmill.schemas.manifest import Manifest

_EXCERPT = 700
"""Characters of a text in the card."""
Stage = tuple[str, int | None, str]
"""(name, rows, class of the bar)"""


class View:
    """How rows of one type are called, counted and shown. A type with words, figures or a page of its own has a subclass,
    registered in `views.registry`; this class shows the columns of whatever row as they are."""

    rows = "rows"
    facet = "Style"
    """Name of what samples can be chosen by."""
    facets: tuple[tuple[str, str], ...] = (("style", "Kept by style"),)
    """(column, heading) of what kept and refused rows are counted by."""
    card = "README.md.j2"
    page = "report.html.j2"
    texts: tuple[str, ...] = ()
    """Columns of which the card shows the beginning in a block of its own."""
    hidden: tuple[str, ...] = ("verdicts", "excerpt", "message", "detail")
    """Columns that a sample shows in a place of their own, or that are too long for its list of fields."""

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
            ("Written and judged", tasks - (failed - counts.get("unreadable", 0)), "plain"),
            ("Kept", kept, "kept"),
            ("Kept at first try", kept - survey.data.repaired if survey.data.repaired else None, "kept"),
        ]

    def figures(self, out: Path, shards: Shards) -> Any:
        """Figures that only rows of this type have, for the pages, with `as_dict()` for that `FIELD` of the manifest; None
        where there are none. Pictures are drawn into `out`.

        Raises:
            OSError, pyarrow.ArrowInvalid: a shard cannot be read, or a picture not written.
        """
        return None

    def describe(self, metadata: DatasetCardData, survey: Survey) -> None:
        """Correct the card's metadata where rows of this type differ from texts that a model wrote."""

    def sample(self, folder: str, sample: Sample) -> dict[str, Any]:
        """A drawn row as the template shows it; `own` is for what only the template of this type shows."""
        row = sample.row
        return {
            "folder": folder,
            "id": str(row.get("id", "")),
            "title": str(row.get("title") or row.get("name") or row.get("id") or ""),
            "reason": str(row.get("reason") or row.get("error") or ""),
            "style": str(row.get("style") or ""),
            "chips": [short(str(row[c])) for c in ("style", "perspective", "language", "model") if row.get(c)],
            "message": str(row.get("message") or row.get("detail") or row.get("description") or ""),
            "excerpt": str(row.get("excerpt") or ""),
            "repaired": False,
            "own": None,
            "fields": [
                (name, one_line(", ".join(map(str, value)) if isinstance(value, list) else value, 300))
                for name, value in row.items()
                if name not in self.hidden and value not in (None, "", [])
            ],
        }

    def record(self, sample: Sample) -> dict[str, Any]:
        """A drawn row as the card shows it: its short columns, and the beginnings of its texts."""
        row = sample.row
        return {
            "id": row.get("id", ""),
            "texts": [(name, _beginning(row[name], sample.lengths.get(name))) for name in self.texts if row[name]],
            "fields": {
                name: one_line(value, 200) if isinstance(value, str) else value
                for name, value in row.items()
                if name not in (*self.texts, "tools") and isinstance(value, (str, int, float, bool))
            },
        }

    def preview(self, row: Any, verdict: Text) -> RenderableType:
        """A finished row in the terminal, under its id and what became of it."""
        refused = getattr(row, "detail", "")
        told = [*self.told(row), *([Text(f"  {refused}", "yellow")] if refused else [])]
        return Group(Text.assemble((f"{row.id}  ", "bold"), verdict), *told)

    def told(self, row: Any) -> Iterable[RenderableType]:
        """The row itself in a preview."""
        return ()


def short(name: str) -> str:
    """`styles/question_and_answer` as `question and answer`."""
    return one_line(words(name.removeprefix("styles/").removeprefix("perspectives/")), 60)


def _beginning(text: str, length: int | None) -> str:
    length = length or len(text)
    return text if length <= _EXCERPT else f"{text[:_EXCERPT].rstrip()} … [{length:,} characters in all]"

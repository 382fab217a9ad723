"""Texts rewritten from a source: side by side with their differences marked, and the verdicts by attempt."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from tokenmill.pipelines.report.highlight import Span, marked, quoted
from tokenmill.pipelines.report.sample_draw import Sample
from tokenmill.pipelines.report.views.base import View

_SHOWN = 12_000
"""Characters shown of a text; the rest is in the shards."""
_FINDINGS, _VERDICTS = 8, 60
"""Findings shown of a verdict, and verdicts of a row."""
_PREVIEWED = 3000


class TextView(View):
    """Rows with `text`, `source_text`, and a verdict of each check."""

    page = "texts.html.j2"
    texts = ("source_text", "text")
    hidden = (*View.hidden, *texts, "refused_source", "refused_text")

    def sample(self, folder: str, sample: Sample) -> dict[str, Any]:
        attempts = _attempts(sample.row["verdicts"])
        final = attempts[-1][1] if attempts else []
        quoting = [f for v in final if not v["passed"] for f in v["findings"][:_FINDINGS]]
        pairs = _pairs(sample.row, sample.lengths, quoting)
        return super().sample(folder, sample) | {
            "repaired": folder == "data" and any(not v["passed"] for _, verdicts in attempts for v in verdicts),
            "own": {"pairs": pairs, "attempts": attempts, "findings": _FINDINGS},
        }

    def preview(self, row: Any, verdict: Text) -> RenderableType:
        described = " · ".join(str(getattr(row, name)) for name in ("style", "perspective") if getattr(row, name, ""))
        title = Text.assemble((f"{row.id}  ", "bold"), f"{described}  ", verdict)
        table = Table(title=title, box=box.ROUNDED, expand=True, title_justify="left")
        table.add_column("source", ratio=1)
        table.add_column("written", ratio=1)
        table.add_row(
            *(Text(s if len(s) <= _PREVIEWED else s[:_PREVIEWED] + " […]") for s in (row.source_text, row.text))
        )
        told = []
        for judgement in (j for j in row.verdicts if not j.passed):
            where = "whole" if judgement.chunk < 0 else f"chunk {judgement.chunk + 1}, try {judgement.attempt + 1}"
            told.append(Text(f"  {judgement.check} ({where}): {judgement.reason}", style="yellow"))
            told += [Text(f"    {finding.detail}", style="dim") for finding in judgement.findings[:4]]
        return Group(table, *told)


def _pairs(row: dict[str, Any], lengths: dict[str, int], findings: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Texts before and after, side by side; what was refused comes first, the whole passage after it."""
    from tokenmill.judges.facts.check import differing_spans  # has large tables; only a run's end needs it

    wanted = [("source_text", "text", "Source", "Rewrite")]
    if row.get("refused_text") or row.get("refused_source"):
        where = _where(row["refused_chunk"]).replace("whole", "the whole")
        wanted.insert(0, ("refused_source", "refused_text", f"Source, {where}", f"Refused rewrite, {where}"))
        if row["refused_source"] == row["source_text"] and row["refused_text"] == row["text"]:
            wanted.pop()
    pairs = []
    for i, (before, after, *labels) in enumerate(wanted):
        texts = row[before], row[after]
        if not any(texts):
            continue
        # What a chunk's rewrite says may stand elsewhere in the document.
        context = "\n".join(row[c] for c in (("title", "source_text") if i < len(wanted) - 1 else ("title",)))
        spans: tuple[list[Span], list[Span]] = [], []
        if all(texts) and not lengths.keys() & {before, after}:
            spans = differing_spans(*texts, context=context, language=row["language"] or "und")
        sides = []
        for label, text, name, found, layer, side in zip(
            labels, texts, (before, after), spans, ("lost", "added"), ("source", "rewrite"), strict=True
        ):
            length = lengths.get(name, len(text))
            quotes = quoted(text, (finding[side] for finding in findings))
            sides.append(
                {
                    "label": label,
                    "html": marked(text, {layer: found, "quote": quotes}, _SHOWN),
                    "length": length,
                    "marks": len(found),
                    "more": max(length - _SHOWN, 0),
                }
            )
        pairs.append({"sides": sides if texts[0] else sides[1:], "folded": i > 0})
    return pairs


def _attempts(verdicts: list[dict[str, Any]]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Verdicts by attempt, in the order of attempts, refusals first."""
    shown = [verdict | {"where": _where(verdict["chunk"])} for verdict in verdicts[:_VERDICTS]]
    shown.sort(key=lambda v: (v["attempt"], v["passed"], v["check"]))
    return [(attempt, list(group)) for attempt, group in groupby(shown, key=lambda v: v["attempt"])]


def _where(chunk: int) -> str:
    return "whole passage" if chunk == -1 else f"chunk {chunk}"

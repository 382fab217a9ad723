"""The picture of a finished run: `OUT/report.html`, one file that opens anywhere without network.

    write_report(Path("out/wiki"), manifest)

Everything from rows is untrusted: it is escaped, and a content security policy that names the page's own style and
script by hash keeps the browser from running or fetching anything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from tokenmill.pipelines.report import charts, formatting, templates
from tokenmill.pipelines.report.masking import masked, masked_command, masked_text
from tokenmill.pipelines.report.reasons import meanings
from tokenmill.pipelines.report.stages import stage_entry, stage_line
from tokenmill.pipelines.report.survey import survey_run
from tokenmill.pipelines.report.tally import RATIO_MAX, Survey, quantile
from tokenmill.pipelines.report.views.base import View, short
from tokenmill.pipelines.report.views.registry import ANY, view_of_columns
from tokenmill.schemas.manifest import Manifest

LABELS = {"data": "Kept", "rejected": "Refused", "failed": "Failed"}


def write_report(out: Path, manifest: Manifest, survey: Survey | None = None) -> Path:
    """Write `OUT/report.html` from the manifest and the shards.

    Args:
        survey: what `survey_run(out)` returned, where the caller has it already.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read, or the report not written.
    """
    survey = survey or survey_run(out)
    view = view_of_columns(survey.schema)
    css, js = templates.text("report.css"), templates.text("report.js")
    page = templates.render(
        view.page,
        m=manifest,
        css=Markup(css),
        js=Markup(js),
        policy=f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(js)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        headline=_headline(view, manifest, survey),
        tiles=_tiles(view, manifest, survey),
        outcome=_outcome(survey),
        view=view,
        funnel=_funnel(view, manifest, survey),
        stages=_stages(manifest),
        reasons=_bars(manifest.reasons, "refused"),
        errors=_bars(manifest.errors, "failed"),
        means={folder: meanings(folder) for folder in ("rejected", "failed")},
        facets=[(heading, bars) for column, heading in view.facets if (bars := _kept_by(column, survey))],
        figures=survey.figures,
        histograms=[*_score_charts(survey), *_ratio_chart(survey)],
        samples=[
            (ANY if rows is survey.failed else view).sample(rows.folder, sample)
            for rows in survey
            for sample in rows.samples
        ],
        totals={rows.folder: rows.count for rows in survey},
        labels=LABELS,
        models=[{**model, "spec": masked_text(str(model.get("spec", "")))} for model in manifest.models],
        config=json.dumps(masked(manifest.config), indent=2, ensure_ascii=False, default=str),
        command=shlex.join(masked_command(manifest.command)),
    )
    return templates.write_whole(Path(out) / "report.html", page)


def _stages(manifest: Manifest) -> list[dict[str, Any]]:
    """The runs of the chain that this one ends, this one included."""
    if not manifest.stages:
        return []
    return [stage_line(run) for run in (*manifest.stages, stage_entry(manifest.job, "", vars(manifest)))]


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _headline(view: View, manifest: Manifest, survey: Survey) -> tuple[str, str]:
    """(mood, sentence): what came of the run, at a glance."""
    kept, refused, failed = (rows.count for rows in survey)
    total = kept + refused + failed
    if not total:
        return "bad", "The run made no rows."
    if not kept:
        return "bad", f"None of {total:,} rows was kept."
    total = view.total(manifest, survey)
    mood = "good" if kept >= 0.5 * total and failed <= 0.1 * total else "mixed"
    return mood, view.headline(manifest, survey).replace(" %", "\u00a0%")


def _tiles(view: View, manifest: Manifest, survey: Survey) -> list[tuple[str, str, str, str]]:
    """(class, label, value, note) of what came of the run and what it took."""
    total = sum(rows.count for rows in survey)
    sent, received, paid, cached = map(manifest.called, ("prompt_tokens", "completion_tokens", "paid", "cached"))
    over_all = last = ""
    if (spent := manifest.spent.get("tokens", 0)) > sent + received:
        stages = "stages and " if manifest.spent["shared"] else ""
        over_all = f"; {formatting.compact(spent)} over all {stages}invocations"
        last = " in the last invocation"
    prices = [role.get("usd") for role in manifest.calls.values() if role.get("paid") or role.get("wasted_tokens")]
    recorded = manifest.called("recorded")
    if not prices:
        kept = "a recording" if recorded and not cached else "the cache or a recording" if recorded else "the cache"
        cost, note = "$0", f"every answer came from {kept}{last}" if cached or recorded else "no model was called"
    elif any(usd is None for usd in prices):
        cost, note = "–", "no price is known for the model"
    else:
        cost, note = f"${sum(prices):,.2f}" if sum(prices) >= 0.995 else f"${sum(prices):.3g}", f"{paid:,} paid calls"
        note += (f", {cached:,} from cache" if cached else "") + last
    tiles = [
        (
            rows.folder,
            LABELS[rows.folder],
            f"{rows.count:,}",
            f"{formatting.share(rows.count, total)} of {'rows' if rows is survey.failed else view.rows}"
            + (f", {rows.repaired:,} after repair" if rows is survey.data and rows.repaired else ""),
        )
        for rows in survey
    ]
    rate = f", {formatting.compact((sent + received) / manifest.duration_s)}/s" if manifest.duration_s > 0 else ""
    tokens = f"{formatting.compact(sent)} sent, {formatting.compact(received)} received{rate}{over_all}"
    finished = f"finished {manifest.finished[:16].replace('T', ' ')}"
    return [
        *tiles,
        ("plain", "Tokens", formatting.compact(sent + received), tokens),
        ("plain", "Cost", cost, note),
        ("plain", "Time", formatting.duration(manifest.duration_s), finished),
    ]


def _outcome(survey: Survey) -> dict[str, Any]:
    parts = [
        ("kept", survey.data.count - survey.data.repaired, "kept at first try"),
        ("repaired", survey.data.repaired, "kept after repair"),
        ("refused", survey.rejected.count, "refused"),
        ("failed", survey.failed.count, "failed"),
    ]
    return {"bar": charts.stacked_bar(parts), "parts": [part for part in parts if part[1]]}


def _bar(name: str, n: int, share: str, parts: list[tuple[str, int, str]], width: int | None = None) -> dict[str, Any]:
    """A line of a bar chart; `width` is what the full width stands for."""
    return {"name": name, "n": n, "share": share, "bar": charts.stacked_bar(parts, width)}


def _funnel(view: View, manifest: Manifest, survey: Survey) -> list[dict[str, Any]]:
    """Stages from rows read to rows kept; a stage that the manifest does not know is left out."""
    known = [(name, n, kind) for name, n, kind in view.funnel(manifest, survey) if n is not None]
    width = max((n for _, n, _ in known), default=0) or 1
    tasks = manifest.counts.get("listed") or manifest.attempted or view.total(manifest, survey)
    return [
        _bar(name, n, formatting.share(n, tasks) if kind == "kept" else "", [(kind, n, name)], width)
        for name, n, kind in known
    ]


def _bars(counts: dict[str, int], kind: str, most: int = 16) -> list[dict[str, Any]]:
    ranked = formatting.by_count(counts)
    if len(ranked) > most:
        ranked = [*ranked[: most - 1], ("all others", sum(n for _, n in ranked[most - 1 :]))]
    total, top = sum(counts.values()), max(counts.values(), default=1)
    return [_bar(name, n, formatting.share(n, total), [(kind, n, name)], top) for name, n in ranked]


def _kept_by(column: str, survey: Survey) -> list[dict[str, Any]]:
    kept, refused = (rows.values.get(column, Counter()) for rows in (survey.data, survey.rejected))
    return [
        _bar(
            short(name) or "not given",
            judged,
            formatting.share(kept[name], judged),
            [("kept", kept[name], "kept"), ("refused", refused[name], "refused")],
        )
        for name, judged in formatting.by_count(kept + refused)[:24]
    ]


def _score_charts(survey: Survey) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{formatting.words(check)} score",
            "note": f"{scores.refusals:,} of {scores.verdicts:,} verdicts refuse"
            + (f", median of the rest {quantile(scores.passed, 0.5):.2f}" if scores.passed.any() else ""),
            "chart": charts.histogram(
                [
                    ("refused", "refused", charts.rebin(scores.refused, 25)),
                    ("kept", "passed", charts.rebin(scores.passed, 25)),
                ],
                0,
                1,
            ),
            "ticks": ["0", "0.5", "1"],
        }
        for check, scores in survey.scores
    ]


def _ratio_chart(survey: Survey) -> list[dict[str, Any]]:
    kept, refused = (
        np.append(charts.rebin(rows.ratios[:-1], 30), rows.ratios[-1]) for rows in (survey.data, survey.rejected)
    )
    if not kept.any() and not refused.any():
        return []
    median = quantile(survey.data.ratios[:-1], 0.5, RATIO_MAX)
    return [
        {
            "name": "length ratio",
            "note": "characters of text per character of source"
            + (f", median {median:.2f}" if median == median else ""),
            "chart": charts.histogram([("kept", "kept", kept), ("refused", "refused", refused)], 0, RATIO_MAX, True),
            "ticks": ["0", "1.5", f"{RATIO_MAX:g}+"],
        }
    ]

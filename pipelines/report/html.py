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
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from tokenmill.pipelines.report import charts, figures, templates
from tokenmill.pipelines.report.masking import masked, masked_command, masked_text
from tokenmill.pipelines.report.reasons import meanings
from tokenmill.pipelines.report.samples import sample_view, short
from tokenmill.pipelines.report.stages import stage_entry, stage_line
from tokenmill.pipelines.report.survey import RATIO_MAX, Survey, quantile, survey_run
from tokenmill.pipelines.report.wording import Wording, wording
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
    words = wording(survey)
    css, js = templates.text("report.css"), templates.text("report.js")
    page = templates.render(
        "report.html.j2",
        m=manifest,
        css=Markup(css),
        js=Markup(js),
        policy=f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(js)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        headline=_headline(manifest, survey),
        tiles=_tiles(manifest, survey),
        outcome=_outcome(survey),
        wording=words,
        funnel=_funnel(words, manifest, survey),
        stages=_stages(manifest),
        reasons=_bars(manifest.reasons, "refused"),
        errors=_bars(manifest.errors, "failed"),
        means={folder: meanings(folder) for folder in ("rejected", "failed")},
        facets=[(heading, bars) for column, heading in words.facets if (bars := _kept_by(column, survey))],
        tools=survey.tools and survey.tools.tables(),
        pictures=[(p.title, _data_url(p.content)) for p in survey.tools.pictures] if survey.tools else [],
        trajectories=survey.trajectories and survey.trajectories.tables(),
        histograms=[*_score_charts(survey), *_ratio_chart(survey)],
        samples=[sample_view(rows.folder, sample) for rows in survey for sample in rows.samples],
        totals={rows.folder: rows.count for rows in survey},
        labels=LABELS,
        calls=[(role, _Zeros(calls)) for role, calls in manifest.calls.items() if isinstance(calls, dict)],
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


class _Zeros(dict):
    """Counts, where one that is not given is 0."""

    def __missing__(self, key: str) -> int:
        return 0


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _headline(manifest: Manifest, survey: Survey) -> tuple[str, str]:
    """(mood, sentence): what came of the run, at a glance."""
    kept, refused, failed = (rows.count for rows in survey)
    total = kept + refused + failed
    if not total:
        return "bad", "The run made no rows."
    if not kept:
        return "bad", f"None of {total:,} rows was kept."
    words = wording(survey)
    total = words.total(manifest, survey)
    mood = "good" if kept >= 0.5 * total and failed <= 0.1 * total else "mixed"
    return mood, words.headline(manifest, survey).replace(" %", "\u00a0%")


def _tiles(manifest: Manifest, survey: Survey) -> list[dict[str, str]]:
    words = wording(survey)
    total = sum(rows.count for rows in survey)
    roles = [role for role in manifest.calls.values() if isinstance(role, dict)]
    sent, received, paid, cached = (
        sum(int(role.get(key) or 0) for role in roles)
        for key in ("prompt_tokens", "completion_tokens", "paid", "cached")
    )
    over_all = last = ""
    if (spent := manifest.spent.get("tokens", 0)) > sent + received:
        stages = "stages and " if manifest.spent["shared"] else ""
        over_all = f"; {figures.compact(spent)} over all {stages}invocations"
        last = " in the last invocation"
    prices = [role.get("usd") for role in roles if role.get("paid") or role.get("wasted_tokens")]
    if not prices:
        cost, note = "$0", f"every answer came from the cache{last}" if cached else "no model was called"
    elif any(usd is None for usd in prices):
        cost, note = "–", "no price is known for the model"
    else:
        cost, note = f"${sum(prices):,.2f}" if sum(prices) >= 0.995 else f"${sum(prices):.3g}", f"{paid:,} paid calls"
        note += (f", {cached:,} from cache" if cached else "") + last
    tiles = [
        {
            "kind": rows.folder,
            "label": LABELS[rows.folder],
            "value": f"{rows.count:,}",
            "note": f"{figures.share(rows.count, total)} of {'rows' if rows.folder == 'failed' else words.rows}",
        }
        for rows in survey
    ]
    if survey.data.repaired:
        tiles[0]["note"] += f", {survey.data.repaired:,} after repair"
    rate = f", {figures.compact((sent + received) / manifest.duration_s)}/s" if manifest.duration_s > 0 else ""
    return [
        *tiles,
        {
            "kind": "plain",
            "label": "Tokens",
            "value": figures.compact(sent + received),
            "note": f"{figures.compact(sent)} sent, {figures.compact(received)} received{rate}{over_all}",
        },
        {"kind": "plain", "label": "Cost", "value": cost, "note": note},
        {
            "kind": "plain",
            "label": "Time",
            "value": figures.duration(manifest.duration_s),
            "note": f"finished {manifest.finished[:16].replace('T', ' ')}",
        },
    ]


def _outcome(survey: Survey) -> dict[str, Any]:
    parts = [
        ("kept", survey.data.count - survey.data.repaired, "kept at first try"),
        ("repaired", survey.data.repaired, "kept after repair"),
        ("refused", survey.rejected.count, "refused"),
        ("failed", survey.failed.count, "failed"),
    ]
    return {"bar": charts.stacked_bar(parts), "parts": [part for part in parts if part[1]]}


def _funnel(words: Wording, manifest: Manifest, survey: Survey) -> list[dict[str, Any]]:
    """Stages from rows read to rows kept; a stage that the manifest does not know is left out."""
    known = [(name, n, kind) for name, n, kind in words.funnel(manifest, survey) if n is not None]
    whole = max((n for _, n, _ in known), default=0) or 1
    tasks = manifest.counts.get("listed") or manifest.attempted or words.total(manifest, survey)
    return [
        {
            "name": name,
            "n": n,
            "share": figures.share(n, tasks) if kind == "kept" else "",
            "bar": charts.stacked_bar([(kind, n, name)], whole),
        }
        for name, n, kind in known
    ]


def _bars(counts: dict[str, int], kind: str, most: int = 16) -> list[dict[str, Any]]:
    ranked = figures.by_count(counts)
    if len(ranked) > most:
        ranked = [*ranked[: most - 1], ("all others", sum(n for _, n in ranked[most - 1 :]))]
    total, top = sum(counts.values()), max(counts.values(), default=1)
    return [
        {"name": name, "n": n, "share": figures.share(n, total), "bar": charts.stacked_bar([(kind, n, name)], top)}
        for name, n in ranked
    ]


def _kept_by(column: str, survey: Survey) -> list[dict[str, Any]]:
    kept, refused = (rows.values.get(column, {}) for rows in (survey.data, survey.rejected))
    names = sorted(kept.keys() | refused.keys(), key=lambda s: (-(kept.get(s, 0) + refused.get(s, 0)), s))[:24]
    return [
        {
            "name": short(name) or "not given",
            "n": (judged := kept.get(name, 0) + refused.get(name, 0)),
            "share": figures.share(kept.get(name, 0), judged),
            "bar": charts.stacked_bar(
                [("kept", kept.get(name, 0), "kept"), ("refused", refused.get(name, 0), "refused")]
            ),
        }
        for name in names
    ]


def _score_charts(survey: Survey) -> list[dict[str, Any]]:
    merged: dict[str, list[np.ndarray]] = {}
    for rows in survey:
        for check, scores in rows.scores.items():
            sums = merged.setdefault(check, [np.zeros_like(scores.passed), np.zeros_like(scores.refused)])
            sums[0], sums[1] = sums[0] + scores.passed, sums[1] + scores.refused
    return [
        {
            "name": f"{figures.words(check)} score",
            "note": f"{int(refused.sum()):,} of {int((passed + refused).sum()):,} verdicts refuse"
            + (f", median of the rest {quantile(passed, 0.5):.2f}" if passed.any() else ""),
            "chart": charts.histogram(
                [("refused", "refused", charts.rebin(refused, 25)), ("kept", "passed", charts.rebin(passed, 25))], 0, 1
            ),
            "ticks": ["0", "0.5", "1"],
        }
        for check, (passed, refused) in sorted(merged.items())
    ]


def _ratio_chart(survey: Survey) -> list[dict[str, Any]]:
    kept, refused = ([*charts.rebin(rows.ratios[:-1], 30), rows.ratios[-1]] for rows in (survey.data, survey.rejected))
    if not any(kept) and not any(refused):
        return []
    median = quantile(survey.data.ratios[:-1], 0.5, RATIO_MAX)
    return [
        {
            "name": "length ratio",
            "note": "characters of text per character of source"
            + (f", median {median:.2f}" if median == median else ""),
            "chart": charts.histogram(
                [("kept", "kept", np.array(kept)), ("refused", "refused", np.array(refused))], 0, RATIO_MAX, True
            ),
            "ticks": ["0", "1.5", f"{RATIO_MAX:g}+"],
        }
    ]

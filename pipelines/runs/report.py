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

from pipelines.runs import charts, figures, templates
from pipelines.runs.marks import Span, differing, marked, quoted
from pipelines.runs.masking import masked, masked_command, masked_text
from pipelines.runs.survey import RATIO_MAX, Rows, Sample, Survey, quantile, survey_run
from schemas.manifest import Manifest

LABELS = {"data": "Kept", "rejected": "Refused", "failed": "Failed"}
_SHOWN = 12_000
"""Characters shown of a text; the rest is in the shards."""
_FINDINGS, _VERDICTS = 8, 60
_TEXTS = ("text", "source_text", "refused_source", "refused_text", "verdicts", "messages", "excerpt", "message")


def write_report(out: Path, manifest: Manifest, survey: Survey | None = None) -> Path:
    """Write `OUT/report.html` from the manifest and the shards.

    Args:
        survey: what `survey_run(out)` returned, where the caller has it already.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read, or the report not written.
    """
    survey = survey or survey_run(out)
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
        funnel=_funnel(manifest, survey),
        reasons=_bars(manifest.reasons, "refused"),
        errors=_bars(manifest.errors, "failed"),
        styles=_styles(survey),
        histograms=[*_score_charts(survey), *_ratio_chart(survey)],
        samples=[_sample_view(rows, sample) for rows in survey for sample in rows.samples],
        totals={rows.folder: rows.count for rows in survey},
        labels=LABELS,
        calls=[(role, _Zeros(calls)) for role, calls in manifest.calls.items() if isinstance(calls, dict)],
        models=[{**model, "spec": masked_text(str(model.get("spec", "")))} for model in manifest.models],
        config=json.dumps(masked(manifest.config), indent=2, ensure_ascii=False, default=str),
        command=shlex.join(masked_command(manifest.command)),
    )
    return templates.write_whole(Path(out) / "report.html", page)


class _Zeros(dict):
    """Counts, where one that is not given is 0."""

    def __missing__(self, key: str) -> int:
        return 0


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _headline(manifest: Manifest, survey: Survey) -> tuple[str, str]:
    """(mood, sentence): what came of the run, at a glance."""
    kept, refused, failed = (rows.count for rows in survey)
    total = kept + refused + failed
    if not total:
        return "bad", "The run made no rows."
    if not kept:
        return "bad", f"None of {total:,} rows was kept."
    mood = "good" if kept >= 0.5 * total and failed <= 0.1 * total else "mixed"
    share = figures.share(kept, total).replace(" ", "\u00a0")
    return mood, f"{kept:,} of {total:,} rows kept ({share})."


def _tiles(manifest: Manifest, survey: Survey) -> list[dict[str, str]]:
    total = sum(rows.count for rows in survey)
    roles = [role for role in manifest.calls.values() if isinstance(role, dict)]
    sent, received, paid, cached = (
        sum(int(role.get(key) or 0) for role in roles)
        for key in ("prompt_tokens", "completion_tokens", "paid", "cached")
    )
    prices = [role.get("usd") for role in roles if role.get("paid")]
    if not paid:
        cost, note = "$0", "every answer came from the cache" if cached else "no model was called"
    elif any(usd is None for usd in prices):
        cost, note = "–", "no price is known for the model"
    else:
        cost, note = f"${sum(prices):,.2f}" if sum(prices) >= 0.995 else f"${sum(prices):.3g}", f"{paid:,} paid calls"
        note += f", {cached:,} from cache" if cached else ""
    tiles = [
        {
            "kind": rows.folder,
            "label": LABELS[rows.folder],
            "value": f"{rows.count:,}",
            "note": f"{figures.share(rows.count, total)} of rows",
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
            "note": f"{figures.compact(sent)} sent, {figures.compact(received)} received{rate}",
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


def _funnel(manifest: Manifest, survey: Survey) -> list[dict[str, Any]]:
    """Stages from rows read to rows kept; a stage that the manifest does not know is left out."""
    counts = manifest.counts
    kept, refused, failed = (rows.count for rows in survey)
    tasks = counts.get("tasks", kept + refused + failed)
    unreadable = counts.get("unreadable", 0)
    stages = [
        ("Input rows read", counts.get("read"), "plain"),
        ("Pieces of work", tasks, "plain"),
        ("Written and judged", tasks - (failed - unreadable), "plain"),
        ("Kept", kept, "kept"),
        ("Kept at first try", kept - survey.data.repaired if survey.data.repaired else None, "kept"),
    ]
    known = [(name, n, kind) for name, n, kind in stages if n is not None]
    whole = max((n for _, n, _ in known), default=0) or 1
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
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ranked) > most:
        ranked = [*ranked[: most - 1], ("all others", sum(n for _, n in ranked[most - 1 :]))]
    total, top = sum(counts.values()), max(counts.values(), default=1)
    return [
        {"name": name, "n": n, "share": figures.share(n, total), "bar": charts.stacked_bar([(kind, n, name)], top)}
        for name, n in ranked
    ]


def _styles(survey: Survey) -> list[dict[str, Any]]:
    kept, refused = (rows.values.get("style", {}) for rows in (survey.data, survey.rejected))
    names = sorted(kept.keys() | refused.keys(), key=lambda s: (-(kept.get(s, 0) + refused.get(s, 0)), s))[:24]
    return [
        {
            "name": _short(name),
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


def _sample_view(rows: Rows, sample: Sample) -> dict[str, Any]:
    """A row as the template shows it."""
    row = sample.row
    reason = row.get("reason") or row.get("error") or ""
    attempts = _attempts(row.get("verdicts"))
    final = attempts[-1]["verdicts"] if attempts else []
    return {
        "folder": rows.folder,
        "id": str(row.get("id", "")),
        "title": str(row.get("title") or row.get("id") or ""),
        "reason": str(reason),
        "style": str(row.get("style") or ""),
        "chips": [_short(str(row[c])) for c in ("style", "perspective", "language", "model") if row.get(c)],
        "pairs": _pairs(row, sample.lengths, [f for v in final if not v["passed"] for f in v["findings"]]),
        "turns": _turns(row.get("messages")),
        "message": str(row.get("message") or ""),
        "excerpt": str(row.get("excerpt") or ""),
        "attempts": attempts,
        "repaired": rows.folder == "data" and any(not v["passed"] for a in attempts for v in a["verdicts"]),
        "fields": [
            (name, figures.one_line(", ".join(map(str, value)) if isinstance(value, list) else value, 300))
            for name, value in row.items()
            if name not in _TEXTS and value not in (None, "", [])
        ],
    }


def _pairs(row: dict[str, Any], lengths: dict[str, int], findings: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Texts before and after, side by side; what was refused comes first, the whole passage after it."""
    wanted = [("source_text", "text", "Source", "Rewrite")]
    if row.get("refused_text") or row.get("refused_source"):
        chunk = row.get("refused_chunk", -1)
        where = "the whole passage" if chunk == -1 else f"chunk {chunk}"
        wanted.insert(0, ("refused_source", "refused_text", f"Source, {where}", f"Refused rewrite, {where}"))
    if len(wanted) == 2 and all(row.get(a) == row.get(b) for a, b in zip(wanted[0][:2], wanted[1][:2], strict=True)):
        wanted.pop()
    pairs = []
    for i, (before, after, *labels) in enumerate(wanted):
        source, text = row.get(before), row.get(after)
        if not isinstance(source, str):
            source = ""
        if not isinstance(text, str):
            text = ""
        if not source and not text:
            continue
        # What a chunk's rewrite says may stand elsewhere in the document.
        context = "\n".join(
            str(row.get(c) or "") for c in (("title", "source_text") if i < len(wanted) - 1 else ("title",))
        )
        compared = not lengths.keys() & {before, after}
        lost, added = _differing(source, text, context, row) if compared else ([], [])
        sides = []
        for side, label, body, layer, spans in (
            (0, labels[0], source, "lost", lost),
            (1, labels[1], text, "added", added),
        ):
            quotes = quoted(body, (f[("source", "rewrite")[side]] for f in findings))
            length = lengths.get((before, after)[side], len(body))
            sides.append(
                {
                    "label": label,
                    "html": marked(body, {layer: spans, "quote": quotes}, _SHOWN),
                    "length": length,
                    "marks": len(spans),
                    "more": max(length - _SHOWN, 0),
                }
            )
        pairs.append({"sides": sides if source else sides[1:], "folded": i > 0})
    return pairs


def _differing(source: str, text: str, context: str, row: dict[str, Any]) -> tuple[list[Span], list[Span]]:
    find = differing()
    if not find or not source or not text:
        return [], []
    return find(source, text, context=context, language=str(row.get("language") or "und"))


def _attempts(verdicts: Any) -> list[dict[str, Any]]:
    """Verdicts by attempt, in the order of attempts."""
    if not isinstance(verdicts, list):
        return []
    grouped: dict[int, list[dict[str, Any]]] = {}
    for verdict in (v for v in verdicts[:_VERDICTS] if isinstance(v, dict) and "check" in v):
        chunk = verdict.get("chunk")
        found = [f for f in verdict.get("findings") or [] if isinstance(f, dict)]
        grouped.setdefault(int(verdict.get("attempt") or 0), []).append(
            {
                "check": str(verdict["check"]),
                "where": "" if chunk is None else "whole passage" if chunk == -1 else f"chunk {chunk}",
                "passed": bool(verdict.get("passed")),
                "score": verdict.get("score"),
                "reason": str(verdict.get("reason") or ""),
                "findings": [
                    {k: str(f.get(k) or "")[:600] for k in ("kind", "detail", "source", "rewrite")}
                    for f in found[:_FINDINGS]
                ],
                "more": max(len(found) - _FINDINGS, 0),
            }
        )
    return [
        {"attempt": attempt, "verdicts": sorted(group, key=lambda v: (v["passed"], v["check"]))}
        for attempt, group in sorted(grouped.items())
    ]


def _turns(messages: Any) -> list[dict[str, str]]:
    """A dialogue for reading, from a list of messages or its JSON text."""
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except ValueError:
            return []
    if not isinstance(messages, list):
        return []
    turns = []
    for message in (m for m in messages[:40] if isinstance(m, dict)):
        content = message.get("content") or ""
        calls = message.get("tool_calls")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        if calls:
            text += ("\n" if text else "") + (
                calls if isinstance(calls, str) else json.dumps(calls, ensure_ascii=False)
            )
        turns.append({"role": str(message.get("role", "")), "text": text[:2000]})
    return turns


def _short(name: str) -> str:
    """`styles/question_and_answer` as `question and answer`."""
    return figures.one_line(figures.words(name.removeprefix("styles/").removeprefix("perspectives/")), 60)

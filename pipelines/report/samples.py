"""A drawn row as the report shows it: texts side by side with their differences marked, and the verdicts by attempt."""

from __future__ import annotations

import json
from typing import Any

from tokenmill.pipelines.report import figures
from tokenmill.pipelines.report.highlight import Span, differing, marked, quoted
from tokenmill.pipelines.report.sample_draw import Sample
from tokenmill.pipelines.report.tools.sample import tool_view
from tokenmill.pipelines.report.trajectories.sample import HIDDEN, trajectory_sample

_SHOWN = 12_000
"""Characters shown of a text; the rest is in the shards."""
_FINDINGS, _VERDICTS = 8, 60
_TEXTS = (
    "text",
    "source_text",
    "refused_source",
    "refused_text",
    "verdicts",
    "messages",
    "excerpt",
    "message",
    "detail",
)


def sample_view(folder: str, sample: Sample) -> dict[str, Any]:
    """A row of `data`, `rejected` or `failed` as the template shows it; what its columns do not give is left out."""
    row = sample.row
    reason = row.get("reason") or row.get("error") or ""
    attempts = _attempts(row.get("verdicts"))
    final = attempts[-1]["verdicts"] if attempts else []
    tools = _tools(row, sample.twin)
    trajectory = trajectory_sample(row)
    return {
        "folder": folder,
        "id": str(row.get("id", "")),
        "title": tools[0]["name"] if tools else str(row.get("title") or row.get("name") or row.get("id") or ""),
        "reason": str(reason),
        "style": str(row.get("style") or row.get("origin") or (row.get("level") if trajectory else "") or ""),
        "chips": [short(str(row[c])) for c in ("style", "perspective", "language", "model") if row.get(c)],
        "pairs": _pairs(row, sample.lengths, [f for v in final if not v["passed"] for f in v["findings"]]),
        "turns": [] if trajectory else _turns(row.get("messages")),
        "trajectory": trajectory,
        "message": str(row.get("message") or row.get("detail") or ("" if tools else row.get("description")) or ""),
        "tools": tools,
        "excerpt": str(row.get("excerpt") or ""),
        "attempts": attempts,
        "repaired": folder == "data" and any(not v["passed"] for a in attempts for v in a["verdicts"]),
        "fields": [
            (name, figures.one_line(", ".join(map(str, value)) if isinstance(value, list) else value, 300))
            for name, value in row.items()
            if name not in _TEXTS
            and not (trajectory and name in HIDDEN)
            and value not in (None, "", [])
            and not (tools and _hollow(value))
        ],
    }


def _tools(row: dict[str, Any], twin: Sample | None) -> list[dict[str, Any]]:
    """The tool that a row is, beside the one that it repeats."""
    view = tool_view(row, "Refused" if twin else "")
    if view is None:
        return []
    other = tool_view(twin.row, "Kept" if twin.row.get("reason") is None else "Refused too") if twin else None
    return [view, other] if other else [view]


def _hollow(value: Any) -> bool:
    return isinstance(value, dict) and not any(value.values())


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


def short(name: str) -> str:
    """`styles/question_and_answer` as `question and answer`."""
    return figures.one_line(figures.words(name.removeprefix("styles/").removeprefix("perspectives/")), 60)

"""A drawn trajectory as the report shows it: who said what, which calls were made and what became of them, the verdicts."""

from __future__ import annotations

from typing import Any

from tokenmill.pipelines.report.figures import one_line

HIDDEN = (
    *("messages", "tools", "rubric", "verdicts", "calls", "persona", "state_before", "state_after", "goal"),
    *("situation", "detail", "prompts"),
)
"""Columns that the view shows itself, or that are too long for the list of fields."""
_TEXT, _RESULT, _TURNS = 4000, 1500, 80


def is_trajectory(row: dict[str, Any]) -> bool:
    """Whether a row has a trajectory's columns."""
    return isinstance(row.get("messages"), list) and isinstance(row.get("rubric"), list) and "ended" in row


def trajectory_sample(row: dict[str, Any]) -> dict[str, Any] | None:
    """Turns and verdicts of a row, None where it is no trajectory."""
    if not is_trajectory(row):
        return None
    described = {criterion["id"]: criterion["description"] for criterion in row["rubric"]}
    turns = _turns(row)
    return {
        "turns": turns[:_TURNS],
        "more": max(len(turns) - _TURNS, 0),
        "goal": one_line(row.get("goal") or "", 600),
        "facts": [
            ("level", row["level"].replace("_", " ")),
            ("ended", row["ended"].replace("_", " ")),
            ("persona", (row.get("persona") or {}).get("name", "")),
            ("engine", row.get("engine", "")),
            ("score", f"{row['score']:.2f} of {row['threshold']:.2f} needed"),
            ("cost", f"{row['model_calls']} model calls, {row['prompt_tokens'] + row['completion_tokens']:,} tokens"),
        ],
        "verdicts": [
            {
                "criterion": verdict["criterion"],
                "description": one_line(described.get(verdict["criterion"], ""), 300),
                "passed": bool(verdict["passed"]),
                "score": verdict["score"],
                "by": verdict["decided_by"],
                "reason": verdict["reason"],
                "detail": one_line(verdict["detail"], 600),
                "quotes": [one_line(quote["text"], 240) for quote in (verdict["quotes"] or [])[:4]],
            }
            for verdict in sorted(row["verdicts"], key=lambda verdict: bool(verdict["passed"]))
        ],
    }


def _turns(row: dict[str, Any]) -> list[dict[str, str]]:
    records = {record["id"]: record for record in row["calls"]}
    turns: list[dict[str, str]] = []
    for message in row["messages"]:
        role, text = message["role"], message.get("content") or ""
        if role == "tool":
            record = records.get(message.get("tool_call_id"), {})
            outcome = record.get("outcome")
            notes = [record.get("error"), outcome if outcome != "success" else ""]
            note = ", ".join(word.replace("_", " ") for word in notes if word)
            turns.append(_turn("result", text[:_RESULT], message.get("tool_call_id") or "", note))
            continue
        if text or not message.get("tool_calls"):
            turns.append(_turn(role, text[:_TEXT]))
        for call in message.get("tool_calls") or ():
            turns.append(_turn("call", call["function"]["arguments"][:_RESULT], call["id"]))
    return turns


def _turn(role: str, text: str, call: str = "", note: str = "") -> dict[str, str]:
    return {"role": role, "text": text, "call": one_line(call, 100), "note": note}

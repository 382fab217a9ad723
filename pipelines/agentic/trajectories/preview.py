"""A trajectory as a person reads it in a terminal: turns, calls with their results, verdicts."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from tokenmill.schemas.agentic import CallRecord, Trajectory

LONGEST = 1200
_STYLES = {"system": "dim", "user": "cyan", "assistant": "green", "tool": "dim"}


def view(row: Trajectory) -> RenderableType:
    """The rows of a preview: the whole conversation, long texts cut, and every verdict."""
    table = Table(box=box.SIMPLE_HEAD, expand=True, title=f"{row.level} · {row.ended}", title_justify="left")
    table.add_column("who", width=10)
    table.add_column("said or did", ratio=1)
    calls = {call.id: call for call in row.calls}
    for message in row.messages:
        style = _STYLES.get(message.role, "")
        if message.role == "tool":
            call = calls.get(message.tool_call_id or "")
            table.add_row(
                Text("  result", style), Text(f"{message.tool_call_id}{_what(call)}\n{_short(message.content)}")
            )
            continue
        if message.content or not message.tool_calls:
            table.add_row(Text(message.role, style), Text(_short(message.content)))
        for made in message.tool_calls or ():
            table.add_row(Text("  call", style), Text(f"{made.id} {_short(made.function.arguments)}"))
    verdicts = [
        Text(
            f"  {'✓' if verdict.passed else '✗'} {verdict.criterion} ({verdict.decided_by}) "
            f"{verdict.score:.2f} {verdict.reason} {verdict.detail}".rstrip(),
            "dim" if verdict.passed else "yellow",
        )
        for verdict in row.verdicts
    ]
    return Group(table, *verdicts)


def _what(call: CallRecord | None) -> str:
    if call is None:
        return ""
    said = [call.error, "" if call.outcome == "success" else call.outcome]
    return "  " + " · ".join(word for word in said if word) if any(said) else ""


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= LONGEST else text[:LONGEST] + " […]"

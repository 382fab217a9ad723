"""Trajectories: who said what, which calls were made and what became of them, the verdicts; and how tries at tasks went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from tokenmill.pipelines.report.sample_draw import Sample
from tokenmill.pipelines.report.tally import Shards, Survey
from tokenmill.pipelines.report.views.base import Stage, View
from tokenmill.pipelines.report.views.pass_rates import PassRates, survey_tries
from tokenmill.schemas.agentic import Trajectory

if TYPE_CHECKING:
    from tokenmill.schemas.manifest import Manifest

_TURNS = 80
"""Turns that the report shows."""
_PREVIEWED = 1200
"""Characters of a turn in a preview."""
_STYLES = {"system": "dim", "user": "cyan", "assistant": "green", "call": "green", "result": "dim"}


class TrajectoryView(View):
    """Rows that are trajectories."""

    rows = "trajectories"
    facet = "Level"
    facets = ()
    """Levels have a table of their own."""
    card = "trajectories.md.j2"
    page = "trajectories.html.j2"
    hidden = (
        *(*View.hidden, "messages", "tools", "rubric", "calls", "persona", "state_before", "state_after", "goal"),
        *("situation", "prompts"),
    )

    def funnel(self, manifest: Manifest, survey: Survey) -> list[Stage]:
        counts, tries = manifest.counts, survey.figures
        return [
            ("Tasks read", counts.get("read"), "plain"),
            ("Tries", counts.get("tasks"), "plain"),
            ("Run and judged", tries and tries.whole.judged, "plain"),
            ("Ended by the user", tries and tries.endings.get("user_done", 0), "plain"),
            ("Kept", survey.data.count, "kept"),
        ]

    def figures(self, out: Path, shards: Shards) -> PassRates | None:
        return survey_tries(shards)

    def sample(self, folder: str, sample: Sample) -> dict[str, Any]:
        row, turns = sample.row, list(_turns(sample.row))
        own = {
            "row": row,
            "turns": turns[:_TURNS],
            "more": max(len(turns) - _TURNS, 0),
            "described": {criterion["id"]: criterion["description"] for criterion in row["rubric"]},
            "verdicts": sorted(row["verdicts"], key=lambda verdict: verdict["passed"]),
        }
        return super().sample(folder, sample) | {"style": row["level"], "own": own}

    def told(self, row: Trajectory) -> Iterable[RenderableType]:
        """The whole conversation, long texts cut, and every verdict."""
        table = Table(box=box.SIMPLE_HEAD, expand=True, title=f"{row.level} · {row.ended}", title_justify="left")
        table.add_column("who", width=10)
        table.add_column("said or did", ratio=1)
        for turn in _turns(asdict(row)):
            text = turn.text if len(turn.text) <= _PREVIEWED else turn.text[:_PREVIEWED] + " […]"
            style, notes = _STYLES.get(turn.role, ""), " · ".join(turn.notes)
            if turn.role == "result":
                text = f"{turn.call}{notes and '  '}{notes}\n{text}"
            elif turn.call:
                text = f"{turn.call} {text}"
            table.add_row(Text(f"  {turn.role}" if turn.call else turn.role, style), Text(text))
        yield table
        for verdict in row.verdicts:
            told = (
                f"  {'✓' if verdict.passed else '✗'} {verdict.criterion} ({verdict.decided_by}) "
                f"{verdict.score:.2f} {verdict.reason} {verdict.detail}"
            )
            yield Text(told.rstrip(), "dim" if verdict.passed else "yellow")


@dataclass(frozen=True)
class Turn:
    """One message, one call of a message, or the result of one."""

    role: str
    text: str
    call: str = ""
    """Id of the call that was made, or that this is the result of."""
    notes: tuple[str, ...] = ()
    """What became of the call, where it did not simply succeed."""


def _turns(row: dict[str, Any]) -> Iterator[Turn]:
    records = {record["id"]: record for record in row["calls"]}
    for message in row["messages"]:
        role, text, calls = message["role"], message["content"] or "", message["tool_calls"] or ()
        if role == "tool":
            record = records.get(message["tool_call_id"], {"error": "", "outcome": "success"})
            notes = (record["error"], record["outcome"] if record["outcome"] != "success" else "")
            yield Turn("result", text, message["tool_call_id"] or "", tuple(filter(None, notes)))
            continue
        if text or not calls:
            yield Turn(role, text)
        for call in calls:
            yield Turn("call", call["function"]["arguments"], call["id"])

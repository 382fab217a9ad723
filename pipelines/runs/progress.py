"""Live progress: one line that moves on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

REFRESH = 0.5
PLAIN_EVERY = 10.0
WAITING = "waiting"
"""Rows that wait for answers from a batch."""
SAID = "said.txt"
"""File in the state folder: what else there is to say, in one line."""


@dataclass
class Figures:
    """What all workers have done so far, added up."""

    rows: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    """Counters of all roles together."""
    roles: dict[str, dict[str, int]] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    """Why rows were refused or failed."""
    in_flight: int = 0
    said: str = ""

    @property
    def done(self) -> int:
        return sum(count for kind, count in self.rows.items() if kind != WAITING)

    @property
    def tokens(self) -> int:
        return self.calls.get("prompt_tokens", 0) + self.calls.get("completion_tokens", 0)


def gather(state: Path) -> Figures:
    """Add up the files that the workers' runtimes write into the state folder."""
    figures = Figures()
    with contextlib.suppress(OSError):
        figures.said = (state / SAID).read_text()
    for path in state.glob("[0-9]*.json"):
        try:
            one = orjson.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if time.time() - one["time"] < 5:
            figures.in_flight += one["in_flight"]
        for kind, count in one["rows"].items():
            figures.rows[kind] = figures.rows.get(kind, 0) + count
        for reason, count in one.get("reasons", {}).items():
            figures.reasons[reason] = figures.reasons.get(reason, 0) + count
        for role, stats in one["roles"].items():
            mine = figures.roles.setdefault(role, {})
            for name, count in stats.items():
                figures.calls[name] = figures.calls.get(name, 0) + count
                mine[name] = mine.get(name, 0) + count
    return figures


class Progress:
    """Shows the figures of a run while it lasts. Use as a context manager."""

    def __init__(self, state: Path, total: int | None, *, stream: Any = None) -> None:
        self.state = state
        self.total = total
        self.stream = stream or sys.stderr
        self._end = threading.Event()
        self.started = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._thread = threading.Thread(target=self._show, name="tokenmill-progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        self._thread.join(timeout=5)

    def line(self, figures: Figures) -> str:
        """All figures as one line of text."""
        elapsed = time.monotonic() - self.started
        calls, rows, done = figures.calls, figures.rows, figures.done
        total = f"/{self.total:,}" if self.total else ""
        parts = [
            f"{done:,}{total} rows",
            f"kept {rows.get('data', 0):,}",
            f"refused {rows.get('rejected', 0):,}",
            f"failed {rows.get('failed', 0):,}",
            *([f"waiting {rows[WAITING]:,}"] if rows.get(WAITING) else []),
            f"in flight {figures.in_flight}",
            f"calls {calls.get('paid', 0):,} + {calls.get('cached', 0):,} cached"
            + (f" + {calls['recorded']:,} recorded" if calls.get("recorded") else ""),
            f"retries {calls.get('retries', 0):,}",
            f"{figures.tokens:,} tokens ({figures.tokens / max(elapsed, 1e-9):,.0f}/s)",
        ]
        left = self.left(done)
        if left is not None:
            parts.append(f"{_clock(left)} left")
        return " · ".join([*parts, figures.said] if figures.said else parts)

    def left(self, done: int) -> float | None:
        """Seconds to go at the pace since the first row was done, so that start-up does not count."""
        now = time.monotonic()
        if self._first is None:
            if done:
                self._first = (now, done)
            return None
        since, first = self._first
        if not self.total or done <= first or now - since < 2:
            return None
        return max(0.0, (self.total - done) * (now - since) / (done - first))

    def _show(self) -> None:
        if self.stream.isatty():
            self._show_live()
        else:
            self._show_plain()

    def _show_live(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        console = Console(file=self.stream)
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            while not self._end.wait(REFRESH):
                live.update(Spinner("dots", text=f" {self.line(gather(self.state))}"))

    def _show_plain(self) -> None:
        shown = ""
        while not self._end.wait(PLAIN_EVERY):
            line = self.line(gather(self.state))
            if line != shown:
                print(line, file=self.stream, flush=True)
                shown = line


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

"""`report.html` while a run lasts: what the terminal's line says and more, never older than a few seconds."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenmill.pipelines.runs.folder import WORK, OutputFolder
from tokenmill.pipelines.runs.progress import Figures, Progress, gather

PAGE = "report.html"
FIRST = 2.0
"""Seconds after which a run is worth a page; what the page needs is then imported beside calls in flight."""
EVERY = 5
"""Seconds between pages."""
_REASONS = 16
_KINDS = (("data", "kept"), ("rejected", "refused"), ("failed", "failed"))
_COLOURS = {"data": "kept", "rejected": "refused", "failed": "failed"}


@contextlib.contextmanager
def shown(out: OutputFolder, job: str, title: str, progress: Progress, *, finished_before: bool) -> Iterator[None]:
    """Meanwhile, keep a page on the run's progress: in the place of its report, or in the work folder where that of a finished
    run is still there. A run that stops leaves its last page, with the reason."""
    if not out.local or not progress.state.is_dir():
        yield
        return
    page = Path(out.path, WORK if finished_before else ".", PAGE)
    end = threading.Event()

    def write(ended: str = "") -> None:
        with contextlib.suppress(OSError):  # to look at only; a full disk is told by whoever writes rows
            from tokenmill.pipelines.report import templates

            templates.write_whole(page, render(job, title, gather(progress.state), progress, ended))

    def renew() -> None:
        pause = FIRST
        while not end.wait(pause):
            write()
            pause = EVERY

    thread = threading.Thread(target=renew, name="tokenmill-live", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        end.set()
        thread.join()
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        write(f"The run has stopped: {reason}. Repeat its command to go on; every answer received so far is kept.")
        raise
    finally:
        end.set()
        thread.join()


def render(job: str, title: str, figures: Figures, progress: Progress, ended: str = "") -> str:
    """The page."""
    from markupsafe import Markup
    from tokenmill.pipelines.report import charts, formatting, templates

    css = templates.text("report.css")
    hashed = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    parts = [(_COLOURS[kind], figures.rows.get(kind, 0), label) for kind, label in _KINDS]
    reasons = formatting.by_count(figures.reasons)[:_REASONS]
    most = max(figures.reasons.values(), default=1)
    elapsed, left = time.monotonic() - progress.started, progress.left(figures.done)
    of = f" of {progress.total:,}" if progress.total else ""
    calls = figures.calls
    tiles: list[tuple[str, str, str, str]] = [
        (kind, label.capitalize(), f"{figures.rows.get(kind, 0):,}", formatting.share(figures.rows.get(kind, 0), figures.done))
        for kind, label in _KINDS
    ]  # fmt: skip
    tokens = f"{formatting.compact(figures.tokens / max(elapsed, 1e-9))}/s"
    tiles += [
        ("plain", "Tokens", formatting.compact(figures.tokens), tokens),
        ("plain", "Calls in flight", f"{figures.in_flight:,}", f"{calls.get('retries', 0):,} retries"),
        ("plain", "Time", formatting.duration(elapsed), f"about {formatting.duration(left)} left" if left else ""),
    ]
    values: dict[str, Any] = dict(
        job=job,
        title=title,
        css=Markup(css),
        policy=f"default-src 'none'; style-src 'sha256-{hashed}'; img-src data:; base-uri 'none'; form-action 'none'",
        every=EVERY,
        ended=ended,
        headline=f"{'Stopped at' if ended else 'Running:'} {figures.done:,}{of} rows",
        bar=charts.stacked_bar(parts, progress.total),
        parts=[part for part in parts if part[1]],
        tiles=tiles,
        reasons=[
            {"name": name, "n": n, "bar": charts.stacked_bar([("refused", n, name)], most)} for name, n in reasons
        ],
        roles=figures.roles,
        now=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
    )
    return templates.render("live.html.j2", **values)

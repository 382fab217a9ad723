import io
import json
import os
import pty
import time

from tokenmill.pipelines.runs.progress import Figures, Progress, gather


def worker(state, name, rows, paid, *, age=0.0):
    roles = {"writer": {"paid": paid, "cached": 1, "retries": 2, "prompt_tokens": 1000, "completion_tokens": 500}}
    (state / name).write_text(json.dumps({"time": time.time() - age, "in_flight": 3, "rows": rows, "roles": roles}))


def test_the_figures_of_all_workers_add_up(tmp_path):
    worker(tmp_path, "1.json", {"data": 4, "rejected": 1}, 10)
    worker(tmp_path, "2.json", {"data": 5, "failed": 2}, 20, age=60)
    (tmp_path / "3.json").write_text("{half")
    (tmp_path / "stopped.json").write_text('["BudgetSpent", "why"]')
    figures = gather(tmp_path)
    assert figures.rows == {"data": 9, "rejected": 1, "failed": 2} and figures.done == 12
    assert (figures.calls["paid"], figures.calls["retries"], figures.tokens) == (30, 4, 3000)
    assert figures.in_flight == 3, "a worker that has gone silent has nothing in flight"


def test_the_line_says_what_a_user_asks(tmp_path):
    progress = Progress(tmp_path, 100)
    progress.started -= 10
    progress.line(Figures({"data": 10}))
    progress._first = (time.monotonic() - 5, 10)
    line = progress.line(
        Figures(
            {"data": 50, "rejected": 9, "failed": 1},
            {"paid": 7, "cached": 2, "retries": 3, "prompt_tokens": 40_000},
            in_flight=12,
        )
    )
    for part in (
        "60/100 rows",
        "kept 50",
        "refused 9",
        "failed 1",
        "in flight 12",
        "7 + 2 cached",
        "retries 3",
        "40,000 tokens (",
        "0:04 left",
    ):
        assert part in line


def test_without_a_terminal_there_are_plain_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmill.pipelines.runs.progress.PLAIN_EVERY", 0.05)
    worker(tmp_path, "1.json", {"data": 4}, 10)
    stream = io.StringIO()
    with Progress(tmp_path, 8, stream=stream):
        time.sleep(0.3)
    lines = stream.getvalue().splitlines()
    assert lines and all(line.startswith("4/8 rows") for line in lines)
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_one_line_moves(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmill.pipelines.runs.progress.REFRESH", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    worker(tmp_path, "1.json", {"data": 4}, 10)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        with Progress(tmp_path, 8, stream=stream):
            time.sleep(0.6)
        shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "4/8 rows" in shown and "\x1b[" in shown

"""The page that a run keeps on itself."""

import json
import threading
import time
from types import SimpleNamespace

import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import Reply, ScriptedServer
from tokenmill.pipelines.runs import live
from tokenmill.pipelines.runs.progress import Figures

from tests.outputs import manifest


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "FIRST", 0.1)
    monkeypatch.setattr(live, "EVERY", 1)
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in documents(6, 6)))
    return path


def arguments(corpus, out, server, *more):
    words = ("knowledge", "--input", corpus, "--output", out, "--llm", server.spec, "--no-similarity", "--no-judge")
    return (*words, "--rephrasings", 1, *more)


class Held(Writer):
    """Answers half of the documents, one of them badly, and then waits until it is let go."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.asked = 0

    def __call__(self, body):
        self.asked += 1
        if self.asked == 2:
            return "Sure, here is the rewrite:"
        return (
            Reply(429, b"{}", (("Retry-After", "0.2"),))
            if self.asked > 4 and not self.go.is_set()
            else super().__call__(body)
        )


def test_while_it_runs_its_report_can_be_opened_and_is_fresh(corpus, tmp_path, run):
    out, writer, done = tmp_path / "out", Held(), []
    with ScriptedServer(writer) as server:
        job = threading.Thread(target=lambda: done.append(run(*arguments(corpus, out, server, "--repairs", 0))))
        job.start()
        page, until = "", time.monotonic() + 40
        while "of 6 rows" not in page or "comments on task" not in page:
            time.sleep(0.1)
            page = (out / "report.html").read_text() if (out / "report.html").exists() else ""
            if time.monotonic() > until or not job.is_alive():
                writer.go.set()
                job.join(60)
                pytest.fail(page[-3000:])
        age = time.time() - (out / "report.html").stat().st_mtime
        assert age < 10 and 'http-equiv="refresh" content="1"' in page and "Running:" in page
        assert "<script" not in page and "default-src &#39;none" in page
        assert not (out / "manifest.json").exists()
        writer.go.set()
        job.join(60)
    assert done[0][0] == 0 and manifest(out)["counts"]["accepted"] == 5
    report = (out / "report.html").read_text()
    assert "Running:" not in report and 'http-equiv="refresh"' not in report


def test_a_run_that_stops_leaves_a_page_that_says_why(corpus, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Writer(), latency=0.2) as server:
        assert run(*arguments(corpus, out, server, "--max-tokens", 1500))[0] == 3
        page = (out / "report.html").read_text()
        assert "Stopped at" in page and "budget of 1,500 tokens is spent" in page and "refresh" not in page
        assert run(*arguments(corpus, out, server))[0] == 0, "and goes on when it is repeated"
    assert "Stopped at" not in (out / "report.html").read_text()


def test_the_report_of_a_finished_run_stays_until_the_next_is_finished(corpus, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Writer(), latency=0.2) as server:
        assert run(*arguments(corpus, out, server))[0] == 0
        before = (out / "report.html").read_text()
        more = ("--seed", 3, "--overwrite", "--max-tokens", 4000)
        assert run(*arguments(corpus, out, server, *more))[0] == 3
    assert (out / "report.html").read_text() == before
    assert "Stopped at" in (out / ".unfinished" / "report.html").read_text()


def test_what_stands_on_the_page_is_escaped(tmp_path):
    progress = SimpleNamespace(started=time.monotonic(), total=4, left=lambda done: 90.0, state=tmp_path)
    figures = Figures({"data": 1}, {"prompt_tokens": 10}, {"writer": {"paid": 3}}, {"<b>odd": 2})
    page = live.render("knowledge", "<i>Title", figures, progress, "why <u>")
    assert "&lt;i&gt;Title" in page and "<i>Title" not in page and "<b>odd" not in page and "<u>" not in page
    assert "about 1 min 30 s left" in page

"""The throughput bench: its corpus, its server, and how it counts what a command takes."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from tokenmill.bench.throughput.__main__ import main, table, times, write_documents
from tokenmill.bench.throughput.bare_loop import run
from tokenmill.bench.throughput.command import Finished
from tokenmill.bench.throughput.corpus import WORDS, answer, chosen, document
from tokenmill.bench.throughput.server import PreparedServer

BURN = "import time\nwhile time.process_time() < 1.0: pass"


def test_documents_are_real_passages_under_titles_of_their_own():
    count = 2 * len(chosen()) + 1
    rows = [document(number) for number in range(count)]
    assert len({row["id"] for row in rows}) == len({row["title"] for row in rows}) == count
    assert len({row["text"] for row in rows}) > 300
    assert all(len(row["text"].split()) in WORDS for row in rows)
    assert all(answer(number) != row["text"] for number, row in enumerate(rows))


def test_every_document_is_answered_by_its_own_paraphrase(tmp_path):
    count = len(chosen()) + 20
    corpus = write_documents(tmp_path / "corpus.jsonl", count)
    with PreparedServer(latency=0.0) as server:
        asyncio.run(run(corpus, tmp_path / "out.jsonl", server.url, 16))
        seen = times(server.url)
        assert times(server.url)["served"] == 0
    assert seen["served"] == count and 1 <= seen["most_in_flight"] <= 16 and seen["first"] <= seen["last"]
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {row["id"]: row["text"] for row in rows} == {f"doc-{n:06d}": answer(n) for n in range(count)}


def test_a_command_s_processor_time_is_that_of_all_its_processes():
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    done = Finished([sys.executable, "-c", child])
    assert done.cpu > 0.5 and done.peak == 0 and done.seconds >= 1.0
    assert Finished([sys.executable, "-c", BURN], memory=True).peak > 1e6


def test_a_command_that_fails_ends_the_bench():
    with pytest.raises(SystemExit, match=r"exit code 3\nno such corpus"):
        Finished([sys.executable, "-c", "print('no such corpus'); raise SystemExit(3)"])


def test_the_table_has_medians_by_kind_of_run():
    found = {
        "bare loop": [{"requests": 100.0}, {"requests": 300.0}, {"requests": 200.0}],
        "forms": [{"whole_ratio": 0.5}],
    }
    lines = table(found).splitlines()
    assert lines[0] == "|  | bare loop | forms |"
    assert "| documents/s while requests run | 200 |  |" in lines
    assert "| of the bare loop's |  | 0.50 |" in lines


def test_too_few_documents_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--documents", "1000"])
    assert "must be more than 1000" in capsys.readouterr().err

"""`corpus` and `corpus label` from the command line: every row accounted for, whatever state the input is in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenmill.bench.servers.scripted import ScriptedServer

from tests.outputs import manifest, rows
from tests.pipelines.corpus.archives import archive, record
from tokenmill import cli

STORY = (
    "Lamps were lit along the harbour when boat {n} came in, and its crew began to unload what they had caught. Nobody had "
    "expected so much herring this late in year {n}. The buyers, who had gone home, were sent for; ice was brought from "
    "store {n} behind the church. It was the first good catch since spring. Old Marten {n} wrote the figure down twice, "
    "because he thought that he had misread it. He had not, as the auction of lot {n} showed. Write to "
    "marten{n}@port.example.org if you doubt it."
)
HOSTILE = {
    "http://h.example/nested": b"<div>" * 60_000 + b"x",
    "http://h.example/attributes": b"<p " + b" ".join(b"a%d=1" % n for n in range(20_000)) + b">x</p>",
    "http://h.example/long": b"<p>" + b"words " * 400_000,
}


def page(n: int) -> bytes:
    paragraphs = "".join(f"<p>{sentence}.</p>" for sentence in STORY.format(n=n).rstrip(".").split(". "))
    return f"<html><title>Boat {n}</title><nav><a href=/>Home</a></nav><article>{paragraphs}</article></html>".encode()


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    pages = [record(page(n), url=f"http://a.example/{n}") for n in range(12)]
    hostile = [record(body, url=url) for url, body in HOSTILE.items()]
    cut = archive(tmp_path / "cut.warc.gz", pages[:4])
    cut.write_bytes(cut.read_bytes()[:-40])
    archive(
        tmp_path / "a.warc.gz",
        [*pages[4:8], *hostile, *pages[8:], record(b"<nav>Home</nav>", url="http://a.example/menu")],
    )
    (tmp_path / "p.html").write_bytes(page(99))
    problems = [("What is 6 times 7?", "6 * 7 = 42"), ("What is 6 times 8?", "6 * 8 = 49")]
    lines = [json.dumps({"question": question, "answer": answer, "license": "mit"}) for question, answer in problems]
    (tmp_path / "math.jsonl").write_text("\n".join(lines))
    code = [
        {"text": "def f(x):\n    return x\n", "path": "a.py", "license": "MIT"},
        {"text": "def f(x:\n", "path": "b.py"},
    ]
    (tmp_path / "code.jsonl").write_text("\n".join(map(json.dumps, code)))
    synthetic = {"text": STORY.format(n=7), "source_text": "A source.", "source_id": "s1", "id": "s1/0"}
    (tmp_path / "notes.jsonl").write_text(json.dumps(synthetic))
    at = str(tmp_path)
    return ["--source", f"web={at}/*.warc.gz,{at}/p.html", f"math={at}/math.jsonl", "--source", f"code={at}/code.jsonl",
            f"knowledge={at}/notes.jsonl"]  # fmt: skip


def run(*argv: object) -> int:
    return cli.main(["corpus", *map(str, argv)])


def test_every_row_ends_in_one_place_with_its_reason(sources, tmp_path):
    out = tmp_path / "out"
    limits = ("--page-seconds", 0.5, "--max-document-bytes", 2_000_000, "--near-duplicate", 1)
    assert run(*sources, *limits, "--output", out) == 0
    counts = manifest(out)["counts"]
    kept, refused, failed = (rows(out, kind) for kind in ("data", "rejected", "failed"))
    assert counts["read"] == 4 + 12 + 1 + 2 + 2 + 1 == len(kept) + len(refused) + len(failed)
    assert sorted(row["error"] for row in failed) == [
        "extraction_timeout", "extraction_timeout", "no_main_text", "too_long", "unreadable_file",
    ]  # fmt: skip
    figures = manifest(out)["corpus"]
    web_figures = figures["domains"]["web"]
    assert (
        web_figures["read"] == 17
        and web_figures["failed"] == 5
        and figures["masked"]["email"] >= web_figures["kept"] > 0
    )
    for domain, of in figures["domains"].items():
        mine = [row for row in kept if row["domain"] == domain]
        assert of["kept"] == len(mine) and of["tokens"] == sum(row["tokens"] for row in mine)
        assert of["read"] == of["kept"] + sum(of["refused"].values()) + of["failed"]
    card = (out / "README.md").read_text()
    assert "### By domain" in card and "| web | 17 | 5 |" in card and "Personal data masked" in card
    assert "made by a language model" not in card
    told = {row["reason"] for row in refused}
    assert {"false_statement", "does_not_parse"} <= told and all(row["verdicts"][-1]["detail"] for row in refused)
    web = [row for row in kept if row["domain"] == "web"]
    assert web and all("<EMAIL>" in row["text"] and row["masked"] == 1 for row in web)
    assert {row["title"] for row in web} <= {f"Boat {n}" for n in (*range(12), 99)} and "Home" not in web[0]["text"]
    assert {row["language"] for row in web} == {"en"} and all(row["date"] for row in web if row["url"])
    (note,) = (row for row in kept + refused if row["domain"] == "knowledge")
    assert note["synthetic"] and note["source_id"] == "s1" and note["given_id"] == "s1/0"


def test_languages_and_licences(sources, tmp_path):
    assert run(*sources, "--page-seconds", 0.3, "--licenses", "permissive", "--output", tmp_path / "out") == 0
    assert {row["license"] for row in rows(tmp_path / "out", "data")} <= {"mit", "MIT"}
    assert {"unknown_license"} <= {row["reason"] for row in rows(tmp_path / "out", "rejected")}


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--source", "a.warc"), "write DOMAIN=GLOB"),
        (("--source", "web=nosuch.warc"), "no such file"),
        (("--source", "web={here}/code.jsonl", "--toxic-words", "nosuch"), "--toxic-words nosuch: No such file"),
        (("--source", "web={here}/code.jsonl", "--quality", "x.npz"), "write FILE:LEAST"),
        (("--source", "web={here}/code.jsonl", "--languages", "klingon"), "klingon is none"),
    ],
)
def test_what_cannot_be_is_one_line(sources, tmp_path, capsys, argv, told):
    assert run(*(word.format(here=tmp_path) for word in argv), "--output", tmp_path / "o") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert told in line


def test_a_model_scores_a_sample_and_what_is_learnt_scores_the_rest(tmp_path, capsys):
    dull = STORY.replace("herring", "offers").replace("buyers", "customers").replace("church", "checkout")
    made = [{"text": (STORY if n % 2 else dull).format(n=n) + f" Number {n}."} for n in range(60)]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, made)))
    source = ("--source", f"knowledge={tmp_path}/in.jsonl")

    def answer(body: dict) -> str:
        good = "herring" in str(body["messages"])
        return json.dumps({"why": "It tells of a harbour." if good else "It sells.", "score": 4 if good else 1})

    with ScriptedServer(answer) as server:
        labels = (
            "label",
            *source,
            "--sample",
            50,
            "--llm",
            server.spec,
            "--cache",
            tmp_path / "c",
            "--output",
            tmp_path / "labels",
        )
        assert run(*labels) == 0
        asked = server.log.requests
        assert run(*labels) == 0 and server.log.requests == asked == 50
    assert "area under the ROC curve 1.000" in capsys.readouterr().err
    scored = rows(tmp_path / "labels", "data")
    assert len(scored) == 50 and {row["score"] for row in scored} == {1, 4} and scored[0]["why"]
    learnt = ("--quality", f"{tmp_path}/labels/quality.npz:0.5", "--near-duplicate", 1)
    assert run(*source, *learnt, "--output", tmp_path / "out") == 0
    kept, refused = rows(tmp_path / "out", "data"), rows(tmp_path / "out", "rejected")
    assert len(kept) == 30 and all("herring" in row["text"] and row["quality"] >= 0.5 for row in kept)
    assert {row["reason"] for row in refused} == {"low_quality"}

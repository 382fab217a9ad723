"""`beam_runner.py math` as users give it: flags, files, exit codes."""

import json
import re
from pathlib import Path

import datasets
import pytest
from tokenmill.bench.servers.scripted import ScriptedServer

from tests.outputs import manifest, rows
from tests.servers.maths import Teacher, document, problem
from tokenmill import prompts

EXAMPLES = Path(__file__).parents[1] / "examples" / "problems.jsonl"


@pytest.fixture
def corpus(tmp_path):
    wrong = problem(40)
    wrong["answer"] = wrong["answer"].replace("Together these are ", "Together these are 1 + ")
    rows = [*(problem(n) for n in range(6)), *(problem(n, german=True) for n in range(20, 24)), document(30, 12), wrong]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def math(corpus, out, server, *more):
    return ("math", "--input", corpus, "--output", out, "--llm", server.spec, *more)


def shards(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(Path(out).glob("*/*.parquet"))}


def test_mathematics_becomes_notes_a_card_a_report_and_something_to_publish(corpus, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Teacher()) as server:
        code, stdout, err = run(*math(corpus, out, server, "--notes", 2, "--chunk-tokens", 200))
        assert code == 0, err
        answered = server.log.answered
        assert run(*math(corpus, out, server, "--notes", 2, "--chunk-tokens", 200))[0] == 0
        assert server.log.answered == answered and max(server.log.bodies.values()) == 1
    told = manifest(out)
    assert told["counts"] == {"read": 12, "unreadable": 0, "tasks": 24, "accepted": 22, "rejected": 2, "failed": 0}
    assert told["reasons"] == {"source_wrong": 2} and "source_wrong" in stdout.replace(" ", "_")
    kept = rows(out)
    assert {row["source_language"] for row in kept} == {"en", "de"} and {row["language"] for row in kept} == {"en"}
    assert all(bool(row["translation"]) == (row["source_language"] == "de") for row in kept)
    assert all(len({r["style"] for r in kept if r["source_id"] == row["source_id"]}) == 2 for row in kept)
    for row in kept:
        assert len(json.loads(row["note"])) == row["chunks"]
    assert all(len({r["shape"] for r in kept if r["source_id"] == row["source_id"]}) == 2 for row in kept)
    used = {prompt["name"] for prompt in told["prompts"]}
    assert {name for name in prompts.names("math/shapes")} <= used, "shapes are part of the fingerprint"
    refused = rows(out, "rejected")[0]
    assert refused["verdicts"][0]["findings"][0]["detail"].startswith("The source states") and not refused["attempts"]
    card, report = (out / "README.md").read_text(), (out / "report.html").read_text()
    assert "learning notes" in card and "source_language" in card and "math/note" in card
    assert refused["id"] in report
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "hf"))
    assert set(loaded["train"]["id"]) == {row["id"] for row in kept}
    assert run("publish", out, "--repo-id", "me/notes", "--dry-run")[0] == 0


def spoil(note, body):
    return {**note, "answer": "1 pen"} if re.match(r"\w+ has \d*[13579] boxes", note["asked"]) else note


def test_a_repeated_run_pays_nothing_and_writes_the_same_bytes(corpus, tmp_path, run):
    with ScriptedServer(Teacher(spoil=spoil)) as server:
        command = (*math(corpus, tmp_path / "out", server, "--notes", 2), "--direct_running_mode=in_memory")
        assert run(*command)[0] == 0
        before, answered = shards(tmp_path / "out"), server.log.answered
        assert "result_differs" in {row["reason"] for row in rows(tmp_path / "out", "rejected")}
        assert run(*command, "--overwrite")[0] == 0 and server.log.answered == answered
    assert shards(tmp_path / "out") == before


def test_workers_and_order_do_not_change_a_byte(corpus, tmp_path, run):
    with ScriptedServer(Teacher(spoil=spoil), latency=0.01) as server:
        for name, flags in (
            ("one", ("--max-concurrency", 1)),
            ("processes", ("--direct_running_mode=multi_processing", "--direct_num_workers=2")),
        ):
            cache = ("--cache", tmp_path / f"{name}.sqlite")
            assert run(*math(corpus, tmp_path / name, server, "--no-judge", *flags, *cache))[0] == 0
    assert shards(tmp_path / "one") == shards(tmp_path / "processes")
    assert manifest(tmp_path / "one")["reasons"].keys() == {"source_wrong", "result_differs"}


def test_languages_leave_others_out_unpaid_and_with_their_reason(corpus, tmp_path, run):
    with ScriptedServer(Teacher()) as server:
        code, _, _ = run(*math(corpus, tmp_path / "out", server, "--no-judge", "--languages", "en,fr"))
        assert code == 0 and server.log.answered == 7
    assert manifest(tmp_path / "out")["reasons"] == {"language_not_selected": 4, "source_wrong": 1}


def test_columns_of_other_names_and_one_line_for_what_is_missing(tmp_path, run):
    corpus = tmp_path / "c.jsonl"
    given = [{"q": p["question"], "gold": int(p["answer"])} for p in (problem(n, worked=False) for n in range(3))]
    corpus.write_text("\n".join(map(json.dumps, [*given, {"q": "How many?", "gold": None}])))
    with ScriptedServer(Teacher()) as server:
        command = math(corpus, tmp_path / "out", server, "--no-judge")
        code, _, err = run(*command)
        assert code == 2 and "no column 'text' or 'question'" in err and len(err.strip().splitlines()) == 1
        for flags, told in (
            (("--columns", "question=frage,answer=gold"), "'text' or 'frage'"),
            (("--languages", "german"), "--languages german"),
            (("--notes", 99), "--notes 99"),
            (("--votes", 2), "--votes 2"),
            (("--repairs", -1), "--repairs"),
        ):
            code, _, err = run(*command[:-1], *flags)
            assert code == 2 and told in err and server.log.requests == 0
        assert run(*command, "--columns", "question=q,answer=gold")[0] == 0
    assert [len(rows(tmp_path / "out", kind)) for kind in ("data", "failed")] == [3, 1]
    assert rows(tmp_path / "out", "failed")[0]["error"] == "no_answer"


def test_an_estimate_calls_nobody_and_is_near_the_truth(corpus, tmp_path, run):
    with ScriptedServer(Teacher()) as server:
        code, stdout, _ = run(*math(corpus, tmp_path / "out", server, "--estimate"))
        assert code == 0 and server.log.requests == 0
        expected = {line.split()[0]: int(line.split()[3]) for line in stdout.splitlines() if " expected " in line[:60]}
        run(*math(corpus, tmp_path / "out", server))
    calls = manifest(tmp_path / "out")["calls"]
    for role in ("writer", "judge"):
        assert abs(calls[role]["paid"] - expected[role]) <= 0.3 * expected[role], (role, calls, expected)


def test_a_preview_shows_source_and_note_and_writes_nothing(corpus, tmp_path, run):
    with ScriptedServer(Teacher()) as server:
        code, stdout, _ = run(*math(corpus, tmp_path / "out", server, "--preview", 2))
    assert code == 0 and "2 kept" in stdout and "boxes" in stdout and not (tmp_path / "out").exists()


def test_a_budget_stops_the_run_and_the_same_command_goes_on(corpus, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Teacher()) as server:
        command = math(corpus, out, server, "--no-judge", "--max-concurrency", 2)
        code, _, err = run(*command, "--max-tokens", 1500)
        assert code == 3 and "stopped" in err and not (out / "manifest.json").exists()
        assert run(*command)[0] == 0
        assert max(server.log.bodies.values()) == 1 and len(rows(out)) == 11


def test_the_examples_are_read_and_the_one_with_wrong_working_is_seen_unpaid(tmp_path, run):
    given = [json.loads(line) for line in EXAMPLES.read_text().splitlines()]
    assert len({row["id"] for row in given}) == len(given) >= 10
    assert {row["license"] for row in given} == {"cc0-1.0"}

    with ScriptedServer(lambda body: "no JSON") as server:
        code, _, _ = run(*math(EXAMPLES, tmp_path / "out", server, "--repairs", 0, "--languages", "en"))
    assert code == 1, "nothing was kept and some failed"
    refused = {row["source_id"]: row["reason"] for row in rows(tmp_path / "out", "rejected")}
    assert refused == {
        "wrong-working": "source_wrong",
        **dict.fromkeys(("regentonne", "panaderia", "denche"), "language_not_selected"),
    }

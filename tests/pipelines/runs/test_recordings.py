"""Answers recorded from a real HTTP server, and given again without it."""

import json

import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import Reply, ScriptedServer

from tests.outputs import manifest, rows

WORKERS = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in documents(6, 6)))
    return path


@pytest.fixture
def knowledge(corpus, run):
    def command(out, llm, *more):
        return run("knowledge", "--input", corpus, "--output", out, "--llm", llm, "--no-similarity", *more)

    return command


def texts(out):
    """The rows, but for who is said to have made them."""
    return [{**row, "model": "", "judge_model": ""} for row in rows(out)]


def test_a_recording_gives_the_same_rows_without_a_model_and_says_so_everywhere(tmp_path, knowledge):
    kept = tmp_path / "scribe.jsonl"
    with ScriptedServer(Writer()) as server:
        code, _, stderr = knowledge(tmp_path / "asked", server.spec, "--record", kept)
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert code == 0 and f"{kept} holds {len(lines) - 1:,} answers" in stderr
    assert lines[0] == {"tokenmill_recording": 1, "note": ""}
    assert all(len(line["address"]) == 64 and line["model"] == "scripted" and line["date"] for line in lines[1:])
    lines[0]["note"] = "played by a script"
    kept.write_text("".join(json.dumps(line) + "\n" for line in lines))

    code, stdout, stderr = knowledge(tmp_path / "replayed", f"recorded:{kept}")
    assert code == 0 and texts(tmp_path / "replayed") == texts(tmp_path / "asked")
    assert {row["model"] for row in rows(tmp_path / "replayed")} == {"recorded:scribe"}
    assert "writer: no model is asked" in stderr and "judge: no model is asked" in stderr
    assert "0 calls paid, 0 from the cache, " in stdout and "from a recording" in stdout
    told = manifest(tmp_path / "replayed")
    writer = told["models"][0]
    assert writer["recording"]["models"] == ["scripted"] and writer["recording"]["note"] == "played by a script"
    assert told["calls"]["writer"]["recorded"] == 12 and told["calls"]["writer"]["paid"] == 0
    for page in ("README.md", "report.html"):
        words = (tmp_path / "replayed" / page).read_text()
        assert "no model was asked in this run" in words and "played by a script" in words, page
    assert "no model was asked" not in (tmp_path / "asked" / "report.html").read_text()


def test_worker_processes_record_and_replay_the_same_bytes(tmp_path, knowledge):
    one, many = tmp_path / "one.jsonl", tmp_path / "many.jsonl"
    with ScriptedServer(Writer()) as server:
        knowledge(tmp_path / "a", server.spec, "--record", one, "--cache", tmp_path / "first")
        assert (
            knowledge(tmp_path / "b", server.spec, "--record", many, *WORKERS, "--cache", tmp_path / "second")[0] == 0
        )
    assert one.read_bytes() == many.read_bytes()
    code, _, _ = knowledge(tmp_path / "c", f"recorded:{many}", *WORKERS)
    assert code == 0 and texts(tmp_path / "c") == texts(tmp_path / "a")


def test_answers_of_the_cache_are_recorded_too_and_change_nothing_that_is_recorded(tmp_path, knowledge):
    kept = tmp_path / "scribe.jsonl"
    with ScriptedServer(Writer()) as server:
        knowledge(tmp_path / "a", server.spec)
        asked = server.log.answered
        knowledge(tmp_path / "b", server.spec, "--record", kept)
        before = kept.read_bytes()
        knowledge(tmp_path / "c", server.spec, "--record", kept)
        assert server.log.answered == asked and kept.read_bytes() == before and before.count(b"\n") > 12


def test_a_request_that_is_not_recorded_stops_the_run_with_one_line_that_says_what_to_do(tmp_path, knowledge):
    kept = tmp_path / "scribe.jsonl"
    with ScriptedServer(Writer()) as server:
        knowledge(tmp_path / "a", server.spec, "--record", kept)
    code, _, stderr = knowledge(tmp_path / "b", f"recorded:{kept}", "--seed", 5)
    last = stderr.strip().splitlines()[-1]
    assert code == 3 and "has no answer to a request of the writer" in last and f"--llm SPEC --record {kept}" in last
    code, _, stderr = knowledge(tmp_path / "c", f"recorded:{kept}", "--seed", 5, *WORKERS)
    assert code == 3 and "has no answer to a request" in stderr.strip().splitlines()[-1]


def test_refusals_of_the_endpoint_are_given_again(tmp_path, knowledge):
    kept, writer = tmp_path / "scribe.jsonl", Writer()

    def moody(body):
        return Reply(400, b'{"error": {"message": "not that one"}}') if "Leiden" in str(body) else writer(body)

    with ScriptedServer(moody) as server:
        knowledge(tmp_path / "a", server.spec, "--record", kept)
    knowledge(tmp_path / "b", f"recorded:{kept}")
    told = manifest(tmp_path / "b")
    assert told["counts"] == manifest(tmp_path / "a")["counts"] and told["counts"]["failed"] > 0
    assert "not that one" in rows(tmp_path / "b", "failed")[0]["message"]


def test_a_recorded_writer_may_have_a_judge_that_is_asked(tmp_path, knowledge):
    kept = tmp_path / "scribe.jsonl"
    with ScriptedServer(Writer()) as server:
        knowledge(tmp_path / "a", server.spec, "--record", kept, "--no-judge")
        before = server.log.answered
        assert knowledge(tmp_path / "b", f"recorded:{kept}", "--judge-llm", server.spec)[0] == 0
        assert server.log.answered > before
    judge = manifest(tmp_path / "b")["models"][1]
    assert judge["role"] == "judge" and "recording" not in judge


def test_another_recording_of_the_same_name_makes_another_run(tmp_path, knowledge):
    kept = tmp_path / "scribe.jsonl"
    with ScriptedServer(Writer()) as server:
        knowledge(tmp_path / "a", server.spec, "--record", kept)
    assert knowledge(tmp_path / "b", f"recorded:{kept}")[0] == 0
    kept.write_text(kept.read_text().replace('"note":""', '"note":"again"'))
    code, _, stderr = knowledge(tmp_path / "b", f"recorded:{kept}")
    assert code == 2 and "other settings or input" in stderr


def test_an_estimate_from_a_recording_costs_nothing(tmp_path, corpus, run, knowledge):
    kept = tmp_path / "scribe.jsonl"
    with ScriptedServer(Writer()) as server:
        knowledge(tmp_path / "a", server.spec, "--record", kept)
    code, stdout, stderr = run("knowledge", "--input", corpus, "--llm", f"recorded:{kept}", "--estimate")
    assert code == 0 and "$0.00 expected" in stdout and "no model is asked" in stderr


@pytest.mark.parametrize(
    ("llm", "more", "line"),
    [
        ("recorded:{}/none.jsonl", (), "none.jsonl cannot be read"),
        ("recorded:{}/corpus.jsonl", (), "is no recording"),
        ("recorded:", (), "wants the path of a recording"),
        ("{}", ("--record", "{}/corpus.jsonl"), "is no recording"),
        ("{}", ("--record", "{}/nowhere/x.jsonl"), "the folder is not there"),
        ("recorded:{}/empty.jsonl", ("--record", "{}/x.jsonl"), "nothing to record"),
        ("recorded:{}/empty.jsonl", ("--sampling", '{"temperature": 1}'), "leave out sampling parameters"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_recording_is_one_line(tmp_path, knowledge, llm, more, line):
    (tmp_path / "empty.jsonl").write_text('{"tokenmill_recording": 1}\n')
    llm = llm.format(tmp_path) if llm != "{}" else "m@http://127.0.0.1:9/v1"
    code, _, stderr = knowledge(tmp_path / "out", llm, *(word.replace("{}", str(tmp_path)) for word in more))
    assert code == 2 and line in stderr and len(stderr.strip().splitlines()) == 1

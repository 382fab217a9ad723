"""The command as users give it: flags, files, exit codes, one line when something is wrong."""

import json
import re
from pathlib import Path

import datasets
import pytest
from tokenmill.bench.servers.mill import Writer, documents, rewrite
from tokenmill.bench.servers.scripted import Faults, Reply, ScriptedServer

from tests.outputs import manifest, rows
from tokenmill import cli


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in documents(12, 6)))
    return path


@pytest.fixture
def run(tmp_path, capfd):
    """Run a command in this process: (exit code, stdout, stderr)."""

    def command(*argv, cache=True):
        argv = [str(a) for a in argv]
        if argv[0] == "knowledge" and cache:
            argv += ["--cache", str(tmp_path / "answers.sqlite")]
        code = cli.main([*argv])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


def knowledge(corpus, out, server, *more):
    return ("knowledge", "--input", corpus, "--output", out, "--llm", server.spec, "--no-similarity", *more)


def shards(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(Path(out).glob("*/*.parquet"))}


def test_documents_become_rows_a_card_a_report_and_a_manifest(corpus, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Writer()) as server:
        code, stdout, _ = run(*knowledge(corpus, out, server))
    assert code == 0
    found = rows(out)
    assert len(found) == 24 and "24 kept" in stdout
    assert all(row["text"] == rewrite(row["source_text"]) for row in found)
    by_source = {}
    for row in found:
        by_source.setdefault(row["source_id"], set()).add((row["style"], row["perspective"]))
    assert all(len(pairs) == 2 for pairs in by_source.values())
    told = manifest(out)
    assert told["counts"] == {"read": 12, "unreadable": 0, "tasks": 24, "accepted": 24, "rejected": 0, "failed": 0}
    judge = told["calls"]["judge"]
    assert told["calls"]["writer"]["paid"] == 24
    assert judge["paid"] + judge["cached"] == 24, (
        "the scripted writer's two rewrites are equal: judged together, paid once"
    )
    tokens = sum(role["prompt_tokens"] + role["completion_tokens"] for role in told["calls"].values())
    assert told["spent"] == {"tokens": server.log.tokens, "shared": False} and tokens == server.log.tokens
    assert "invocations" not in stdout
    assert server.log.answered == 24 + judge["paid"] and max(server.log.bodies.values()) == 1
    assert [f["file"] for f in told["files"]] == ["data/train-00000-of-00001.parquet"]
    visible = {p.name for p in out.iterdir() if not p.name.startswith(".")}
    assert visible == {"README.md", "data", "manifest.json", "report.html"}
    assert not (out / ".unfinished").exists()


def test_an_output_named_like_a_pattern_is_a_folder_like_any_other(corpus, tmp_path, run):
    out = tmp_path / "run[1]"
    with ScriptedServer(Writer()) as server:
        assert run(*knowledge(corpus, out, server, "--no-judge"))[0] == 0
        assert run(*knowledge(corpus, out, server, "--no-judge", "--seed", 7, "--overwrite"))[0] == 0
    assert len(rows(out)) == manifest(out)["counts"]["accepted"] == 24 and not (out / ".unfinished").exists()


def test_the_result_loads_with_datasets(corpus, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Writer(faults={"Gdansk": lambda text: text})) as server:
        run(*knowledge(corpus, out, server, "--no-judge"))
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "hf"))
    assert len(loaded["train"]) == manifest(out)["counts"]["accepted"]
    assert loaded["train"][0]["verdicts"][0]["check"]
    rejected = datasets.load_dataset(str(out), "rejected", cache_dir=str(tmp_path / "hf"))
    assert set(rejected["train"]["reason"]) == {"copies_source"}


def test_what_is_refused_is_in_rejected_with_its_evidence(corpus, tmp_path, run):
    def spoil(text):
        return re.sub(r"\d{4,6}", lambda m: str(int(m[0]) + 1), rewrite(text), count=1)

    out = tmp_path / "out"
    with ScriptedServer(Writer(faults={"Gdansk": spoil})) as server:
        code, stdout, _ = run(*knowledge(corpus, out, server, "--no-judge"))
    assert code == 0
    refused, kept = rows(out, "rejected"), rows(out)
    assert refused and len(refused) + len(kept) == 24
    assert all(("Gdansk" in row["source_text"]) == (row in refused) for row in refused + kept)
    for row in refused:
        assert row["reason"].endswith(("_lost", "_added")) and row["reason"] in stdout
        assert row["refused_text"] and row["attempts"] == 3
        assert any(f["source"] or f["rewrite"] for v in row["verdicts"] for f in v["findings"])
    report = (out / "report.html").read_text()
    assert "<mark" in report and refused[0]["id"] in report


def test_the_same_command_again_does_nothing_and_other_settings_need_overwrite(corpus, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Writer()) as server:
        command = knowledge(corpus, out, server, "--no-judge")
        run(*command)
        before = shards(out)
        code, _, err = run(*command)
        assert code == 0 and "finished already" in err
        assert server.log.answered == 24
        code, _, err = run(*command, "--seed", 7)
        assert code == 2 and "--overwrite" in err and shards(out) == before
        code, _, _ = run(*command, "--seed", 7, "--overwrite")
        assert code == 0 and shards(out) != before


def test_order_of_answers_and_worker_processes_do_not_change_a_byte(corpus, tmp_path, run):
    with ScriptedServer(Writer(faults={"Oslo": lambda text: text}), latency=0.01) as server:
        for out, flags in (
            ("one", ("--max-concurrency", 1)),
            ("many", ("--max-concurrency", 50, "--cache", tmp_path / "b.sqlite")),
            (
                "processes",
                ("--direct_running_mode=multi_processing", "--direct_num_workers=2", "--cache", tmp_path / "c.sqlite"),
            ),
        ):
            assert run(*knowledge(corpus, tmp_path / out, server, *flags), cache=out == "one")[0] == 0
    assert shards(tmp_path / "one") == shards(tmp_path / "many") == shards(tmp_path / "processes")
    assert (
        manifest(tmp_path / "processes")["calls"]["writer"]["paid"]
        == manifest(tmp_path / "one")["calls"]["writer"]["paid"]
    )


def test_a_model_server_that_is_not_installed_is_one_line(corpus, tmp_path, run, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, stdout, err = run("knowledge", "--input", corpus, "--output", tmp_path / "out", "--llm", "vllm:owner/model")
    assert code == 1 and not stdout and not (tmp_path / "out" / "manifest.json").exists()
    assert err.splitlines() == [
        "tokenmill: vllm:owner/model needs vLLM: install it in an environment of its own and put its program `vllm` on the PATH"
    ]


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_faults_of_the_server_lose_and_double_nothing(tmp_path, run, mode):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(150, 4)))
    faults = Faults(too_many=0.05, server_error=0.05, malformed=0.01, hang=0.01)
    flags = (
        "--no-judge",
        "--timeout",
        4,
        f"--direct_running_mode={mode}",
        "--direct_num_workers",
        1 + (mode != "in_memory"),
    )
    with ScriptedServer(Writer(), latency=0.01, faults=faults) as server:
        code, _, _ = run(*knowledge(corpus, tmp_path / "out", server, *flags))
    assert code == 0
    assert len({row["id"] for row in rows(tmp_path / "out")}) == 300
    assert server.log.answered == 300 and {"429", "500", "malformed", "hang"} <= set(server.log.kinds)
    assert manifest(tmp_path / "out")["calls"]["writer"]["retries"] >= 20


def test_bad_rows_are_counted_and_shown(tmp_path, run):
    corpus = tmp_path / "corpus.jsonl"
    good = [json.dumps(row) for row in documents(3, 4)]
    corpus.write_text("\n".join([*good, '{"id": "e", "text": ""}', "garbage", good[0]]) + "\n")
    with ScriptedServer(Writer()) as server:
        code, stdout, _ = run(*knowledge(corpus, tmp_path / "out", server, "--no-judge"))
    assert code == 0
    counts = manifest(tmp_path / "out")["counts"]
    assert counts == {"read": 6, "unreadable": 3, "tasks": 6, "accepted": 6, "rejected": 0, "failed": 3}
    assert {row["error"] for row in rows(tmp_path / "out", "failed")} == {"empty_text", "invalid_json", "duplicate_id"}
    assert "duplicate_id 1" in stdout


def test_calls_that_the_endpoint_refuses_are_failed_rows_remembered_and_retried_on_request(corpus, tmp_path, run):
    broken = {"on": True}

    def answer(body):
        if broken["on"] and "Chronicle 3" in body["messages"][-1]["content"]:
            return Reply(400, b'{"error": {"message": "context length exceeded"}}')
        return writer(body)

    writer, out = Writer(), tmp_path / "out"
    with ScriptedServer(answer) as server:
        command = knowledge(corpus, out, server, "--no-judge")
        assert run(*command)[0] == 0
        failed = rows(out, "failed")
        assert [f["error"] for f in failed] == ["CallRefused"] * 2 and "context length" in failed[0]["message"]
        sent = server.log.requests
        assert run(*command, "--overwrite")[0] == 0
        assert server.log.requests == sent, "refusals are remembered"
        broken["on"] = False
        assert run(*command, "--retry-failed")[0] == 0
        assert server.log.requests == sent + 2
        assert manifest(out)["counts"]["accepted"] == 24 and not (out / "failed").exists()


def test_rows_on_which_the_endpoint_always_breaks_are_failed_rows_and_end_no_run(corpus, tmp_path, run, monkeypatch):
    monkeypatch.setattr("tokenmill.inference.client._backoff", lambda failures, retry_after: 0.01)
    broken = {"on": True}

    def answer(body):
        if broken["on"] and "Chronicle 3" in body["messages"][-1]["content"]:
            return Reply(500, b"assertion failed")
        return writer(body)

    writer, out = Writer(), tmp_path / "out"
    with ScriptedServer(answer) as server:
        command = knowledge(corpus, out, server, "--no-judge", "--patience", 3)
        for again in ((), ("--retry-failed",)):  # at last nothing else is in flight
            assert run(*command, *again)[0] == 0
            assert [row["error"] for row in rows(out, "failed")] == ["CallFailed"] * 2
            assert server.log.answered == 22 and len(rows(out)) == 22
        broken["on"] = False
        assert run(*command, "--retry-failed")[0] == 0
        assert server.log.answered == 24 and len(rows(out)) == 24
        assert manifest(out)["spent"]["tokens"] == server.log.tokens, "the probes are in the ledger, too"


@pytest.mark.parametrize("processes", [1, 2])
def test_a_budget_stops_the_run_cleanly_and_more_resumes_it(corpus, tmp_path, run, processes):
    out, mode = tmp_path / "out", ("in_memory", "multi_processing")[processes - 1]
    flags = ("--no-judge", "--max-concurrency", 4, f"--direct_running_mode={mode}", f"--direct_num_workers={processes}")
    with ScriptedServer(Writer()) as server:
        command = knowledge(corpus, out, server, *flags)
        code, _, err = run(*command, "--max-tokens", 4000)
        said = [line for line in err.splitlines() if " rows · " not in line]
        assert code == 3 and len(said) == 1 and said[0].startswith("tokenmill: stopped: the budget")
        assert server.log.tokens <= 4000 and server.log.answered > 0
        assert not (out / "manifest.json").exists() and not (out / "data").exists()
        code, stdout, _ = run(*command, "--max-tokens", 1_000_000)
        assert code == 0 and server.log.answered == 24 and max(server.log.bodies.values()) == 1
    told = manifest(out)
    last = told["calls"]["writer"]["prompt_tokens"] + told["calls"]["writer"]["completion_tokens"]
    assert told["spent"] == {"tokens": server.log.tokens, "shared": False} and 0 < last < server.log.tokens
    assert f"{server.log.tokens:,} tokens over all invocations" in stdout
    assert f"interrupted ones included, {server.log.tokens:,} tokens were billed." in (out / "README.md").read_text()


def test_a_dead_endpoint_is_one_line_before_anything_is_written(corpus, tmp_path, run, monkeypatch):
    monkeypatch.setattr("tokenmill.pipelines.runs.preflight.WAIT", 0.5)
    with ScriptedServer(Writer()) as server:
        server.down()
        code, _, err = run(*knowledge(corpus, tmp_path / "out", server))
    assert code == 2 and "does not answer" in err and len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out" / "data").exists()


def test_an_endpoint_that_dies_for_good_stops_the_run_and_the_command_resumes_it(corpus, tmp_path, run):
    def answer(body):
        if server.log.answered == 10:
            server._loop.create_task(server._down())
        return Writer()(body)

    out = tmp_path / "out"
    with ScriptedServer(answer, latency=0.01) as server:
        command = knowledge(corpus, out, server, "--no-judge", "--patience", 1, "--max-concurrency", 2)
        code, _, err = run(*command)
        assert code == 3 and "has not answered" in err and len(err.strip().splitlines()) == 1
        paid = server.log.answered
        server.answer = Writer()
        server.up()
        assert run(*command)[0] == 0
        assert server.log.answered - paid <= 24 - 9
    assert manifest(out)["counts"]["accepted"] == 24


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--llm", "nonsense:model"), "smollm2"),
        (("--votes", "2"), "odd"),
        (("--rephrasings", "5000"), "style-perspective pairs"),
        (("--columns", "body"), "NAME=COLUMN"),
        (("--columns", "text=body"), "no column 'body'"),
        (("--no-such-flag",), "unknown flag --no-such-flag"),
        (("--prices", "/nowhere.json"), "/nowhere.json"),
        (("--repairs", "-1"), "--repairs"),
        (("--runner=FlinkRunner",), "redis://"),
    ],
)
def test_bad_flags_are_one_line(corpus, tmp_path, run, flags, message):
    with ScriptedServer(Writer()) as server:
        code, _, err = run(*knowledge(corpus, tmp_path / "out", server, *flags))
        assert code == 2 and message in err and len(err.strip().splitlines()) == 1
        assert server.log.requests == 0


def test_a_model_that_the_server_lacks_is_named(corpus, tmp_path, run):
    with ScriptedServer(Writer(), models=("one", "two")) as server:
        code, _, err = run("knowledge", "--input", corpus, "--output", tmp_path / "out", "--llm", f"three@{server.url}")
    assert code == 2 and "no model 'three'" in err and "one, two" in err


def test_a_folder_of_someone_else_is_not_touched(corpus, tmp_path, run):
    precious = tmp_path / "out" / "data" / "precious.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    with ScriptedServer(Writer()) as server:
        code, _, err = run(*knowledge(corpus, tmp_path / "out", server))
    assert code == 2 and "choose another folder" in err and precious.read_text() == "mine"
    assert server.log.requests == 0


def test_an_estimate_makes_no_call_and_matches_the_run(corpus, tmp_path, run):
    with ScriptedServer(Writer()) as server:
        code, stdout, _ = run(*knowledge(corpus, tmp_path / "out", server, "--estimate"))
        assert code == 0 and server.log.requests == 0 and not (tmp_path / "out").exists()
        numbers = re.search(r"writer.*?expected\s+(\d+)", stdout)
        run(*knowledge(corpus, tmp_path / "out", server))
    assert int(numbers[1]) == manifest(tmp_path / "out")["calls"]["writer"]["paid"] == 24
    assert "No call was made" in stdout


def test_a_preview_shows_rows_side_by_side_and_writes_nothing(corpus, tmp_path, run):
    with ScriptedServer(Writer()) as server:
        code, stdout, _ = run(*knowledge(corpus, tmp_path / "out", server, "--preview", 2, "--no-judge"))
        assert code == 0 and server.log.answered == 4 and not (tmp_path / "out").exists()
        assert "doc-000000/0" in stdout and "doc-000001/1" in stdout and "kept" in stdout
        run(*knowledge(corpus, tmp_path / "out", server, "--no-judge"))
        assert server.log.answered == 24, "previewed answers are not paid for again"


def test_a_limit_reads_the_first_rows(corpus, tmp_path, run):
    with ScriptedServer(Writer()) as server:
        run(*knowledge(corpus, tmp_path / "out", server, "--no-judge", "--limit", 3, "--rephrasings", 1))
    assert [row["source_row"] for row in rows(tmp_path / "out")] == [0, 1, 2]


def test_keys_are_sent_but_never_written(corpus, tmp_path, run, monkeypatch):
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("TOKENMILL_API_KEY", secret)
    out = tmp_path / "out"
    with ScriptedServer(Writer(), key=secret) as server:
        code, stdout, err = run(*knowledge(corpus, out, server, "--no-judge"))
    assert code == 0 and secret not in stdout + err
    for path in [*out.rglob("*"), tmp_path / "answers.sqlite"]:
        assert path.is_dir() or secret.encode() not in path.read_bytes()


def test_more_than_two_rephrasings_are_warned_about(corpus, tmp_path, run):
    with ScriptedServer(Writer()) as server:
        code, _, err = run(*knowledge(corpus, tmp_path / "out", server, "--no-judge", "--rephrasings", 5, "--limit", 2))
    assert code == 0 and "at most 2 times" in err
    assert len(rows(tmp_path / "out")) == 10


def test_all_rows_refused_is_an_honest_result(corpus, tmp_path, run):
    with ScriptedServer(lambda body: "No.") as server:
        code, stdout, _ = run(*knowledge(corpus, tmp_path / "out", server, "--no-judge", "--repairs", 0))
    assert code == 0 and "0 kept, 24 refused" in stdout
    assert rows(tmp_path / "out") == [] and (tmp_path / "out" / "README.md").exists()

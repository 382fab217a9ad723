"""`--decontaminate`: what holds an item of a benchmark is refused before a model is asked."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.runs.benchmarks import benchmarks
from tokenmill.schemas.flags import UsageError

from tests.outputs import manifest, rows
from tests.servers.maths import Teacher, problem

ITEM = (
    "Zelda packs nine crates of green apples for every cart and sends four carts to the market on each of five mornings. "
    "How many crates of apples does she send in one week?"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_documents_that_hold_an_item_are_refused_unpaid_and_counted(tmp_path, run):
    read = list(documents(6, 6))
    read[2]["text"] += f"\n\nQuestion: {ITEM}"
    corpus = jsonl(tmp_path / "corpus.jsonl", read)
    quiz = jsonl(tmp_path / "quiz.jsonl", [{"question": "Why?"}, {"id": "q-7", "question": ITEM, "answer": "180"}])
    pq.write_table(pa.table({"task": ["of other words " * 8]}), tmp_path / "other.parquet")
    with ScriptedServer(Writer()) as server:
        argv = ("knowledge", "--input", corpus, "--output", tmp_path / "out", "--llm", server.spec, "--no-similarity")
        argv += ("--decontaminate", quiz, tmp_path / "other.parquet")
        code, _, err = run(*argv)
        assert code == 0, err
        asked = json.dumps([json.loads(body) if isinstance(body, str | bytes) else body for body in server.log.bodies])
        assert "green apples" not in asked, "the model is not shown it"
        code, told, _ = run(*argv, "--estimate")
        assert "12 tasks" in told
    told = manifest(tmp_path / "out")
    assert told["counts"]["accepted"] == 10 and told["reasons"] == {"contaminated": 2}
    assert told["benchmarks"] == {
        "quiz": {"items": 2, "too_short": 1, "refused": 2},
        "other": {"items": 1, "too_short": 0, "refused": 0},
    }
    refused = rows(tmp_path / "out", "rejected")
    assert {row["source_id"] for row in refused} == {read[2]["id"]} and not any(row["prompt_tokens"] for row in refused)
    (finding,) = refused[0]["verdicts"][0]["findings"]
    assert "q-7 of quiz" in finding["detail"] and finding["rewrite"] in read[2]["text"]
    assert all("contamination" in {v["check"] for v in row["verdicts"]} for row in rows(tmp_path / "out"))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| `quiz` | 2 | 1 | 2 |" in card


def test_it_is_part_of_the_fingerprint_by_what_the_files_hold(tmp_path, run):
    corpus = jsonl(tmp_path / "corpus.jsonl", documents(2, 3))
    quiz = jsonl(tmp_path / "quiz.jsonl", [{"question": ITEM}])
    with ScriptedServer(Writer()) as server:
        argv = ("knowledge", "--input", corpus, "--output", tmp_path / "out", "--llm", server.spec, "--no-similarity")
        assert run(*argv)[0] == 0
        assert "other settings" in run(*argv, "--decontaminate", quiz)[2]
        assert run(*argv, "--decontaminate", quiz, "--overwrite")[0] == 0
        jsonl(quiz, [{"question": ITEM + " And why?"}])
        assert "other settings" in run(*argv, "--decontaminate", quiz)[2]


def test_a_problem_of_a_benchmark_becomes_no_note(tmp_path, run):
    read = [problem(n) for n in range(3)]
    corpus = jsonl(tmp_path / "corpus.jsonl", read)
    quiz = jsonl(tmp_path / "quiz.jsonl", [{"question": read[1]["question"]}])
    with ScriptedServer(Teacher()) as server:
        argv = ("math", "--input", corpus, "--output", tmp_path / "out", "--llm", server.spec, "--decontaminate", quiz)
        assert run(*argv)[0] == 0
    told = manifest(tmp_path / "out")
    assert told["reasons"] == {"contaminated": 1} and told["benchmarks"]["quiz"]["refused"] == 1
    (refused,) = rows(tmp_path / "out", "rejected")
    assert refused["source_id"] == read[1]["id"] and refused["stage"] == "source" and not refused["attempts"]


@pytest.mark.parametrize(
    ("name", "content", "columns", "told"),
    [
        ("missing.jsonl", None, "", "no such file"),
        ("odd.csv", "a,b\n", "", "unknown format"),
        ("short.jsonl", '{"question": "Why?"}\n', "", "name its columns"),
        ("named.jsonl", json.dumps({"question": ITEM}) + "\n", "#body", "column body"),
        ("broken.jsonl", "{\n", "", "not JSON"),
    ],
)
def test_what_cannot_be_looked_for_is_one_line_before_anything_is_spent(tmp_path, run, name, content, columns, told):
    corpus = jsonl(tmp_path / "corpus.jsonl", documents(1, 2))
    if content is not None:
        Path(tmp_path, name).write_text(content)
    argv = ("knowledge", "--input", corpus, "--output", tmp_path / "out", "--llm", "m@http://127.0.0.1:9/v1")
    code, _, err = run(*argv, "--no-similarity", "--decontaminate", f"{tmp_path / name}{columns}")
    assert code == 2 and told in err and "--decontaminate" in err and len(err.strip().splitlines()) == 1


def test_columns_can_be_named_and_several_make_one_item(tmp_path):
    path = jsonl(tmp_path / "quiz.jsonl", [{"stem": ITEM[:58], "rest": ITEM[58:], "question": "Why?"}])
    made = benchmarks((f"{path}#stem,rest",))
    assert made.verdict(ITEM)[1].share == 1.0
    with pytest.raises(UsageError, match="name its columns"):
        benchmarks((str(path),))


def test_the_index_is_made_once_and_again_where_it_is_missing(tmp_path):
    path = jsonl(tmp_path / "quiz.jsonl", [{"question": ITEM}])
    made = benchmarks((str(path),))
    folder = made.index.folder
    stamps = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert benchmarks((str(path),)).index.folder == folder
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == stamps
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert made.verdict(ITEM)[1] is not None and (folder / "index.json").exists()

"""What a command does to its output folder, and what it leaves alone."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import Reply, ScriptedServer

from tests.disks import small_disk
from tests.outputs import manifest, rows

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in documents(6, 4)))
    return path


def knowledge(corpus, out, server, *more):
    flags = ("--no-judge", "--no-similarity")
    return ("knowledge", "--input", corpus, "--output", out, "--llm", server.spec, *flags, *more)


def in_a_process_of_its_own(*argv):
    """Run a command where worker processes can be forked: (exit code, stdout, stderr)."""
    argv = [sys.executable, "beam_runner.py", *map(str, argv)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_stops_the_run_with_one_line_and_room_lets_it_go_on(tmp_path, run, workers):
    noise, disk = random.Random(1), tmp_path / "disk"
    corpus = tmp_path / "corpus.jsonl"
    # Titles that do not compress fill the disk sooner than the texts.
    made = [{**row, "title": noise.randbytes(1000).hex()} for row in documents(60, 4)]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in made))
    with small_disk(disk, 65536) as grow, ScriptedServer(Writer()) as server:
        mode = "in_memory" if workers == 1 else "multi_processing"
        flags = (f"--direct_running_mode={mode}", f"--direct_num_workers={workers}")
        command = (*knowledge(corpus, disk / "out", server, *flags), "--cache", tmp_path / "answers.sqlite")
        start = run if workers == 1 else in_a_process_of_its_own
        code, _, err = start(*command)
        said = [line for line in err.splitlines() if " rows · " not in line]
        assert code == 3 and len(said) == 1 and f"{disk}/out/.unfinished/data is full" in said[0]
        assert not (disk / "out" / "manifest.json").exists()
        paid = server.log.answered
        grow(1 << 26)
        assert start(*command)[0] == 0
        assert server.log.answered == paid == 120 and len(rows(disk / "out")) == 120


@pytest.mark.parametrize("given", ["out", "out/data/*.parquet", "link/data/*.parquet"])
def test_a_run_does_not_replace_what_it_reads(corpus, tmp_path, run, given):
    out = tmp_path / "out"
    (tmp_path / "link").symlink_to(out)
    with ScriptedServer(Writer()) as server:
        run(*knowledge(corpus, out, server))
        before, sent = rows(out), server.log.requests
        code, _, err = run(*knowledge(tmp_path / given, out, server, "--overwrite"))
        assert code == 2 and "lies there" in err and rows(out) == before and server.log.requests == sent
        run(*knowledge(tmp_path / given, tmp_path / "next", server))
    assert manifest(tmp_path / "next")["counts"]["read"] == len(before)


@pytest.mark.parametrize("page", ["README.md", "report.html"])
def test_pages_of_someone_else_are_left_alone(corpus, tmp_path, run, page):
    out = tmp_path / "out"
    out.mkdir()
    (out / page).write_text("mine")
    with ScriptedServer(Writer()) as server:
        code, _, err = run(*knowledge(corpus, out, server))
        assert server.log.answered == 0
    assert code == 2 and f"{page} is there" in err and (out / page).read_text() == "mine"


@pytest.mark.parametrize("content", ["[]", "{}", '{"name": "an extension", "counts": 3}'])
def test_a_manifest_of_another_tool_is_one_line(corpus, tmp_path, run, content):
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text(content)
    with ScriptedServer(Writer()) as server:
        code, _, err = run(*knowledge(corpus, out, server, "--overwrite"))
    assert code == 2 and "no run's of ours" in err and (out / "manifest.json").read_text() == content


def test_a_work_folder_left_by_a_kill_after_the_manifest_is_removed(corpus, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Writer()) as server:
        run(*knowledge(corpus, out, server))
        shutil.copytree(out / "data", out / ".unfinished" / "data")
        code, _, err = run(*knowledge(corpus, out, server))
    assert code == 0 and "finished already" in err and not (out / ".unfinished").exists()


@pytest.mark.parametrize("lines", [None, "\n\n\n"])
def test_a_run_that_kept_nothing_loads_as_no_rows_of_its_type(corpus, tmp_path, run, lines):
    out = tmp_path / "out"
    if lines:
        corpus.write_text(lines)
    with ScriptedServer(lambda body: Reply(400, b"no\x1b[31m")) as server:
        code, *_ = run(*knowledge(corpus, out, server))
        assert code == 1 and run(*knowledge(out, tmp_path / "next", server))[2].endswith("there are no rows\n")
    assert manifest(out)["counts"]["accepted"] == 0 and rows(out) == []
    streamed = datasets.load_dataset(str(out), split="train", streaming=True)
    assert list(streamed) == [] and {"id", "text", "source_text"} <= streamed.features.keys()
    with pytest.raises(ValueError, match="no data"):
        datasets.load_dataset(str(out), cache_dir=str(tmp_path / "hf"))
    code, _, err = run("publish", out, "--repo-id", "me/mine", "--dry-run")
    assert code == 1 and "no row was kept" in err


def test_an_example_of_the_most_frequent_error_is_told(corpus, tmp_path, run):
    with ScriptedServer(lambda body: Reply(400, b"the prompt is \x1b[31m too long")) as server:
        _, stdout, _ = run(*knowledge(corpus, tmp_path / "out", server))
    (line,) = [line for line in stdout.splitlines() if "such as" in line]
    assert "failed with: CallRefused 12" in stdout and "HTTP 400: the prompt is" in line and "\x1b" not in line


def test_names_that_are_not_utf8_are_one_line(corpus, tmp_path, run):
    named = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.jsonl")
    try:
        shutil.copy(corpus, named)
    except OSError:
        pytest.skip("this file system takes no such names")
    with ScriptedServer(Writer()) as server:
        for source, out in ((f"{tmp_path}/a*.jsonl", tmp_path / "out"), (corpus, named.removesuffix(".jsonl"))):
            code, _, err = run(*knowledge(source, out, server))
            assert code == 2 and "is not UTF-8" in err and len(err.splitlines()) == 1
        assert server.log.requests == 0


@pytest.mark.parametrize("seed", [str(2**63), "9" * 30, f"-{'9' * 30}"])
def test_a_seed_beyond_64_bits_is_refused(corpus, tmp_path, run, seed):
    with ScriptedServer(Writer()) as server:
        code, _, err = run(*knowledge(corpus, tmp_path / "out", server, f"--seed={seed}"))
    assert code == 2 and f"--seed {seed}: must be within 64 bits" in err and len(err.splitlines()) == 1
    assert server.log.requests == 0


@pytest.mark.parametrize(
    ("file", "counted", "named"),
    [("a.parquet", 200, "a.parquet"), ("A.PARQUET", 200, "A.PARQUET"), ("a.parquet", 0, "the input")],
)
def test_rows_that_a_broken_parquet_file_loses_are_named(tmp_path, run, monkeypatch, file, counted, named):
    for module in ("transforms.sources", "runs.conclude"):
        monkeypatch.setattr(f"tokenmill.pipelines.{module}.COUNTED_FILES", counted)
    corpus, out = tmp_path / file, tmp_path / "out"
    pq.write_table(pa.Table.from_pylist(list(documents(9, 4))), corpus, row_group_size=3)
    broken = pq.read_metadata(corpus).row_group(1).column(0)
    start = broken.dictionary_page_offset or broken.data_page_offset
    content = bytearray(corpus.read_bytes())
    content[start : start + 20] = b"\xff" * 20
    corpus.write_bytes(content)
    with ScriptedServer(Writer()) as server:
        code, _, err = run(*knowledge(corpus, out, server))
        assert code == 1 and f"{named}: 2 of the rows" in err
        code, _, err = run(*knowledge(corpus, out, server))
        assert code == 1 and "1 failed, 2 lost" in err
    counts = manifest(out)["counts"]
    assert counts["read"] == 7 and counts["lost"] == 2 and counts["accepted"] == 12 and counts["failed"] == 1
    assert "| lost | 2 |" in (out / "README.md").read_text()


def test_the_card_lists_inputs_that_a_limit_leaves_unread(corpus, tmp_path, run):
    shutil.copy(corpus, tmp_path / "later.jsonl")
    with ScriptedServer(Writer()) as server:
        assert run(*knowledge(tmp_path / "*.jsonl", tmp_path / "out", server, "--limit", 2))[0] == 0
    assert "| `later.jsonl` | not counted |" in (tmp_path / "out" / "README.md").read_text()

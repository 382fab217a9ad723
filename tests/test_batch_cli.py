"""Calls in batches, with real processes and a server with books of its own: the same bytes, nothing sent twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tokenmill.bench.servers.batches import BatchFaults, BatchServer
from tokenmill.bench.servers.mill import Writer, documents

from tests.outputs import manifest, rows

ROOT = Path(__file__).resolve().parents[1]
SPOILT = {"Turin": lambda text: text}


def command(folder, spec, out, *more, cache="answers.sqlite", workers=1):
    mode = "multi_processing" if workers > 1 else "in_memory"
    argv = [sys.executable, str(ROOT / "beam_runner.py"), "knowledge", "--input", str(folder / "corpus.jsonl")]
    argv += ["--output", str(folder / out), "--llm", spec, "--cache", str(folder / cache), "--no-similarity"]
    return [*argv, "--chunk-tokens", "40", f"--direct_running_mode={mode}", f"--direct_num_workers={workers}", *more]


def corpus(folder, count, sentences=4):
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(count, sentences)))


def run(argv, folder, **env):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, env={**os.environ, **env})
    return done.returncode, done.stdout, done.stderr


def shards(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.glob("*/*.parquet"))}


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_with_every_fault_end_in_the_bytes_of_a_direct_run(tmp_path, workers):
    corpus(tmp_path, 12)
    faults = BatchFaults(
        expired=0.1, failed=0.03, malformed=0.03, missing=0.03, lost_replies=1, full=1, broken_downloads=1
    )
    with BatchServer(Writer(faults=SPOILT), working=0.1, batch_faults=faults) as server:
        code, _, said = run(command(tmp_path, server.spec, "direct", cache="direct.sqlite"), tmp_path)
        assert code == 0, said
        asked, server.log.answered = server.log.answered, 0
        argv = command(tmp_path, f"{server.spec}?batch&poll=0.1", "batch", workers=workers)
        code, _, said = run(argv, tmp_path)
        assert code == 0, said
        assert server.books.twice == [] and server.books.batches > 4
        assert server.log.answered == asked and server.log.requests == asked
    assert shards(tmp_path / "batch") == shards(tmp_path / "direct")
    calls, direct = manifest(tmp_path / "batch")["calls"], manifest(tmp_path / "direct")["calls"]
    for role in direct:
        assert calls[role]["batched"] == calls[role]["paid"] == direct[role]["paid"] > 0
        assert calls[role]["prompt_tokens"] == calls[role]["batched_prompt_tokens"] == direct[role]["prompt_tokens"]
        assert calls[role]["cached"] == direct[role]["cached"]


@pytest.mark.slow
def test_killed_at_any_moment_it_finds_its_batches_and_sends_nothing_twice(tmp_path):
    corpus(tmp_path, 40)
    with BatchServer(Writer(), working=1.0, batch_faults=BatchFaults(expired=0.05)) as server:
        argv = command(tmp_path, f"{server.spec}?batch&poll=0.1&requests=25", "out", "--no-judge")
        draw = random.Random(7)
        for number in range(5):
            process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            seen, end = server.books.batches, time.monotonic() + 20
            # The first as soon as the endpoint has its first upload, when nobody else knows yet what will come of it.
            while time.monotonic() < end and not (server.books.uploads if number == 0 else server.books.batches > seen):
                if process.poll() is not None:
                    break
                time.sleep(0.001)
            time.sleep(draw.random() * 0.3 * bool(number))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        code, _, said = run(argv, tmp_path)
        assert code == 0, said
        assert server.books.twice == []
        assert set(server.books.sent) == server._answered and len(server.books.sent) == 160
    assert manifest(tmp_path / "out")["counts"]["accepted"] == 80


def test_the_last_few_are_asked_directly(tmp_path):
    made = [*documents(6, 4), *({**row, "id": f"short-{row['id']}"} for row in documents(6, 1))]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    with BatchServer(Writer(), working=0.1) as server:
        argv = command(tmp_path, f"{server.spec}?batch&poll=0.1", "out", "--no-judge", "--batch-below", "13")
        code, _, said = run(argv, tmp_path)
        assert code == 0, said
        # A call for each first chunk; the six longer documents, twice each, have a second one.
        calls = manifest(tmp_path / "out")["calls"]["writer"]
        assert (calls["batched"], calls["paid"], server.log.requests) == (24, 36, 12)


def test_a_budget_ends_the_batches_and_a_larger_one_goes_on(tmp_path):
    corpus(tmp_path, 12)
    with BatchServer(Writer(), working=0.1) as server:
        spec = f"{server.spec}?batch&poll=0.1"
        code, _, said = run(command(tmp_path, spec, "out", "--no-judge", "--max-tokens", "5000"), tmp_path)
        assert code == 3 and "larger --max-tokens" in said
        spent = sum(server.books.sent.values())
        assert 0 < spent < 48 and server.log.tokens <= 5000
        code, _, said = run(command(tmp_path, spec, "out", "--no-judge", "--max-tokens", "99000"), tmp_path)
        assert code == 0, said
        assert server.books.twice == [] and sum(server.books.sent.values()) == 48


def test_an_endpoint_without_a_batch_api_is_one_line(tmp_path):
    corpus(tmp_path, 2)
    from tokenmill.bench.servers.scripted import Reply

    with BatchServer(Writer()) as server:
        server._route = lambda connection, *_: connection.send(404, b'{"error":{"message":"no such route"}}')
        code, _, said = run(command(tmp_path, f"{server.spec}?batch", "out"), tmp_path)
        assert code == 2 and "leave out ?batch" in said and said.count("\n") == 1
    with BatchServer(lambda body: Reply(404, b'{"error":{"message":"no such model"}}'), working=0.1) as server:
        code, _, said = run(command(tmp_path, f"{server.spec}?batch&poll=0.1", "out2"), tmp_path)
        assert code == 2 and "no such model" in said, said


def test_vllm_run_batch_works_the_same_lines_off_here_and_by_hand(tmp_path):
    corpus(tmp_path, 3)
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(
        f"""#!{sys.executable}
import json, sys
sys.path.insert(0, {str(ROOT)!r})
from tokenmill.bench.servers.mill import Writer
from tokenmill.bench.servers.scripted import completion
assert sys.argv[1] == "run-batch", sys.argv
given = dict(zip(sys.argv[2:], sys.argv[3:]))
with open(given["-i"]) as lines, open(given["-o"], "w") as out:
    for line in map(json.loads, lines):
        answer = completion(Writer()(line["body"]))
        told = {{"status_code": 200, "request_id": "r", "body": answer}}
        out.write(json.dumps({{"id": "v", "custom_id": line["custom_id"], "response": told, "error": None}}) + "\\n")
"""
    )
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    code, _, said = run(
        command(tmp_path, "vllm:org/m?batch&max_model_len=4096", "here", "--no-judge"), tmp_path, PATH=path
    )
    assert code == 0, said
    assert len(rows(tmp_path / "here")) == 6
    folder = tmp_path / "carried"
    argv = command(tmp_path, f"vllm:org/m?batch={folder}", "carried-out", "--no-judge", cache="other.sqlite")
    waves = 0
    while (code := (done := run(argv, tmp_path))[0]) == 3:
        assert "vllm run-batch" in done[2] and waves < 10
        for part in folder.glob("*.jsonl"):
            results = part.with_name(part.stem + ".results.jsonl")
            if not part.name.endswith(".results.jsonl") and not results.exists():
                subprocess.run([program, "run-batch", "-i", part, "-o", results, "--model", "org/m"], check=True)
        waves += 1
    assert code == 0 and waves >= 1, done
    assert shards(tmp_path / "carried-out") == shards(tmp_path / "here")


def test_the_estimate_tells_waves_and_half_the_price(tmp_path):
    corpus(tmp_path, 4)
    prices = tmp_path / "prices.json"
    prices.write_text('{"models": {"gpt-x": {"input": 1000, "output": 1000}}}')
    told = []
    for spec in ("openai:gpt-x", "openai:gpt-x?batch"):
        code, out, said = run([*command(tmp_path, spec, "out"), "--estimate", "--prices", str(prices)], tmp_path)
        assert code == 0, said
        told.append(out)
    dear, cheap = (float(out.split("tokens expected")[1].split("$")[1].split()[0].replace(",", "")) for out in told)
    assert cheap == pytest.approx(dear / 2, rel=0.01)
    assert "batches one after the other" in told[1] and "batches" not in told[0]

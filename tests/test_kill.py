"""SIGKILL at any moment, then the same command: complete, nothing paid twice, the same bytes. With real processes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer

ROOT = Path(__file__).resolve().parents[1]


def command(server, corpus, out, cache, mode):
    argv = [sys.executable, str(ROOT / "beam_runner.py"), "knowledge", "--input", str(corpus), "--output", str(out)]
    argv += [
        "--llm",
        server.spec,
        "--cache",
        str(cache),
        "--no-similarity",
        "--chunk-tokens",
        "40",
        "--max-concurrency",
        "8",
    ]
    return [*argv, f"--direct_running_mode={mode}", "--direct_num_workers", "2" if mode == "multi_processing" else "1"]


def shards(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.glob("*/*.parquet"))}


def kill(process):
    """Kill the command as an out-of-memory killer would: it and, a moment later, nothing else of ours is left."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, left = psutil.wait_procs(family, timeout=60)
    assert not left, f"still running after the driver was killed: {[p.cmdline() for p in left]}"


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_killed_runs_resume_without_paying_again_and_end_in_the_same_bytes(tmp_path, mode):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(60, 8)))
    with ScriptedServer(Writer(faults={"Turin": lambda text: text}), latency=0.02) as server:
        subprocess.run(
            command(server, corpus, tmp_path / "calm", tmp_path / "calm.sqlite", mode), check=True, cwd=tmp_path
        )
        undisturbed = server.log.answered
        assert undisturbed == len(server.log.bodies)
        server.log.bodies.clear()
        server.log.answered = 0
        killed = tmp_path / "killed"
        argv = command(server, corpus, killed, tmp_path / "killed.sqlite", mode)
        draw = random.Random(mode)
        for share in (0.05, 0.35, 0.7) if mode == "in_memory" else (0.05, 0.6):
            process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while server.log.answered < undisturbed * share and time.monotonic() < end:
                time.sleep(0.002)
            time.sleep(draw.random() * 0.05)
            kill(process)
            assert not (killed / "manifest.json").exists() and not (killed / "data").exists()
        subprocess.run(argv, check=True, cwd=tmp_path)
        # An answer that was on its way at the moment of the kill may be asked for again: at most what was in flight.
        again = sum(count - 1 for count in server.log.bodies.values())
        workers = 2 if mode == "multi_processing" else 1
        assert again <= 3 * 8 * workers
        assert len(server.log.bodies) == undisturbed
    assert shards(killed) == shards(tmp_path / "calm")
    assert json.loads((killed / "manifest.json").read_text())["counts"]["tasks"] == 120


def test_workers_store_what_is_in_flight_when_their_driver_is_killed(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(24, 4)))
    with ScriptedServer(Writer(), latency=1.0) as server:
        argv = [*command(server, corpus, tmp_path / "out", tmp_path / "a.sqlite", "multi_processing"), "--no-judge"]
        process = subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while server.log.in_flight < 8 and time.monotonic() < end:
            time.sleep(0.002)
        kill(process)
        started = server.log.answered
        assert 8 <= started < 96
        subprocess.run(argv, check=True, cwd=tmp_path)
        assert server.log.answered == len(server.log.bodies) == 96


def test_no_answer_that_had_arrived_is_paid_again(tmp_path):
    """With one call in flight at a time, only what was on the wire or being written at that instant may come twice."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(20, 4)))
    with ScriptedServer(Writer(), latency=0.05) as server:
        argv = command(server, corpus, tmp_path / "out", tmp_path / "a.sqlite", "in_memory")
        argv[argv.index("--max-concurrency") + 1] = "1"
        process = subprocess.Popen([*argv, "--no-judge"], cwd=tmp_path, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while server.log.answered < 12 and time.monotonic() < end:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGSTOP)
        kill(process)
        subprocess.run([*argv, "--no-judge"], check=True, cwd=tmp_path)
        assert server.log.requests - len(server.log.bodies) <= 2


def test_two_runs_cannot_write_to_one_folder(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(30, 4)))
    with ScriptedServer(Writer(), latency=0.3) as server:
        argv = command(server, corpus, tmp_path / "out", tmp_path / "a.sqlite", "in_memory")
        first = subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not server.log.requests and time.monotonic() < end:
            time.sleep(0.01)
        second = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
        assert second.returncode == 2 and "another run is writing there" in second.stderr
        assert first.wait(60) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_a_worker_that_is_killed_ends_the_run_in_one_line(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(20, 4)))
    with ScriptedServer(Writer(), latency=0.4) as server:
        argv = command(server, corpus, tmp_path / "out", tmp_path / "a.sqlite", "multi_processing")
        process = in_terminal(argv, tmp_path)
        end = time.monotonic() + 60
        while server.log.answered < 4 and time.monotonic() < end:
            time.sleep(0.002)
        forked = [p for p in psutil.Process(process.pid).children(recursive=True) if p.cmdline() == argv]
        (worker, *_) = [p for p in forked if p.ppid() in {zygote.pid for zygote in forked}]
        worker.kill()  # as the system does where memory runs out
        _, said = process.communicate(timeout=60)
    told = [line for line in said.splitlines() if " rows · " not in line]
    assert process.returncode == 1 and len(told) == 1 and told[0].startswith("tokenmill: the pipeline broke: "), said


def in_terminal(argv, folder):
    """Start a command in a process group of its own, with Ctrl-C at work: a suite in the background has it ignored."""
    return subprocess.Popen(
        argv,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_a_command_that_is_interrupted_while_it_starts_says_so_in_one_line(tmp_path):
    begin = """import os, signal, sys
from tokenmill import cli
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.importlib.import_module = lambda path: os.kill(os.getpid(), signal.SIGINT)
sys.exit(cli.command())"""
    done = subprocess.run([sys.executable, "-c", begin, "knowledge"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "tokenmill: interrupted\n")


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_an_interrupted_run_says_so_in_one_line_and_goes_on_where_it_was(tmp_path, mode):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(20, 4)))
    with ScriptedServer(Writer(), latency=0.4) as server:
        argv = [*command(server, corpus, tmp_path / "out", tmp_path / "a.sqlite", mode), "--no-judge"]
        argv[argv.index("--max-concurrency") + 1] = "4"
        process = in_terminal(argv, tmp_path)
        end = time.monotonic() + 60
        while server.log.answered < 4 and time.monotonic() < end:
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the command hears it
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        told = [line for line in said.splitlines() if " rows · " not in line]  # a line of progress, on a slow machine
        assert len(told) == 1 and told[0].startswith("tokenmill: interrupted; repeat the command"), said
        subprocess.run(argv, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert len(server.log.bodies) == 80  # two rephrasings in two chunks
        assert sum(count - 1 for count in server.log.bodies.values()) <= 3 * 4 * 2

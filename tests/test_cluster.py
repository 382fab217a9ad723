"""Jobs on other machines: a portable runner whose workers share nothing with the driver but a cache and a file system."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from tokenmill.bench.servers.evolver import Evolver
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.inference import runtime
from tokenmill.pipelines.runs import launch, progress
from tokenmill.pipelines.runs.remote import arguments
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.tools import ToolSpec

from tests.cluster import ROOT, cluster
from tests.outputs import manifest
from tests.servers.agency import parcel_tools
from tests.servers.maths import Teacher, document, problem
from tests.test_agentic_chain import Everybody


@pytest.fixture(scope="module", params=["portable", *filter(shutil.which, ["prism"])])
def remote(request):
    """A cluster; on Prism, too, where that is installed (`make cluster-test`). Its cache keeps answers from test to test, so
    models have a name each where calls are counted."""
    with cluster(prism=request.param == "prism") as started:
        yield started


def shards(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*.parquet"))}


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.name


def knowledge(folder):
    corpus = lines(folder / "corpus.jsonl", documents(20, 6))
    return Writer(faults={"Turin": lambda text: text}), ("knowledge", "--input", corpus, "--no-similarity")


def mathematics(folder):
    corpus = [*(problem(n) for n in range(4)), *(problem(n, german=True) for n in range(20, 22)), document(30, 12)]
    return Teacher(), ("math", "--input", lines(folder / "corpus.jsonl", corpus), "--notes", "2")


def evolved(folder):
    argv = ("tools", "evolve", "--categories", "2", "--domains", "2", "--tools", "7", "--embedding-model", "none")
    return Evolver(domains=0.2, siblings=0.1, reworded=0.2, across=0.6), argv


def agents(folder):
    rows = [tool for name in ("parcels", "letters") for tool in parcel_tools(("logistics", name))]
    write_parquet(to_table(rows, ToolSpec), str(folder / "tools.parquet"))
    argv = ("agentic", "--tools", "tools.parquet", "--agents", "2", "--tasks-per-agent", "2", "--levels", "one_call=1")
    shape = ("--embedding-model", "none", "--within", "1", "--toolset-size", "5-5", "--distracted", "0")
    return Everybody(), (*argv, *shape, "--votes", "1", "--outcomes", "success=1")


@pytest.mark.parametrize("job", [knowledge, mathematics, evolved, agents])
def test_shards_and_counts_are_those_of_this_machine(remote, job, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the workers are not
    plays, argv = job(tmp_path)
    with ScriptedServer(plays) as server:
        argv = (*argv, "--llm", server.spec)
        code, _, err = run(*argv, "--output", "here")
        assert code == 0, err
        code, _, err = run(*argv, "--output", "there", *remote.flags)
    assert code == 0, err + remote.log
    here, there = shards(tmp_path / "here"), shards(tmp_path / "there")
    assert there == here and here
    assert manifest(tmp_path / "there")["counts"] == manifest(tmp_path / "here")["counts"]
    assert "Traceback" not in remote.log


def test_a_worker_of_another_version_stops_the_run_before_the_first_call(remote, tmp_path, run, monkeypatch):
    for module in (launch, runtime):  # in this process, which drives
        monkeypatch.setattr(module, "installed", lambda: "0123456789abcdef")
    corpus = tmp_path / "corpus.jsonl"
    lines(corpus, documents(4, 4))
    with ScriptedServer(Writer()) as server:
        job = ("knowledge", "--input", corpus, "--llm", server.spec, "--no-similarity", "--output", tmp_path / "out")
        code, _, err = run(*job, *remote.flags)
        assert server.log.answered == 0
    assert code != 0 and "another Tokenmill" in err and "0123456789abcdef" in err
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_the_job_ends_with_its_driver_and_nothing_is_paid_twice(remote, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    lines(corpus, documents(200, 4))
    with ScriptedServer(Writer(), latency=0.3) as server:
        argv = [sys.executable, str(ROOT / "beam_runner.py"), "knowledge", "--input", str(corpus), "--output"]
        argv += [str(tmp_path / "out"), "--llm", server.spec, "--no-similarity", "--no-judge", "--max-concurrency", "8"]
        argv += remote.flags
        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            enough = server.log.answered + 20
            process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _until(lambda enough=enough: server.log.answered > enough)
            os.kill(process.pid, end)
            process.wait()
            ended = server.log.answered
            if end != signal.SIGKILL:
                _quiet(server, within=10)
                assert server.log.answered - ended <= 60  # some seconds' worth
        # The command repeated at once takes over from the workers that the killed one has left.
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + remote.log
        assert len(server.log.bodies) == 400 and server.log.answered - 400 <= 8, server.log.answered


def test_a_job_goes_on_without_its_command_and_is_finished_later(remote, tmp_path, run):
    if remote.prism:
        pytest.skip("the command itself starts Prism, which ends with it")
    corpus = tmp_path / "corpus.jsonl"
    lines(corpus, documents(60, 6))
    with ScriptedServer(Writer(), latency=0.1, models=("detached",)) as server:
        job = ("knowledge", "--input", corpus, "--llm", server.spec, "--no-similarity", "--max-concurrency", "8")
        assert run(*job, "--output", tmp_path / "here")[0] == 0
        code, _, err = run(*job, "--output", tmp_path / "there", *remote.flags, "--detach")
        assert code == 0 and f"finish {tmp_path / 'there'}" in err.splitlines()[-1], err + remote.log
        paid = server.log.answered
        code, _, err = run("finish", tmp_path / "there")
        assert code == 1 and "has not done all of it yet" in err, err
        _until(lambda: run("finish", tmp_path / "there")[0] == 0)
        assert server.log.answered > paid, "it went on after its command had ended"
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    there, here = manifest(tmp_path / "there"), manifest(tmp_path / "here")
    assert there["counts"] == here["counts"] and there["calls"]["writer"]["prompt_tokens"] > 0
    assert there["fingerprint"] == here["fingerprint"] and not (tmp_path / "there" / ".unfinished").exists()


def test_all_workers_together_keep_to_the_calls_that_they_may_have_in_flight(remote, tmp_path, run):
    corpus = tmp_path / "corpus.jsonl"
    lines(corpus, documents(30, 4))
    with ScriptedServer(Writer(), latency=0.1, models=("capped",)) as server:
        job = ("knowledge", "--input", corpus, "--llm", server.spec, "--no-similarity", "--no-judge")
        flags = (*remote.flags, "--max-concurrency-total", "3")
        code, _, err = run(*job, "--output", tmp_path / "out", *flags)
        assert code == 0, err + remote.log
        assert server.log.most_in_flight == 3


def test_the_workers_reason_and_figures_reach_the_command(remote, tmp_path, run, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.2)
    corpus = tmp_path / "corpus.jsonl"
    lines(corpus, documents(40, 6))
    with ScriptedServer(Writer(), latency=0.2, models=("told",)) as server:
        job = ("knowledge", "--input", corpus, "--llm", server.spec, "--no-similarity", "--max-concurrency", "4")
        code, _, err = run(*job, "--output", tmp_path / "out", *remote.flags, "--max-tokens", "20000")
    assert code == 3 and "stopped: " in err.splitlines()[-1] and "20,000" in err.splitlines()[-1], err
    assert re.search(r"^[1-9]\d*/80 rows .* calls [1-9]", err, re.MULTILINE), err


def test_what_cannot_work_elsewhere_is_one_line(tmp_path, run, monkeypatch):
    corpus = tmp_path / "corpus.jsonl"
    lines(corpus, documents(2, 4))
    flags = ("knowledge", "--input", corpus, "--output", tmp_path / "out", "--llm", "m@http://127.0.0.1:9/v1")
    for more, message in (
        (("--on", "flink"), "--on flink needs --flink_master=…"),
        (("--on", "dataflow", "--project=p"), "--region=… --temp_location=… --sdk_container_image=…"),
        (("--on", "moon"), "--on moon: must be one of flink, spark, prism, dataflow"),
        (("--runner=FlinkRunner", "--cache", "unix:///redis.sock"), "need a shared cache"),
        (("--runner=FlinkRunner", "--cache", "redis://127.0.0.1:9/0"), "out lies on this machine"),
        (("--runner=FlinkRunner", "--cache", "redis://:secret@127.0.0.1:9/0"), "set TOKENMILL_REDIS_PASSWORD"),
        (
            ("--runner=FlinkRunner", "--cache", "redis://127.0.0.1:9/0", "--judge-llm", "m@http://u:k@127.0.0.1:9/v1"),
            "its key would travel with the job",
        ),
        (("--detach",), "--detach is for runs on other machines"),
        (("--runner=FlinkRunner", "--max_bundle_sise=5"), "unknown flag --max_bundle_sise=5"),
    ):
        code, _, err = run(*flags, *more)
        assert code == 2 and message in err.splitlines()[-1], err


def test_a_profile_fills_in_what_the_command_leaves_open(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/opt/bin/{name}")
    given = ["--flink_master=host:8081", "--max_bundle_size=7"]
    flags, added = arguments("flink", given)
    assert flags == [*given, *added] and "--runner=FlinkRunner" in added
    assert "--environment_options=process_command=/opt/bin/tokenmill-worker" in added
    assert not [flag for flag in added if flag.startswith(("--max_bundle_size", "--flink_master"))]
    assert arguments(None, given) == (given, [])
    told = PipelineOptions(flags).get_all_options(drop_default=True)
    assert told["max_bundle_size"] == 7 and told["number_of_execution_retries"] == 3


def _until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def _quiet(server, within):
    """Wait until no call has come for three seconds."""
    end, since, seen = time.monotonic() + within, time.monotonic(), server.log.requests
    while time.monotonic() - since < 3:
        assert time.monotonic() < end, "the job goes on without its driver"
        time.sleep(0.1)
        if server.log.requests != seen:
            since, seen = time.monotonic(), server.log.requests

"""How a pipeline is run through: its counts, and what is told where it ends early."""

import gc
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
import orjson
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.inference.errors import BudgetSpent
from tokenmill.inference.roles import Models
from tokenmill.pipelines.runs.errors import RowsMissing, RunFailed
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.forkserver import _Printed
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.runner import Runner, counted, run_through
from tokenmill.pipelines.transforms.counts import count, read_counts, write_counts

from tests.objectstore import Shared  # noqa: F401  (worker processes that import this file know it, too)


def breaks(row):
    raise RuntimeError("a disk is full")


def stops(row):
    raise BudgetSpent("7 of 7 tokens are spent")


def piped(*steps):
    pipeline = beam.Pipeline(runner=FnApiRunner())
    rows = pipeline | beam.Create([1, 2, 3])
    for number, step in enumerate(steps):
        rows = rows | f"Step {number}" >> beam.Map(step)
    return pipeline


def test_counts_of_one_name_are_added_up_over_the_pipeline(tmp_path):
    pipeline = beam.Pipeline(runner=FnApiRunner())
    rows = pipeline | beam.Create([1, 2, 3])
    count(rows, "read")
    count(rows | beam.Filter(lambda row: row > 1), "read")
    count(rows, str)
    write_counts(pipeline, str(tmp_path))
    run_through(pipeline, "")
    assert read_counts(str(tmp_path)) == {"read": 5, "1": 1, "2": 1, "3": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["counts.json"]


def test_a_run_whose_rows_were_not_counted_is_none(tmp_path):
    with pytest.raises(RowsMissing, match="not counted yet"):
        counted(OutputFolder(str(tmp_path)))


def test_a_pipeline_without_counts_writes_an_empty_sum(tmp_path):
    pipeline = piped()
    write_counts(pipeline, str(tmp_path))
    run_through(pipeline, "")
    assert read_counts(str(tmp_path)) == {}


def test_what_broke_is_one_line():
    with pytest.raises(RunFailed, match=r"the pipeline broke: .*a disk is full"):
        run_through(piped(breaks), "")


def test_a_worker_s_own_reason_stands(tmp_path):
    (tmp_path / "stopped.json").write_bytes(orjson.dumps(["BudgetSpent", "7 of 7 tokens are spent"]))
    with pytest.raises(BudgetSpent, match="7 of 7 tokens"):
        run_through(piped(breaks), str(tmp_path))


def test_what_beam_adds_to_a_reason_is_left_out():
    with pytest.raises(BudgetSpent, match=r"^7 of 7 tokens are spent$"):
        run_through(piped(stops), "")


def reads_where_a_flag_points(row):
    with FileSystems.open("shared://letter.txt") as file:
        return file.read().decode()


def in_processes(tmp_path, step, *flags):
    """What a step gives for three rows, counted, in a pipeline that worker processes run."""

    def build(root, models, pieces, folder, shards):
        count(root | beam.Create([1, 2, 3]), step)
        write_counts(root, folder)

    out, state = OutputFolder(str(tmp_path / "out")), tmp_path / "state"
    state.mkdir()
    (tmp_path / "out").mkdir()
    out.begin()
    job = SimpleNamespace(build=build)
    models = Models(roles={}, cache="", run="", state=str(state))
    runner = Runner(PipelineOptions(["--direct_num_workers=2", *flags]), local=True, processes=True)
    return runner.execute(job, models, Inputs((), (), 0), out, 1)  # type: ignore[arg-type]


def test_what_workers_printed_is_kept_where_a_run_broke(tmp_path):
    kept = tmp_path / "out" / ".unfinished" / "worker.log"
    with pytest.raises(RunFailed, match=f"a disk is full.*; {kept} has"):
        in_processes(tmp_path, breaks)
    assert "RuntimeError: a disk is full" in kept.read_text()


def test_worker_processes_know_the_flags_wherever_they_were_given(tmp_path, monkeypatch):
    (tmp_path / "letter.txt").write_text("well read")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert in_processes(tmp_path, reads_where_a_flag_points, f"--s3_endpoint_url={tmp_path}") == {"well read": 3}


def tells_its_threads(row):
    return os.environ["OMP_NUM_THREADS"]


@pytest.mark.parametrize(("given", "told"), [("", "2"), ("5", "5")])
def test_workers_share_the_cores_for_arithmetic(tmp_path, monkeypatch, given, told):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    else:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert in_processes(tmp_path, tells_its_threads) == {told: 3}


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_a_run_leaves_this_process_as_it_was(tmp_path, run, mode):
    def settings():
        loggers = [logging.getLogger(name) for name in ("", "apache_beam", "tokenmill")]
        return [
            dict(os.environ),
            sys.path[:],
            (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
            [(log.level, log.disabled, log.handlers[:]) for log in loggers],
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
            (sys.excepthook, threading.excepthook),
        ]

    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(4, 4)))
    with ScriptedServer(Writer()) as server:
        before = settings()
        argv = ["knowledge", "--input", tmp_path / "corpus.jsonl", "--output", tmp_path / "out", "--llm", server.spec]
        workers = 2 if mode == "multi_processing" else 1
        code, *_ = run(*argv, "--no-similarity", f"--direct_running_mode={mode}", f"--direct_num_workers={workers}")
        assert code == 0 and settings() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_worker_that_cannot_print_goes_on():
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        printed = _Printed(full)
        print("what broke", file=printed, flush=True)
        printed.close()
        with pytest.raises(OSError, match="No space left"), os.fdopen(os.dup(full), "w") as file:
            print("what broke", file=file)
    finally:
        os.close(full)

"""How a pipeline is run through: its counters, and what is told where it ends early."""

import apache_beam as beam
import orjson
import pytest
from apache_beam.metrics import Metrics
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from llm.errors import BudgetSpent
from pipelines.runs.errors import RunFailed
from pipelines.runs.runner import run_through
from pipelines.transforms import NAMESPACE


def counted(row):
    Metrics.counter(NAMESPACE, "judge/paid").inc()
    return row


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


def test_a_counter_that_two_steps_share_is_added_up():
    assert run_through(piped(counted, counted), "") == {"judge/paid": 6}


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

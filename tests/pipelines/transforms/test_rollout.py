"""The window of running rows, against a real runtime."""

import asyncio
import inspect
import threading
import time

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.inference.errors import BudgetSpent
from tokenmill.inference.roles import Models, Role
from tokenmill.pipelines.runs.errors import RunFailed
from tokenmill.pipelines.runs.runner import run_through
from tokenmill.pipelines.transforms.rollout import HANDED_OVER, Accepted, Rejected, Rollout, _Roll


class Gate:
    """Rows wait at it; the first one finds the budget spent."""

    row_type = rejected_type = object

    def __init__(self):
        self.begun = []
        self.ended = []
        self.opened = threading.Event()

    async def __call__(self, row, ask):
        self.begun.append(row)
        while not self.opened.is_set():
            await asyncio.sleep(0.001)
        if row == 0:
            raise BudgetSpent("the budget is spent")
        await ask([{"role": "user", "content": str(row)}])
        self.ended.append(row)
        return Accepted(row)

    def failed(self, row, error, message):
        raise AssertionError(f"{row}: {error}: {message}")


@pytest.mark.filterwarnings("error")
def test_when_a_run_stops_what_has_begun_is_ended_and_nothing_else_is_begun(tmp_path):
    step = Gate()
    with ScriptedServer(lambda body: "ok", latency=0.2) as server:
        models = Models({"writer": Role(server.spec)}, str(tmp_path / "answers.sqlite"), "run")
        roll = _Roll(step, models, 2 * HANDED_OVER, "")
        roll.setup()
        try:
            roll.start_bundle()
            for row in range(HANDED_OVER + 10):
                assert not list(roll.process(row, None, 0))
            step.opened.set()
            while not roll._finished.filled:
                time.sleep(0.001)
            with pytest.raises(BudgetSpent):
                list(roll.finish_bundle())
        finally:
            roll.teardown()
        assert sorted(step.begun) == list(range(HANDED_OVER))
        assert sorted(step.ended) == list(range(1, HANDED_OVER)), "what was being paid for arrived"
        assert server.log.requests == HANDED_OVER - 1


def test_rows_that_wait_when_a_bundle_breaks_further_on_are_let_go(tmp_path):
    with ScriptedServer(lambda body: "ok") as server:
        roll = _Roll(Gate(), Models({"writer": Role(server.spec)}, str(tmp_path / "answers.sqlite"), "run"), 8, "")
        roll.setup()
        roll.start_bundle()
        assert not list(roll.process(0, None, 0))
        (waiting,) = roll._waiting
        roll.teardown()
    assert inspect.getcoroutinestate(waiting) == inspect.CORO_CLOSED


class Broken:
    """Row 1 ends in an error of which no row of `failed` can be made; the others take a moment."""

    row_type = rejected_type = object

    def __init__(self, error):
        self.error = error

    async def __call__(self, row, ask):
        await asyncio.sleep(0.01)
        if row == 1:
            raise self.error
        return Accepted(row)

    def failed(self, row, error, message):
        raise KeyError(f"no column for {message}")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("row 1"), "a rollout broke: KeyError: 'no column for row 1'"),
        (asyncio.CancelledError(), "a rollout broke: CancelledError"),
        (SystemExit(3), "a rollout broke: SystemExit: 3"),
    ],
)
def test_a_rollout_that_cannot_even_fail_ends_the_run_in_one_line(tmp_path, error, told):
    models = Models({"writer": Role("m@http://localhost:1/v1")}, str(tmp_path / "answers.sqlite"), "run")
    pipeline = beam.Pipeline(runner=FnApiRunner())
    pipeline | beam.Create(range(5)) | Rollout(Broken(error), models)
    with pytest.raises(RunFailed, match=told) as broken:
        run_through(pipeline, "")
    assert "\n" not in str(broken.value)


class Warmed:
    """A step whose checks take their time to load: until a call has been made."""

    row_type = rejected_type = int

    def __init__(self, called):
        self.called = called
        self.ready = False

    def warm(self):
        self.ready = self.called.wait(30)

    async def __call__(self, row, ask):
        await ask([{"role": "user", "content": str(row)}])
        return Accepted(row) if self.ready else Rejected(row, "answered before the checks were loaded")

    def failed(self, row, error, message):
        raise AssertionError(f"{row}: {error}: {message}")


def rolled(step, rows, models):
    roll = _Roll(step, models, 8, "")
    roll.setup()
    try:
        roll.start_bundle()
        early = [value for row in range(rows) for value in roll.process(row, None, 0)]
        late = roll.finish_bundle()
        return [value for value in (*early, *late) if not isinstance(value, beam.pvalue.TaggedOutput)]
    finally:
        roll.teardown()


def test_calls_go_out_while_checks_are_loaded_and_answers_wait_for_them(tmp_path):
    step = Warmed(threading.Event())
    with ScriptedServer(lambda body: step.called.set() or "ok") as server:
        models = Models({"writer": Role(server.spec)}, str(tmp_path / "answers.sqlite"), "run")
        assert sorted(value.value for value in rolled(step, 3, models)) == [0, 1, 2]


def test_checks_that_cannot_be_loaded_end_the_run_and_fail_no_row(tmp_path):
    class Unready(Warmed):
        def warm(self):
            raise ValueError("there is no such model")

    with ScriptedServer(lambda body: "ok") as server:
        models = Models({"writer": Role(server.spec)}, str(tmp_path / "answers.sqlite"), "run")
        with pytest.raises(ValueError, match="no such model"):
            rolled(Unready(threading.Event()), 3, models)


def test_half_as_many_rollouts_again_run_as_calls_may_be_in_flight(tmp_path):
    models = Models(
        {"writer": Role("m@http://localhost:1/v1")}, str(tmp_path / "answers.sqlite"), "run", max_concurrency=128
    )
    assert Rollout(Gate(), models).window == 192, "or calls come back in bursts, and the processor waits between them"
    assert Rollout(Gate(), models, window=5).window == 5

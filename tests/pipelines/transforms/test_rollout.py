"""The window of running rows, against a real runtime."""

import asyncio
import inspect
import threading
import time

import pytest
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.inference.errors import BudgetSpent
from tokenmill.inference.roles import Models, Role
from tokenmill.pipelines.transforms.rollout import HANDED_OVER, Accepted, _Roll


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

import asyncio
from dataclasses import replace

import psutil
import pytest
from tokenmill.bench.agentic.shop import ENTITIES, STATE, TOOLS
from tokenmill.bench.agentic.shop_program import MODULE
from tokenmill.inference.errors import RunStopped
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.world.executable import Executable, Function
from tokenmill.tools_repo.world.programs import pool as pools
from tokenmill.tools_repo.world.programs.pool import Interpreter, Job, Pool, PoolBroken

from tests.tools_repo.sandboxed import needs_sandbox

INTERPRETER = Interpreter.local(seconds=1.0)
pytestmark = needs_sandbox

JOB = Job("call", MODULE, STATE, "2025-03-02T09:00:00Z", "get_order", {"order_id": "ORD-10"})


def sandboxes(but=()):
    """Sandboxes below this process, without those of other tests."""
    return [p for p in psutil.Process().children(recursive=True) if "bwrap" in p.name() and p not in but]


def run(setting, job=JOB):
    async def go():
        pool = Pool(setting)
        try:
            return await pool.run(job)
        finally:
            await pool.close()

    return asyncio.run(go())


def test_without_a_sandbox_the_run_stops():
    with pytest.raises(RunStopped, match="not installed"):
        run(replace(INTERPRETER, sandbox=Bubblewrap("no-such-program")))


def test_a_python_that_does_not_start_is_told_in_one_line():
    with pytest.raises(PoolBroken, match="does not start in the sandbox"):
        run(replace(INTERPRETER, python="/usr/bin/false"))


@pytest.mark.parametrize(
    "code, said", [("def (", "SyntaxError"), ("x = '\\ud800" + "(" * 300, "Error"), ("\0", "Error")]
)
def test_what_is_no_python_is_told(code, said):
    done = run(INTERPRETER, replace(JOB, code=code))
    assert done.how == "syntax" and said in done.detail


def test_a_module_that_fails_when_it_is_run_is_told_with_its_line():
    done = run(INTERPRETER, replace(JOB, code="x = 1\ny = x / 0\n"))
    assert done.how == "done" and done.answer["broken"] == "ZeroDivisionError: division by zero (line 2)"


def test_processes_are_given_back_when_nobody_needs_them(monkeypatch):
    monkeypatch.setattr(pools, "_IDLE", 0.05)
    code = {spec.name: Function(MODULE, spec.name) for spec in TOOLS}

    others = sandboxes()

    async def go():
        worlds = [Executable(TOOLS, ENTITIES, STATE, code, INTERPRETER) for _ in range(3)]
        await asyncio.gather(*(world.call("get_order", '{"order_id": "ORD-10"}', 0) for world in worlds))
        held = len(sandboxes(others))
        for world in worlds:
            await world.close()
        await asyncio.sleep(0.5)
        assert sandboxes(others) == []
        again = await worlds[0].call("get_order", '{"order_id": "ORD-10"}', 1)
        await worlds[0].close()
        await asyncio.sleep(0.5)
        return held, again

    held, again = asyncio.run(go())
    assert held >= 1 and again.error == "" and sandboxes(others) == []


@pytest.mark.parametrize("wrong", [{"processes": 0}, {"seconds": 0}, {"memory": 1}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="Interpreter"):
        Interpreter.local(**wrong)

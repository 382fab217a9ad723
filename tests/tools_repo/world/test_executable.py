import asyncio
import json
import time

import pytest
from tokenmill.bench.agentic.shop import CANCEL, ENTITIES, GET, STATE, TOOLS, state
from tokenmill.bench.agentic.shop_program import MODULE
from tokenmill.schemas.engines import Engine, EngineModule
from tokenmill.tools_repo.world.entities import EntityModel
from tokenmill.tools_repo.world.executable import EngineFailed, Executable, Function, NoCode, by_tool, functions_for
from tokenmill.tools_repo.world.outcomes import Odds
from tokenmill.tools_repo.world.patch import apply
from tokenmill.tools_repo.world.programs.pool import Interpreter, Pool

from tests.fake_ask import FakeAsk
from tests.tools_repo.sandboxed import needs_sandbox
from tests.tools_repo.world.test_simulator import answer

INTERPRETER = Interpreter.local(seconds=1.0)
pytestmark = needs_sandbox

CODE = {spec.name: Function(MODULE, spec.name) for spec in TOOLS}
ORDER = '{"order_id": "ORD-10"}'


def shop(module=MODULE, **settings):
    return Executable(
        TOOLS, ENTITIES, state(), {spec.name: Function(module, spec.name) for spec in TOOLS}, INTERPRETER, **settings
    )


def run(world, *calls):
    async def go():
        try:
            return [await world.call(name, arguments, number) for number, (name, arguments) in enumerate(calls)]
        finally:
            await world.close()
            await Pool.shared(INTERPRETER).close()

    return asyncio.run(go())


def test_calls_change_the_state_and_later_ones_see_it():
    world = shop()
    calls = [("cancel_order", ORDER), ("get_order", ORDER), ("cancel_order", ORDER), ("get_order", "{}")]
    results = run(world, *calls)
    assert [r.error for r in results] == ["", "", "invalid_state", "invalid_arguments"]
    assert [r.engine for r in results] == ["executable"] * 3 + ["checks"]
    assert json.loads(results[1].content)["status"] == "cancelled"
    assert apply(STATE, json.loads(results[0].patch), ENTITIES) == world.state != STATE
    assert results == run(shop(), *calls)


def test_outcomes_are_put_into_effect_without_a_model():
    (late,) = run(shop(odds=Odds.certain("timeout")), ("cancel_order", ORDER))
    (empty,) = run(shop(odds=Odds.certain("empty")), ("list_orders", '{"customer_id": "CUS-1"}'))
    assert late.error == "timeout" and json.loads(empty.content) == {"orders": []}


HOSTILE = {
    "kills its parent": "import os, signal\n    os.kill(os.getppid(), signal.SIGKILL)",
    "kills everything": "import os, signal\n    os.kill(-1, signal.SIGKILL)",
    "leaves": "import os\n    os._exit(0)",
    "loops": "while True: pass",
    "hoards": "x = bytearray(1 << 40)",
    "forks": "import os\n    os.fork()",
    "starts threads": "import threading\n    threading.Thread(target=print).start()",
    "connects": "import socket\n    socket.create_connection(('1.1.1.1', 53), timeout=0.3)",
    "writes a file": "open('/home/user/kept', 'w').write('x')",
    "reads the memory of its parent": "import os\n    open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "answers without end": "return 'x' * (1 << 24)",
    "makes a folder": "import os\n    os.mkdir('/tmp/kept')",
    "lies about its answer": "import os\n    [os.write(fd, b'[]') for fd in range(3, 9)]\n    os._exit(0)",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_code_fails_alone_and_the_next_call_works(what):
    module = f"def get_order(state, args, now):\n    {HOSTILE[what]}\n    return {{}}\n"

    async def go():
        world, good = shop(module), shop()
        with pytest.raises(EngineFailed):
            await world.call("get_order", ORDER, 0)
        assert world.state == STATE
        result = await good.call("get_order", ORDER, 0)
        await asyncio.gather(world.close(), good.close())
        await Pool.shared(INTERPRETER).close()
        return result

    assert json.loads(asyncio.run(go()).content) == STATE["Order"]["ORD-10"]


def test_nothing_of_this_machine_can_be_seen(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    module = f"""
import os
def get_order(state, args, now):
    seen = {{"env": sorted(os.environ), "home": os.listdir("/home/user")}}
    try:
        seen["file"] = open({str(secret)!r}).read()
    except OSError as error:
        seen["file"] = type(error).__name__
    return seen
"""
    (result,) = run(shop(module), ("get_order", ORDER))
    seen = json.loads(result.content)
    assert seen["file"] == "FileNotFoundError" and seen["home"] == []
    assert set(seen["env"]) <= {
        "PATH",
        "HOME",
        "LANG",
        "TMPDIR",
        "PYTHONHASHSEED",
        "PYTHONDONTWRITEBYTECODE",
        "TZ",
        "PWD",
    }


def test_no_call_sees_what_another_left_behind():
    module = """
import math
COUNT = []
def get_order(state, args, now):
    COUNT.append(1)
    math.seen = getattr(math, "seen", 0) + 1
    return {"count": len(COUNT), "seen": math.seen}
"""
    results = run(shop(module), ("get_order", ORDER), ("get_order", ORDER))
    assert [json.loads(r.content) for r in results] == [{"count": 1, "seen": 1}] * 2


def test_a_tool_without_code_is_simulated_over_the_same_state():
    asked = FakeAsk(lambda body: answer(result={"order_id": "ORD-10", "status": "cancelled"}))
    world = Executable(
        TOOLS, ENTITIES, state(), {"cancel_order": CODE["cancel_order"]}, INTERPRETER, ask=asked, temperature=0.2
    )
    first, second = run(world, ("cancel_order", ORDER), ("get_order", ORDER))
    assert (first.engine, second.engine) == ("executable", "simulator")
    prompt = asked.asked[0]["messages"][-1]["content"]
    assert '"status":"cancelled"' in prompt and "Earlier calls" in prompt and asked.asked[0]["temperature"] == 0.2
    with pytest.raises(NoCode):
        run(Executable(TOOLS, ENTITIES, state(), {}, INTERPRETER), ("get_order", ORDER))


def test_code_that_fails_is_replaced_by_the_simulator_and_changes_nothing_itself():
    module = "def cancel_order(state, args, now):\n    state['Customer'].clear()\n    return {}\n"
    asked = FakeAsk(lambda body: answer(error_code="invalid_state", error_message="No."))
    world = shop(module, ask=asked)
    (result,) = run(world, ("cancel_order", ORDER))
    assert result.engine == "simulator" and result.error == "invalid_state" and world.state == STATE


def engine(entities=ENTITIES, tools=TOOLS):
    module = EngineModule(
        tools=[spec.id for spec in tools], functions=[spec.name for spec in tools], code=MODULE, tests="", tests_passed=1,
        calls_checked=1, tries=1,
    )  # fmt: skip
    return Engine(
        id="shop", entities=entities.text, modules=[module], missing=[], model="m", prompts=[], seed=0, model_calls=1,
        prompt_tokens=1, completion_tokens=1,
    )  # fmt: skip


def test_code_is_found_by_the_tools_id_and_only_for_the_entity_model_it_was_made_for():
    from dataclasses import replace

    renamed = replace(GET, name="shop_get_order")
    engines = by_tool([engine()])
    assert functions_for([renamed], ENTITIES, engines) == {"shop_get_order": Function(MODULE, "get_order")}
    wider = json.loads(ENTITIES.text) | {"Parcel": {"description": "", "schema": {"type": "object"}}}
    assert set(functions_for(TOOLS, EntityModel.parse(json.dumps(wider)), engines)) == {s.name for s in TOOLS}
    other = json.loads(ENTITIES.text)
    other["Order"]["schema"]["properties"]["total"] = {"type": "string"}
    assert functions_for(TOOLS, EntityModel.parse(json.dumps(other)), engines) == {}
    assert functions_for([CANCEL], ENTITIES, by_tool([engine(tools=(GET,))])) == {}


def test_many_worlds_share_a_few_processes_and_are_quick():
    calls, worlds = 10, 30

    async def one(world):
        await world.call("cancel_order", ORDER, 0)
        for number in range(1, calls):
            result = await world.call("get_order", ORDER, number)
            assert json.loads(result.content)["status"] == "cancelled"
        await world.close()

    async def go():
        await asyncio.gather(*(one(shop()) for _ in range(worlds)))
        held = len(Pool.shared(INTERPRETER)._free)
        await Pool.shared(INTERPRETER).close()
        return held

    begun = time.perf_counter()
    assert asyncio.run(go()) <= INTERPRETER.processes
    # 450 a second were measured on two busy cores; far less than that means that something is started anew each time.
    assert worlds * calls / (time.perf_counter() - begun) > 40


def test_a_cancelled_call_does_not_confuse_the_next():
    module = MODULE.replace("    return _order(state", "    import time; time.sleep(0.3)\n    return _order(state", 1)

    async def go():
        slow, good = shop(module), shop()
        task = asyncio.create_task(slow.call("get_order", ORDER, 0))
        await asyncio.sleep(0.15)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        results = [await good.call("get_order", '{"order_id": "ORD-11"}', n) for n in range(4)]
        await asyncio.gather(slow.close(), good.close())
        await Pool.shared(INTERPRETER).close()
        return results

    assert {json.loads(r.content)["order_id"] for r in asyncio.run(go())} == {"ORD-11"}

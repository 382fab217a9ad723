import asyncio
import json
import pickle
from dataclasses import replace

import orjson
import pytest
from tokenmill.bench.agentic.shop import ENTITIES, STATE, TOOLS
from tokenmill.pipelines.agentic.trajectories.executable_worlds import ExecutableWorlds, find_engines
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.agentic import Agent, AgentTask
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.engines import Engine
from tokenmill.schemas.tools import ToolSpec
from tokenmill.tools_repo.world.outcomes import Odds

from tests.fake_ask import FakeAsk
from tests.tools_repo.sandboxed import needs_sandbox
from tests.tools_repo.world.test_executable import engine
from tests.tools_repo.world.test_simulator import answer

pytestmark = needs_sandbox

ORDER = '{"order_id": "ORD-10"}'


def task(level="one_call"):
    agent = Agent(
        id="a", system="You help.", role="clerk", expertise="", tone="", behaviour="",
        tools=[replace(TOOLS[0], name="shop_get_order"), *TOOLS[1:]], sampling="domain", domains=["shop"],
        entities=ENTITIES.text, state=json.dumps(STATE), model="m", prompts=[], seed=0, prompt_tokens=0,
        completion_tokens=0,
    )  # fmt: skip
    return AgentTask(
        id="a/0", agent=agent, level=level, situation="", opening="", goal="", state=json.dumps(STATE), rubric=[],
        model="m", prompts=[], seed=0, prompt_tokens=0, completion_tokens=0,
    )  # fmt: skip


def run(world, *calls):
    async def go():
        results = [await world.call(name, arguments, number) for number, (name, arguments) in enumerate(calls)]
        await world.close()
        return results

    return asyncio.run(go())


def test_a_task_s_tools_run_as_code_and_the_others_are_simulated(tmp_path):
    write_parquet(to_table([engine(tools=(TOOLS[0], TOOLS[2]))], Engine), str(tmp_path / "engines.parquet"))
    pieces, stamps = find_engines([str(tmp_path / "engines.parquet")])
    assert stamps[0][0] == "engines.parquet"
    worlds = pickle.loads(pickle.dumps(ExecutableWorlds(pieces, Odds.certain())))
    ask = FakeAsk(lambda body: answer(result={"orders": []}))
    calls = [("cancel_order", ORDER), ("shop_get_order", ORDER), ("list_orders", '{"customer_id": "CUS-1"}')]
    results = run(worlds(task(), ask, 0, "a/0", 0), *calls)
    assert [r.engine for r in results] == ["executable", "executable", "simulator"]
    assert json.loads(results[1].content)["status"] == "cancelled" and len(ask.asked) == 1
    assert run(worlds(task("recovery"), ask, 0, "a/0", 0), calls[0])[0].error in ("timeout", "rate_limit")


def test_what_holds_no_engines_is_one_line(tmp_path):
    write_parquet(to_table(list(TOOLS), ToolSpec), str(tmp_path / "tools.parquet"))
    with pytest.raises(UsageError, match=r"--engines .*no column"):
        find_engines([str(tmp_path / "tools.parquet")])
    with pytest.raises(UsageError, match="no such file"):
        find_engines([str(tmp_path / "none.parquet")])


def test_a_row_that_is_no_engine_is_named(tmp_path):
    path = tmp_path / "engines.jsonl"
    path.write_bytes(orjson.dumps(engine(), option=orjson.OPT_APPEND_NEWLINE) + b'{"id": 7}\n')
    pieces, _ = find_engines([str(path)])
    with pytest.raises(ValueError, match=r"engines\.jsonl, row 1: not a row of Engine"):
        ExecutableWorlds(pieces)(task(), FakeAsk(lambda body: "nobody may ask this"), 0, "a/0", 0)

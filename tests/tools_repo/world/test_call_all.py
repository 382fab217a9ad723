"""Calls of one turn: reads run at the same time, writes in their order, and the same whenever they are repeated."""

import asyncio
import json

import pytest
from tokenmill.bench.agentic.shop import ENTITIES, TOOLS, state
from tokenmill.bench.servers.troupe import fenced
from tokenmill.inference.call import Answer, Usage
from tokenmill.tools_repo.world.outcomes import Odds
from tokenmill.tools_repo.world.simulator import SimulationFailed, Simulator

from tests.tools_repo.world.test_simulator import RIGHT, answer

READS = [("get_order", '{"order_id": "ORD-10"}'), ("get_order", '{"order_id": "ORD-11"}')]
CANCEL = ("cancel_order", '{"order_id": "ORD-10"}')


class SlowAsk:
    """Answers after a moment; the later the call, the sooner. Remembers how many calls ran at once."""

    def __init__(self, broken=""):
        self.running = self.most = self.calls = 0
        self.broken = broken
        self.asked = []

    async def __call__(self, messages, **_):
        self.running, self.calls = self.running + 1, self.calls + 1
        self.most = max(self.most, self.running)
        self.asked.append(messages[-1]["content"])
        await asyncio.sleep(0.02 / self.calls)
        self.running -= 1
        asked = "\n".join(message["content"] for message in messages)
        call, held = (json.loads(fenced(label, asked)[-1]) for label in ("call", "state"))
        order = held["Order"][call["arguments"]["order_id"]]
        if call["name"] == "cancel_order":
            return Answer(answer(**RIGHT), "stop", Usage(1, 1), "m")
        return Answer("no JSON" if order["order_id"] == self.broken else answer(result=order), "stop", Usage(1, 1), "m")


def run(calls, ask=None, **settings):
    ask = ask or SlowAsk()
    world = Simulator(TOOLS, ENTITIES, state(), ask, **settings)
    results = asyncio.run(world.call_all([(*call, number) for number, call in enumerate(calls)]))
    return world, ask, results


def test_reads_run_together_and_keep_their_order():
    world, ask, results = run(READS)
    assert ask.most == 2 and [json.loads(r.content)["order_id"] for r in results] == ["ORD-10", "ORD-11"]
    assert [past.arguments for past in world.past] == [arguments for _, arguments in READS]
    assert all("Earlier calls" not in asked for asked in ask.asked), "none knows of the other, whichever ends first"


def test_a_write_among_them_waits_and_is_waited_for():
    world, ask, results = run([READS[1], CANCEL, *READS])
    assert ask.most == 2 and [r.error for r in results] == [""] * 4
    assert [json.loads(r.content)["status"] for r in results] == ["shipped", "cancelled", "cancelled", "shipped"]
    assert world.state["Order"]["ORD-10"]["status"] == "cancelled"
    assert "Earlier calls" in ask.asked[1] and "Earlier calls" not in ask.asked[0]


def test_outcomes_depend_on_the_number_alone():
    odds = Odds.parse("timeout=0.5")
    together = [r.outcome for r in run(READS * 4, odds=odds, seed=(3,))[2]]

    async def one_by_one():
        world = Simulator(TOOLS, ENTITIES, state(), SlowAsk(), odds=odds, seed=(3,))
        return [(await world.call(*call, number)).outcome for number, call in enumerate(READS * 4)]

    assert together == asyncio.run(one_by_one()) and len(set(together)) == 2


def test_one_that_fails_fails_the_turn():
    with pytest.raises(SimulationFailed):
        run(READS, SlowAsk(broken="ORD-11"))

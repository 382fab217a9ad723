"""The token ledger, on SQLite and on Redis: spent plus reserved never exceeds the budget, whoever dies."""

import asyncio
import multiprocessing
import os
import random
import signal
import tempfile
import time
from contextlib import asynccontextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tokenmill.inference.cache.base import Entry
from tokenmill.inference.cache.batching import admit
from tokenmill.inference.cache.open import open_cache
from tokenmill.inference.errors import BudgetSpent, CacheBroken

from tests.inference.redis_server import redis_server

FORK = multiprocessing.get_context("fork")
PAID = Entry(200, b"{}")


@pytest.fixture(scope="module")
def redis_url():
    server = redis_server("--appendonly", "no")
    yield server.url
    server.remove()


@pytest.fixture(params=["sqlite", "redis"])
def location(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "cache.sqlite")
    return request.getfixturevalue("redis_url")


@pytest.fixture
def run(request):
    return request.node.name.replace("[", "-").rstrip("]")


@asynccontextmanager
async def opened(location, run, budget=None):
    cache = open_cache(location, run=run, budget=budget)
    cache.poll = 0.005
    try:
        yield cache
    finally:
        await cache.close()


async def waits(task):
    await asyncio.wait([task], timeout=0.1)
    return not task.done()


def test_spending_is_recorded_without_a_budget_and_binds_a_later_one(location, run):
    async def first():
        async with opened(location, run) as cache:
            assert await cache.reserve(10**12) is None
            await cache.put("a", PAID, tokens=70)
            await cache.release(None, tokens=5)
            assert await cache.spent() == 75

    async def later():
        async with opened(location, run, budget=100) as cache:
            assert await cache.spent() == 75
            assert await cache.reserve(25)
            with pytest.raises(BudgetSpent, match=r"budget of 100 tokens is spent: 75 were billed .* may need 26"):
                await cache.reserve(26)
        async with opened(location, run + "-other", budget=100) as cache:
            assert await cache.spent() == 0
            assert await cache.reserve(100)

    asyncio.run(first())
    asyncio.run(later())


def test_a_reservation_is_settled_with_what_was_really_billed(location, run):
    async def scenario():
        async with opened(location, run, budget=100) as cache:
            first = await cache.reserve(100)
            await cache.put("a", PAID, reservation=first, tokens=30)
            second = await cache.reserve(70)
            await cache.release(second, tokens=10)
            await cache.release(second)  # a second settlement changes nothing
            assert await cache.spent() == 40
            assert await cache.reserve(60)

    asyncio.run(scenario())


def test_a_call_waits_for_others_and_goes_on_when_they_settle(location, run):
    async def scenario():
        async with opened(location, run, budget=100) as here, opened(location, run, budget=100) as there:
            mine, theirs = await here.reserve(50), await there.reserve(50)
            waiting = asyncio.create_task(here.reserve(60))
            assert await waits(waiting)
            await there.put("a", PAID, reservation=theirs, tokens=10)
            assert await waits(waiting)
            await here.release(mine)
            assert await asyncio.wait_for(waiting, 30)

    asyncio.run(scenario())


def test_a_waiting_call_learns_that_the_budget_ran_out(location, run):
    async def scenario():
        async with opened(location, run, budget=100) as here, opened(location, run, budget=100) as there:
            theirs = await there.reserve(90)
            waiting = asyncio.create_task(here.reserve(20))
            assert await waits(waiting)
            await there.put("a", PAID, reservation=theirs, tokens=90)
            with pytest.raises(BudgetSpent):
                await asyncio.wait_for(waiting, 30)
            assert await here.reserve(10)

    asyncio.run(scenario())


def test_a_cancelled_request_for_budget_holds_nothing(location, run):
    async def scenario():
        async with opened(location, run, budget=100) as cache:
            for turns in range(6):  # before, during and after the commit that grants it
                task = asyncio.create_task(cache.reserve(100))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    await cache.release(task.result())
                assert await asyncio.wait_for(cache.release(await cache.reserve(100)), 30) is None

    asyncio.run(scenario())


def test_closing_returns_what_was_reserved_and_wakes_who_waits(location, run):
    async def scenario():
        cache = open_cache(location, run=run, budget=100)
        await cache.reserve(100)
        waiting = asyncio.create_task(cache.reserve(1))
        assert await waits(waiting)
        await cache.close()
        with pytest.raises(CacheBroken, match="closed"):
            await waiting
        async with opened(location, run, budget=100) as again:
            assert await asyncio.wait_for(again.reserve(100), 30)

    asyncio.run(scenario())


def _reserve_and_die(location, run):
    async def scenario():
        cache = open_cache(location, run=run, budget=100)
        await cache.put("a", PAID, reservation=await cache.reserve(40), tokens=40)
        await cache.reserve(60)
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(scenario())


def test_a_killed_process_does_not_block_the_budget(location, run):
    child = FORK.Process(target=_reserve_and_die, args=(location, run))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL

    async def scenario():
        async with opened(location, run, budget=100) as cache:
            assert await cache.spent() == 40
            assert await asyncio.wait_for(cache.reserve(60), 30)

    if not location.startswith("unix://"):  # SQLite: the process table tells at once
        asyncio.run(scenario())
        return
    import redis

    client = redis.Redis.from_url(location)
    held = f"tokenmill:run:{run}:held:"
    [key] = client.scan_iter(held + "*")
    assert int(client.get(key)) == 60
    assert 0 < client.pttl(key) <= 60_000
    client.pexpire(key, 200)
    client.close()
    asyncio.run(scenario())


def test_a_live_process_keeps_its_reservation(tmp_path):
    """The process table is asked, and it says that the owner lives."""

    def hold(ready, location):
        async def scenario():
            await open_cache(location, run="r", budget=100).reserve(60)
            ready.set()
            await asyncio.sleep(60)

        asyncio.run(scenario())

    location, ready = str(tmp_path / "cache.sqlite"), FORK.Event()
    child = FORK.Process(target=hold, args=(ready, location))
    child.start()
    ready.wait(10)

    async def scenario():
        async with opened(location, "r", budget=100) as cache:
            waiting = asyncio.create_task(cache.reserve(41))
            assert await waits(waiting)
            child.kill()
            child.join()
            assert await asyncio.wait_for(waiting, 30)

    try:
        asyncio.run(scenario())
    finally:
        child.kill()
        child.join()


def _spend_until_told(location, run, seed, results):
    draw = random.Random(seed)

    async def worker(cache, name):
        spent = 0
        for number in range(10_000):
            want = draw.randint(1, 50)
            try:
                hold = await cache.reserve(want)
            except BudgetSpent:
                return spent
            await asyncio.sleep(draw.random() / 500)
            billed = draw.randint(0, want)
            if draw.random() < 0.8:
                await cache.put(f"{name}-{number}", PAID, reservation=hold, tokens=billed)
            else:
                await cache.release(hold, tokens=billed)
            spent += billed
        raise AssertionError("the budget never ran out")

    async def scenario():
        async with opened(location, run, budget=20_000) as cache:
            return sum(await asyncio.gather(*(worker(cache, f"{seed}-{i}") for i in range(8))))

    results.put(asyncio.run(scenario()))


def test_processes_share_one_budget(location, run):
    results = FORK.Queue()
    children = [FORK.Process(target=_spend_until_told, args=(location, run, seed, results)) for seed in range(3)]
    for child in children:
        child.start()
    spent = sum(results.get(timeout=60) for _ in children)
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert 20_000 - 50 < spent <= 20_000

    async def scenario():
        async with opened(location, run, budget=20_000) as cache:
            assert await cache.spent() == spent
            assert await asyncio.wait_for(cache.reserve(20_000 - spent), 30)  # no reservation was left behind

    asyncio.run(scenario())


class Ledger(RuleBasedStateMachine):
    """Two caches on one file against a model in plain numbers."""

    holds = Bundle("holds")
    BUDGET = 100

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.Runner()
        self.caches = [open_cache(f"{self.folder.name}/c.sqlite", run="r", budget=self.BUDGET) for _ in range(2)]
        for cache in self.caches:
            cache.poll = 0.001
        self.spent, self.held, self.puts = 0, {}, 0

    def teardown(self):
        if hasattr(self, "loop"):
            for cache in self.caches:
                self.loop.run(cache.close())
            self.loop.close()
            self.folder.cleanup()

    @rule(target=holds, which=st.integers(0, 1), tokens=st.integers(0, 60))
    def reserve(self, which, tokens):
        async def attempt():
            task = asyncio.create_task(self.caches[which].reserve(tokens))
            await asyncio.wait([task], timeout=5 if fits or hopeless else 0.01)
            if not task.done():
                task.cancel()
                return None
            return await task

        hopeless = self.spent + tokens > self.BUDGET
        fits = self.spent + sum(self.held.values()) + tokens <= self.BUDGET
        if hopeless:
            with pytest.raises(BudgetSpent):
                self.loop.run(attempt())
            return None
        hold = self.loop.run(attempt())
        assert (hold is not None) == fits
        if hold is not None:
            self.held[hold] = tokens
        return which, hold

    @rule(hold=consumes(holds), share=st.floats(0, 1), answered=st.booleans())
    def settle(self, hold, share, answered):
        if hold is None or hold[1] is None:
            return
        which, reservation = hold
        billed = int(self.held.pop(reservation, 0) * share)
        self.puts += 1
        if answered:
            work = self.caches[which].put(f"{self.puts}", PAID, reservation=reservation, tokens=billed)
        else:
            work = self.caches[which].release(reservation, tokens=billed)
        self.loop.run(work)
        self.spent += billed

    @rule(which=st.integers(0, 1))
    def close(self, which):
        mine = self.caches[which]._owner
        self.loop.run(self.caches[which].close())
        self.held = {hold: tokens for hold, tokens in self.held.items() if not hold.startswith(mine)}

    @invariant()
    def the_budget_holds(self):
        if hasattr(self, "loop"):
            assert self.spent + sum(self.held.values()) <= self.BUDGET
            assert {self.loop.run(cache.spent()) for cache in self.caches} == {self.spent}


TestLedger = Ledger.TestCase
TestLedger.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize(
    ("asks", "taken", "granted"),
    [([10, 10], 80, [True, True]), ([30, 20], 80, [False, True]), ([1], 100, [False]), ([0], 100, [True])],
)
def test_admission_is_first_come_first_served_among_those_that_fit(asks, taken, granted):
    assert admit(asks, taken, 100) == granted


def test_a_silent_owner_lapses_where_the_process_table_cannot_tell(tmp_path):
    """An owner in another container: only its heartbeat counts."""
    import sqlite3

    location = str(tmp_path / "cache.sqlite")
    open_cache(location, run="r")
    with sqlite3.connect(location) as db:
        db.execute("INSERT INTO owners VALUES ('o', 'r', 60, ?, 'elsewhere', 1, '1')", (time.time(),))

    async def scenario():
        async with opened(location, "r", budget=100) as cache:
            waiting = asyncio.create_task(cache.reserve(60))
            assert await waits(waiting)
            with sqlite3.connect(location) as db:
                db.execute("UPDATE owners SET seen = seen - 61")
            assert await asyncio.wait_for(waiting, 30)

    asyncio.run(scenario())

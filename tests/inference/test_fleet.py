"""Calls in flight, shared out among the workers of many machines through a real Redis."""

from __future__ import annotations

import asyncio
import itertools

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.inference.cache import redis as redis_cache
from tokenmill.inference.cache.redis import RedisCache
from tokenmill.inference.errors import RunStopped
from tokenmill.inference.fleet import Told
from tokenmill.inference.roles import Models, Role
from tokenmill.inference.runtime import Runtime

from tests.inference.redis_server import redis_server

RUNS = (f"run {number}" for number in itertools.count())


@pytest.fixture(scope="module")
def server():
    started = redis_server("--appendonly", "no")
    yield started
    started.remove()


def workers(server, count):
    run = next(RUNS)
    return [RedisCache(server.url, run, None) for _ in range(count)]


async def ended(caches):
    for cache in caches:
        await cache.close()


@settings(max_examples=25, deadline=None)
@given(limit=st.integers(3, 20), moves=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=40))
def test_never_more_than_the_limit_whoever_asks_when(server, limit, moves):
    async def play():
        fleet = workers(server, 3)
        granted = [0, 0, 0]
        for who, wanted in moves:
            using = min(granted[who], wanted)  # some calls have come back, none has begun since
            granted[who] = await fleet[who].allot(using, wanted, limit)
            assert granted[who] >= using
            assert sum(granted) <= limit
        await ended(fleet)

    asyncio.run(play())


def test_who_has_much_makes_room_for_who_has_nothing(server):
    async def play():
        one, other = fleet = workers(server, 2)
        assert await one.allot(0, 50, 10) == 10
        assert await other.allot(0, 50, 10) == 0
        assert await one.allot(10, 50, 10) == 10, "what is in flight is not taken back"
        assert await one.allot(4, 50, 10) == 5, "half of it, as calls come back"
        assert await other.allot(0, 50, 10) == 5
        assert await other.allot(5, 0, 10) == 5
        assert await other.allot(0, 0, 10) == 0
        assert await one.allot(5, 50, 10) == 10, "all of it where nobody else wants any"
        await ended(fleet)

    asyncio.run(play())


def test_what_a_silent_worker_had_is_others(server, monkeypatch):
    monkeypatch.setattr(redis_cache, "FLEET_TTL_MS", 50)

    async def play():
        one, other = fleet = workers(server, 2)
        assert await one.allot(0, 10, 10) == 10
        await asyncio.sleep(0.1)
        assert await other.allot(0, 10, 10) == 10
        await ended(fleet)

    asyncio.run(play())


def test_two_workers_together_keep_the_limit_and_use_it(server):
    run = next(RUNS)
    with ScriptedServer(lambda body: "ok", latency=0.1) as endpoint:
        models = Models({"writer": Role(endpoint.spec)}, server.url, run, max_concurrency=20, max_concurrency_total=6)
        fleet = [Runtime(models) for _ in range(2)]

        async def ask(runtime, number):
            await runtime.client.ask([{"role": "user", "content": f"{number}"}])

        asked = [r.submit(ask(r, f"{n} of {i}")) for n in range(30) for i, r in enumerate(fleet)]
        for one in asked:
            one.result(60)
        for runtime in fleet:
            runtime.close()
        assert endpoint.log.most_in_flight <= 6
        assert endpoint.log.most_in_flight >= 5, "both together come near it"


def test_a_worker_that_is_stopped_lets_go_who_waits_for_a_slot(server):
    with ScriptedServer(lambda body: "ok") as endpoint:
        holder = workers(server, 1)[0]
        asyncio.run(holder.allot(4, 4, 4))  # another worker has all of them
        models = Models({"writer": Role(endpoint.spec)}, server.url, holder.run, max_concurrency_total=4)
        runtime = Runtime(models)
        try:
            asked = runtime.submit(runtime.client.ask([{"role": "user", "content": "hello"}]))
            with pytest.raises(TimeoutError):
                asked.result(0.3)
            runtime.client.stop(RunStopped("enough"))
            with pytest.raises(RunStopped, match="enough"):
                asked.result(5)
        finally:
            runtime.close()
        assert endpoint.log.requests == 0


def test_what_workers_tell_becomes_files_of_the_driver(server, tmp_path):
    async def play():
        driver, one, other = fleet = workers(server, 3)
        told = Told(driver, "attempt", tmp_path)
        await one.tell("attempt", b'{"time":0,"rows":{"data":1}}')
        await other.tell("attempt", b'{"time":0,"rows":{"data":2}}')
        await other.tell("an earlier one", b'{"time":0,"rows":{"data":9}}')
        await told.fetch()
        files = {path: path.read_bytes() for path in tmp_path.glob("[0-9]*.json")}
        assert sorted(orjson.loads(content)["rows"]["data"] for content in files.values()) == [1, 2]
        assert all(b'"time":0,' not in content for content in files.values()), "by the driver's clock"
        await told.fetch()
        assert files == {path: path.read_bytes() for path in tmp_path.glob("[0-9]*.json")}, "nothing new was told"
        await one.say_stopped("attempt", b'["BudgetSpent","7 of 7"]')
        await other.say_stopped("attempt", b'["RunStopped","later"]')
        await told.fetch()
        assert (tmp_path / "stopped.json").read_bytes() == b'["BudgetSpent","7 of 7"]'
        await ended(fleet)

    asyncio.run(play())

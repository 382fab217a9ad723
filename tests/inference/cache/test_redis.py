"""The Redis cache against a real server: shared, batched, counted once, and patient while the server is away."""

import asyncio
import hashlib
import multiprocessing
import pickle
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import pytest
import redis
from tokenmill.inference.cache.base import Entry
from tokenmill.inference.cache.open import open_cache
from tokenmill.inference.errors import BudgetSpent, CacheBroken

from tests.inference.redis_server import redis_server

FORK = multiprocessing.get_context("fork")
SECRET = "hunter2-hunter2"


def address(name):
    return hashlib.sha256(str(name).encode()).hexdigest()


@pytest.fixture(scope="module")
def shared():
    server = redis_server()
    yield server
    server.remove()


@pytest.fixture
def server():
    """A server of its own, to be stopped and configured."""
    server = redis_server()
    yield server
    server.remove()


@pytest.fixture
def run(request):
    return request.node.name


@asynccontextmanager
async def opened(url, run="r", budget=None):
    cache = open_cache(url, run=run, budget=budget)
    try:
        yield cache
    finally:
        await cache.close()


def client(server):
    return redis.Redis.from_url(server.url)


def test_answers_and_refusals_follow_the_same_rules_as_in_a_file(server):
    async def scenario():
        async with opened(server.url) as here, opened(server.url) as there:
            assert await here.get(address(1)) is None
            assert await here.put(address(1), Entry(413, b"no")) == Entry(413, b"no")
            assert await there.get(address(1), refusals=False) is None
            assert await there.get(address(1)) == Entry(413, b"no")
            assert await there.put(address(1), Entry(200, b"first " * 200)) == Entry(200, b"first " * 200)
            assert await here.put(address(1), Entry(200, b"second")) == Entry(200, b"first " * 200)
            assert await here.put(address(1), Entry(400, b"no")) == Entry(200, b"first " * 200)
            both = await asyncio.gather(*(here.put(address(2), Entry(200, body)) for body in (b"a", b"\xff\x00")))
            assert both == [Entry(200, b"a")] * 2
            copy = pickle.loads(pickle.dumps(here))
            assert await copy.get(address(2)) == Entry(200, b"a")
            await copy.close()

    asyncio.run(scenario())
    cache = open_cache(server.url, run="r")
    for _ in range(2):  # a second event loop gets a connection of its own
        assert asyncio.run(cache.get(address(2))) == Entry(200, b"a")


def test_concurrent_calls_travel_in_few_commands(server):
    async def scenario():
        async with opened(server.url, budget=10**9) as cache:
            await cache.put(address("warm"), Entry(200, b"up"))
            with client(server) as admin:
                before = admin.info("commandstats")

                async def call(i):
                    assert await cache.get(address(i)) is None
                    hold = await cache.reserve(10)
                    await cache.put(address(i), Entry(200, b"%d" % i), reservation=hold, tokens=10)

                await asyncio.gather(*(call(i) for i in range(300)))
                after = admin.info("commandstats")
        calls = {name: after[f"cmdstat_{name}"]["calls"] for name in ("evalsha", "mget")}
        assert calls["mget"] - before.get("cmdstat_mget", {"calls": 0})["calls"] <= 3
        assert calls["evalsha"] - before["cmdstat_evalsha"]["calls"] <= 8

    asyncio.run(scenario())


def _write(url, name, results):
    async def scenario():
        async with opened(url, "several") as cache:
            entries = await asyncio.gather(
                *(cache.put(address(i), Entry(200, b"%s-%d" % (name, i)), tokens=3) for i in range(300))
            )
            return [entry.body for entry in entries]

    results.put(asyncio.run(scenario()))


def test_processes_agree_on_every_answer(shared):
    results = FORK.Queue()
    writers = [FORK.Process(target=_write, args=(shared.url, name, results)) for name in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    said = [results.get(timeout=30) for _ in writers]
    for writer in writers:
        writer.join()
    assert said[0] == said[1] == said[2]

    async def scenario():
        async with opened(shared.url, "several") as cache:
            assert [(await cache.get(address(i))).body for i in range(300)] == said[0]
            assert await cache.spent() == 3 * 300 * 3

    asyncio.run(scenario())


def test_a_restart_of_the_server_is_waited_for_and_loses_nothing(server):
    async def scenario():
        async with opened(server.url, budget=10_000) as cache:
            hold = await cache.reserve(10)
            await cache.put(address(0), Entry(200, b"before"), reservation=hold, tokens=10)
            held = await cache.reserve(9_000)
            await asyncio.to_thread(server.stop)
            work = [asyncio.create_task(cache.put(address(i), Entry(200, b"x"), tokens=5)) for i in range(1, 50)]
            read = asyncio.create_task(cache.get(address(0)))
            await asyncio.sleep(0.3)
            assert not any(task.done() for task in [*work, read])
            await asyncio.to_thread(server.start)
            await asyncio.wait_for(asyncio.gather(*work), 10)
            assert await read == Entry(200, b"before")
            assert await cache.spent() == 10 + 49 * 5
            with pytest.raises(BudgetSpent):
                await cache.reserve(9_900)
            await cache.release(held)

    asyncio.run(scenario())


class CutAfter:
    """A proxy on a Unix socket that lets one commit reach the server and then cuts the line before its answer."""

    def __init__(self, socket, target):
        self.socket, self.target, self.cut = socket, target, False
        self.cuts = 0

    async def __aenter__(self):
        self.listener = await asyncio.start_unix_server(self.serve, self.socket)
        return self

    async def __aexit__(self, *_):
        self.listener.close()

    async def serve(self, reader, writer):
        up_reader, up_writer = await asyncio.open_unix_connection(self.target)

        async def pump(source, sink, back):
            try:
                while data := await source.read(65536):
                    if back and self.cut:
                        self.cut, self.cuts = False, self.cuts + 1
                        break
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            for end in (writer, up_writer):
                end.close()

        await asyncio.gather(pump(reader, up_writer, False), pump(up_reader, writer, True))


def test_a_commit_whose_answer_was_lost_is_counted_once(server, tmp_path):
    async def scenario():
        socket = str(server.folder / "proxy.sock")
        async with CutAfter(socket, str(server.socket)) as proxy:
            # Opening checks with a blocking client, which a proxy on this loop could not serve.
            cache = await asyncio.to_thread(open_cache, f"unix://{socket}", run="r", budget=100)
            await cache.put(address(0), Entry(200, b"a"), tokens=1)
            proxy.cut = True
            put = cache.put(address(1), Entry(200, b"b"), tokens=10)
            stored, hold = await asyncio.gather(put, cache.reserve(50))
            assert proxy.cuts == 1
            assert stored == Entry(200, b"b")
            assert await cache.spent() == 11
            await cache.release(hold)
            assert await asyncio.wait_for(cache.reserve(89), 30)  # the repeated batch reserved once, too
            await cache.close()

    asyncio.run(scenario())


def test_a_server_gone_for_good_is_one_clear_line(server):
    async def scenario():
        async with opened(server.url) as cache:
            cache.patience = 0.3
            await cache.put(address(0), Entry(200, b"a"))
            await asyncio.to_thread(server.stop)
            for work in (cache.put(address(1), Entry(200, b"b")), cache.get(address(0)), cache.spent()):
                with pytest.raises(CacheBroken, match=rf"Redis at {server.socket} does not answer") as caught:
                    await work
                assert "\n" not in str(caught.value)
            cache.patience = 60
            started = time.monotonic()
            with pytest.raises(CacheBroken):  # it is known to be gone: nobody waits a minute for each further call
                await cache.get(address(0))
            assert time.monotonic() - started < 30
            server.start()
            assert await cache.get(address(0)) == Entry(200, b"a")

    asyncio.run(scenario())


def test_the_heartbeat_keeps_a_reservation_alive(server, monkeypatch):
    monkeypatch.setattr("tokenmill.inference.cache.batching.HEARTBEAT", 0.05)

    async def scenario():
        async with opened(server.url, budget=100) as here, opened(server.url, budget=100) as there:
            here.owner_ttl = 1.0
            await here.reserve(60)
            waiting = asyncio.create_task(there.reserve(60))
            await asyncio.sleep(2.5)
            assert not waiting.done()
            here._alarm.cancel()  # the process stalls
            assert await asyncio.wait_for(waiting, 30)

    asyncio.run(scenario())


# Servers that cannot serve


def broken(url, match):
    with pytest.raises(CacheBroken, match=match) as caught:
        open_cache(url, run="r")
    error = caught.value
    assert "\n" not in str(error)
    while error is not None:  # nowhere in what a traceback would print
        assert SECRET not in str(error)
        error = error.__cause__ if error.__suppress_context__ or error.__cause__ else error.__context__


@pytest.mark.parametrize(
    ("url", "match"),
    [
        (f"redis://:{SECRET}@127.0.0.1:1/0", "Redis at 127.0.0.1:1 does not answer"),
        (f"unix:///nowhere/redis.sock?password={SECRET}", "Redis at /nowhere/redis.sock does not answer"),
        (f"redis://user:{SECRET}@host:port/0", "URL is malformed"),
        (f"redis://:{SECRET}@127.0.0.1:1/0?colour=red", "unusable option"),
    ],
)
def test_a_bad_url_is_one_line_without_the_password(url, match):
    broken(url, match)


def test_a_wrong_password_is_one_line_without_it(server):
    with client(server) as admin:
        admin.config_set("requirepass", "right")
    broken(f"{server.url}?password={SECRET}", "refuses the user or password")
    broken(server.url, "refuses the user or password")
    cache = open_cache(f"{server.url}?password=right", run="r")
    assert asyncio.run(cache.get(address(1))) is None


def test_another_schema_is_refused(server):
    with client(server) as admin:
        admin.set("tokenmill:schema", 2)
    broken(server.url, "another schema version")


def test_a_full_server_says_so_and_keeps_its_answers(server):
    async def scenario():
        async with opened(server.url) as cache:
            await cache.put(address(0), Entry(200, b"a"))
            with client(server) as admin:
                admin.config_set("maxmemory", 1)
            with pytest.raises(CacheBroken, match="out of memory; raise its maxmemory"):
                await cache.put(address(1), Entry(200, b"b"), tokens=5)
            assert await cache.get(address(0)) == Entry(200, b"a")
            with client(server) as admin:
                admin.config_set("maxmemory", 0)
                assert not admin.exists("tokenmill:run:r:spent") or int(admin.get("tokenmill:run:r:spent")) == 0

    asyncio.run(scenario())


def test_a_replica_is_refused(server):
    with client(server) as admin:
        admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    broken(server.url, "read-only replica")


def test_without_the_redis_package_the_extra_is_named():
    code = """
import sys
sys.modules["redis"] = None
from tokenmill.inference.cache.open import open_cache
from tokenmill.inference.errors import CacheBroken
try:
    open_cache("redis://localhost", run="r")
except CacheBroken as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "a Redis cache needs the redis package: pip install 'tokenmill[redis]'"

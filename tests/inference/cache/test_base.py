"""The SQLite cache: what was paid is kept, whoever writes, waits, is killed or runs out of disk."""

import asyncio
import hashlib
import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenmill.inference.cache.base import Codec, Entry
from tokenmill.inference.cache.open import open_cache
from tokenmill.inference.cache.sqlite import APPLICATION_ID, NEWEST, SCHEMA
from tokenmill.inference.errors import CacheBroken

ROOT = Path(__file__).parents[3]
FORK = multiprocessing.get_context("fork")


def address(name):
    return hashlib.sha256(str(name).encode()).hexdigest()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers" / "cache.sqlite"


@asynccontextmanager
async def opened(path, run="r"):
    cache = open_cache(str(path), run=run)
    try:
        yield cache
    finally:
        await cache.close()


def python(code, *arguments, **options):
    """Start a process of its own, with nothing inherited from this one."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)


# Entries


def test_the_first_paid_answer_wins(path):
    async def scenario():
        async with opened(path) as here, opened(path) as there:
            assert await here.get(address(1)) is None
            assert await here.put(address(1), Entry(200, b"first")) == Entry(200, b"first")
            assert await there.put(address(1), Entry(200, b"second")) == Entry(200, b"first")
            assert await there.put(address(1), Entry(400, b"no")) == Entry(200, b"first")
            both = await asyncio.gather(*(here.put(address(2), Entry(200, body)) for body in (b"a", b"b")))
            assert both == [Entry(200, b"a")] * 2
            assert await there.get(address(2)) == Entry(200, b"a")

    asyncio.run(scenario())


def test_a_refusal_is_remembered_until_something_newer_comes(path):
    async def scenario():
        async with opened(path) as cache:
            await cache.put(address(1), Entry(413, b"too long for 2048"))
            assert await cache.get(address(1)) == Entry(413, b"too long for 2048")
            assert await cache.get(address(1), refusals=False) is None
            assert await cache.put(address(1), Entry(413, b"too long for 4096")) == Entry(413, b"too long for 4096")
            assert await cache.put(address(1), Entry(200, b"answer")) == Entry(200, b"answer")
            assert await cache.get(address(1), refusals=False) == Entry(200, b"answer")

    asyncio.run(scenario())


@pytest.mark.parametrize("status", [0, 201, 401, 429, 500])
def test_only_answers_and_refusals_can_be_stored(status):
    with pytest.raises(ValueError, match=str(status)):
        Entry(status, b"")


@given(st.binary(max_size=2000))
@example(b"")
@example(b"\x28\xb5\x2f\xfd looks compressed")
@example(b"the same again " * 10_000)
@example(os.urandom(5000))
def test_bodies_come_back_byte_for_byte(body):
    codec = Codec()
    packed = codec.pack(body)
    assert codec.unpack(packed) == body
    assert len(packed) <= len(body) + 1


@pytest.mark.parametrize("packed", [b"", b"\x07abc", b"\x01not zstd"])
def test_a_damaged_body_is_no_answer(packed):
    with pytest.raises(CacheBroken, match="the cache holds"):
        Codec().unpack(packed)


def test_a_large_body_and_any_address_are_kept(path):
    async def scenario():
        entries = {"not a hash": os.urandom(6_000_000), "x" * 64: b"64 characters, not hex", "": b"empty"}
        async with opened(path) as cache:
            await asyncio.gather(*(cache.put(address, Entry(200, body)) for address, body in entries.items()))
        async with opened(path) as cache:
            for address, body in entries.items():
                assert await cache.get(address) == Entry(200, body)

    asyncio.run(scenario())


# Life of a connection


def test_it_pickles_closes_and_opens_again(path):
    async def scenario():
        cache = open_cache(str(path), run="r", budget=10)
        await cache.put(address(1), Entry(200, b"a"))
        copy = pickle.loads(pickle.dumps(cache))
        assert await copy.get(address(1)) == Entry(200, b"a")
        for one in (cache, copy, copy):
            await one.close()
        assert await cache.get(address(1)) == Entry(200, b"a")
        await cache.close()
        assert [file.name for file in path.parent.iterdir()] == [path.name]  # the log is gone

    asyncio.run(scenario())


def test_a_cancelled_put_is_stored_all_the_same(path):
    async def scenario():
        async with opened(path) as cache:
            task = asyncio.create_task(cache.put(address(1), Entry(200, b"paid"), tokens=7))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        async with opened(path) as cache:
            assert await cache.get(address(1)) == Entry(200, b"paid")
            assert await cache.spent() == 7

    asyncio.run(scenario())


@pytest.mark.parametrize("locked", [False, True])
def test_a_put_outlives_its_event_loop(path, locked):
    """The loop ends before the commit, or while the commit waits for another process; closing makes up for it."""
    cache = open_cache(str(path), run="r")
    other = sqlite3.connect(path, isolation_level=None)
    if locked:
        other.execute("BEGIN IMMEDIATE")

    async def leave_early():
        put = asyncio.get_running_loop().create_task(cache.put(address(1), Entry(200, b"paid"), tokens=7))
        await asyncio.sleep(0.05 if locked else 0)
        assert not put.done()

    asyncio.run(leave_early())
    other.close()
    asyncio.run(cache.close())

    async def look():
        async with opened(path) as again:
            assert await again.get(address(1)) == Entry(200, b"paid")
            assert await again.spent() == 7

    asyncio.run(look())


def test_a_forked_child_leaves_the_parents_connection_alone(path):
    cache = open_cache(str(path), run="r")
    asyncio.run(cache.put(address("parent"), Entry(200, b"p")))

    def work():
        inherited = cache._db
        assert asyncio.run(cache.get(address("parent"))) == Entry(200, b"p")
        assert cache._db is not inherited
        asyncio.run(cache.put(address("child"), Entry(200, b"c")))

    child = FORK.Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0

    async def scenario():
        assert await cache.get(address("child")) == Entry(200, b"c")
        await cache.put(address("after"), Entry(200, b"a"))
        await cache.close()

    asyncio.run(scenario())


def test_threads_with_a_loop_each_share_the_file(path):
    errors = []

    def work(name):
        async def scenario():
            async with opened(path, "threads") as cache:
                await asyncio.gather(
                    *(cache.put(address(f"{name}{i}"), Entry(200, b"x" * i), tokens=1) for i in range(200))
                )

        try:
            asyncio.run(scenario())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []

    async def scenario():
        async with opened(path, "threads") as cache:
            assert await cache.spent() == 600
            assert await cache.get(address("b150")) == Entry(200, b"x" * 150)

    asyncio.run(scenario())


# Several processes

WRITER = """
    import asyncio, hashlib, sys
    from tokenmill.inference.cache.base import Entry
    from tokenmill.inference.cache.open import open_cache

    async def main(path, name, count):
        cache = open_cache(path, run="r")
        async def put(i):
            address = hashlib.sha256(b"%d" % i).hexdigest()
            entry = await cache.put(address, Entry(200, (name + "-%d-" % i).encode() * 50), tokens=3)
            print(i, entry.body.decode().split("-")[0], flush=True)
        numbers = iter(range(count))
        async def work():
            for i in numbers:
                await put(i)
        await asyncio.gather(*(work() for _ in range(20)))
        await cache.close()

    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_processes_that_start_together_agree_on_every_answer(path):
    writers = [python(WRITER, path, name, 400) for name in "abc"]
    said = [dict(line.split() for line in writer.communicate(timeout=60)[0].splitlines()) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert said[0] == said[1] == said[2]
    assert len(said[0]) == 400

    async def scenario():
        async with opened(path) as cache:
            for number, name in said[0].items():
                assert (await cache.get(address(number))).body == f"{name}-{number}-".encode() * 50
            assert await cache.spent() == 3 * 3 * 400

    asyncio.run(scenario())


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2])
def test_sigkill_loses_nothing_that_was_acknowledged(path, delay):
    writer = python(WRITER, path, "w", 1_000_000)
    first = writer.stdout.readline()
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    told = [first, *writer.stdout.read().splitlines(keepends=True)]
    writer.wait()
    acknowledged = [line.split()[0] for line in told if line.endswith("\n")]
    assert acknowledged

    async def scenario():
        async with opened(path) as cache:
            for number in acknowledged:
                assert (await cache.get(address(number))).body == f"w-{number}-".encode() * 50
            with sqlite3.connect(path) as db:
                stored = db.execute("SELECT count(*) FROM answers").fetchone()[0]
            assert len(acknowledged) <= stored <= len(acknowledged) + 40
            assert await cache.spent() == 3 * stored  # an answer and its price are committed together

    asyncio.run(scenario())


def test_the_loop_runs_on_while_another_process_holds_the_lock(path):
    async def scenario():
        async with opened(path) as cache:
            await cache.put(address(0), Entry(200, b"a"))
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            put = asyncio.create_task(cache.put(address(1), Entry(200, b"b")))
            ticks = 0
            while ticks < 40:
                await asyncio.sleep(0.005)
                assert await cache.get(address(0))  # readers do not wait
                ticks += 1
            assert not put.done()
            other.execute("COMMIT")
            other.close()
            assert await asyncio.wait_for(put, 30) == Entry(200, b"b")

    started = time.monotonic()
    asyncio.run(scenario())
    assert time.monotonic() - started < 30


def test_a_lock_that_is_never_freed_is_one_clear_line(path):
    async def scenario():
        async with opened(path) as cache:
            cache.patience = 0.1
            await cache.put(address(0), Entry(200, b"a"))
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(CacheBroken, match="another process kept it locked"):
                await cache.put(address(1), Entry(200, b"b"))
            other.close()
            assert await cache.put(address(1), Entry(200, b"c")) == Entry(200, b"c")

    asyncio.run(scenario())


# Files of other versions


def test_a_file_of_the_version_with_notes_answers_and_is_written_on(path):
    """What was paid is not lost with what used to be noted beside it."""
    packed = Codec().pack(b"paid " * 200)
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.executescript(SCHEMA)
        db.execute("CREATE TABLE notes (answer INTEGER PRIMARY KEY, value BLOB NOT NULL)")
        db.execute("INSERT INTO answers VALUES (?, 200, ?)", (bytes.fromhex(address(1)), packed))
        db.execute("INSERT INTO notes VALUES (1, 'verdicts')")
        db.execute("INSERT INTO runs VALUES ('r', 7)")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 2")
    db.close()

    async def scenario():
        async with opened(path) as cache:
            assert await cache.get(address(1)) == Entry(200, b"paid " * 200)
            assert await cache.put(address(1), Entry(200, b"again")) == Entry(200, b"paid " * 200)
            assert await cache.spent() == 7
            await cache.put(address(2), Entry(200, b"new"), tokens=3)
        async with opened(path) as cache:
            assert await cache.get(address(2)) == Entry(200, b"new") and await cache.spent() == 10

    asyncio.run(scenario())
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT value FROM notes").fetchall() == [("verdicts",)]
        assert db.execute("PRAGMA user_version").fetchone()[0] == 2, "an older Tokenmill goes on with its notes"
    db.close()


# Unusable places


def broken(location):
    with pytest.raises(CacheBroken) as caught:
        open_cache(str(location), run="r")
    assert "\n" not in str(caught.value)
    assert str(location) in str(caught.value) or str(Path(location).parent) in str(caught.value)
    return str(caught.value)


def test_another_programs_database_is_refused_and_left_as_it_was(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (a)")
    db.close()
    before = path.read_bytes()
    assert "another program" in broken(path)
    assert path.read_bytes() == before


def test_a_text_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 500)
    assert "not a Tokenmill cache" in broken(path)
    assert path.read_text().startswith("hello")


def test_a_newer_schema_is_refused(path):
    open_cache(str(path), run="r")
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {NEWEST + 1}")
    db.close()
    assert "newer Tokenmill" in broken(path)


def test_a_folder_is_refused(tmp_path):
    assert "is a folder" in broken(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot create the cache folder" in broken(tmp_path / "file" / "cache.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    assert "permissions" in broken(tmp_path / "cache.sqlite")


@pytest.mark.parametrize(
    ("location", "run", "budget", "message"),
    [("", "r", None, "name a file"), ("x", "", None, "run:"), ("x", "r", 0, "budget: must be at least 1")],
)
def test_wrong_arguments_name_the_field(location, run, budget, message):
    with pytest.raises(ValueError, match=message):
        open_cache(location, run=run, budget=budget)


def test_a_damaged_file_is_one_clear_line(path):
    async def fill():
        async with opened(path) as cache:
            await asyncio.gather(*(cache.put(address(i), Entry(200, os.urandom(900))) for i in range(200)))

    async def read():
        async with opened(path) as cache:
            for i in range(200):
                await cache.get(address(i))

    asyncio.run(fill())
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xaa" * (path.stat().st_size - 3 * 4096))
    with pytest.raises(CacheBroken, match="is damaged; move it aside") as caught:
        asyncio.run(read())
    assert "\n" not in str(caught.value)


FILL = """
    import asyncio, hashlib, os, resource, sys
    from tokenmill.inference.cache.base import Entry
    from tokenmill.inference.cache.open import open_cache
    from tokenmill.inference.errors import CacheBroken

    async def main(path, limit):
        cache = open_cache(path, run="r")
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for i in range(100_000):
            try:
                await cache.put(hashlib.sha256(b"%d" % i).hexdigest(), Entry(200, b"%d-" % i + os.urandom(3000)))
            except CacheBroken as error:
                print("broken:", error, flush=True)
                assert (await cache.get(hashlib.sha256(b"0").hexdigest())).body.startswith(b"0-")
                break
            print(i, flush=True)
        await cache.close()

    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def fill(path, limit=0):
    """Write until the disk refuses; returns the numbers acknowledged and the message."""
    writer = python(FILL, path, limit)
    *acknowledged, message = writer.communicate(timeout=60)[0].splitlines()
    assert writer.returncode == 0
    return acknowledged, message


def check_filled(path, acknowledged):
    async def scenario():
        async with opened(path) as cache:
            for number in acknowledged:
                assert (await cache.get(address(number))).body.startswith(f"{number}-".encode())
            assert await cache.put(address("more"), Entry(200, b"room again")) == Entry(200, b"room again")

    asyncio.run(scenario())


def test_a_file_over_its_limit_stops_clearly_and_keeps_what_was_acknowledged(path):
    acknowledged, message = fill(path, limit=1_000_000)
    assert message.startswith(f"broken: the cache {path}: the disk")
    assert len(acknowledged) > 50
    check_filled(path, acknowledged)


@pytest.fixture
def small_disk(tmp_path):
    mounted = tmp_path / "disk"
    mounted.mkdir()
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mounted], capture_output=True)
    except OSError:
        pytest.skip("no mount command")
    if done.returncode:
        pytest.skip("mounting a small file system takes root")
    yield mounted
    subprocess.run(["umount", mounted], check=True)


def test_a_full_disk_stops_clearly_and_keeps_what_was_acknowledged(small_disk):
    (small_disk / "ballast").write_bytes(b"x" * 500_000)
    acknowledged, message = fill(small_disk / "cache.sqlite")
    assert "the disk is full; make room and repeat the command" in message
    assert len(acknowledged) > 50
    (small_disk / "ballast").unlink()
    check_filled(small_disk / "cache.sqlite", acknowledged)


def test_the_log_stays_bounded_while_writing_never_pauses(path):
    async def scenario():
        async with opened(path) as cache:
            for batch in range(120):
                await asyncio.gather(
                    *(cache.put(address((batch, i)), Entry(200, os.urandom(100_000))) for i in range(10))
                )
            assert path.stat().st_size > 10_000_000
            assert (
                path.with_name(path.name + "-wal").stat().st_size < 80_000_000
            )  # of 120 MB; a slow disk may skip a turn

    asyncio.run(scenario())

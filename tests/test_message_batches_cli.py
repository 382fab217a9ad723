"""Calls in Anthropic's Message Batches, with real processes and a server with books of its own."""

import os
import random
import signal
import subprocess
import time

import pytest
from tokenmill.bench.servers.mill import Writer

from tests.outputs import manifest
from tests.servers.message_batches import Faults, MessageBatchesServer
from tests.test_batch_cli import SPOILT, command, corpus, run, shards

MODEL = "claude-haiku-4-5"
KEY = "test-key"


def environment(server):
    return {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY}


@pytest.mark.parametrize("ahead", [0.0, 5000.0])
def test_batches_with_every_fault_end_in_the_bytes_of_a_direct_run(tmp_path, ahead):
    corpus(tmp_path, 8)
    faults = Faults(expired=0.1, canceled=0.05, errored=0.05, missing=0.03, lost_replies=1, strangers=True, ahead=ahead)
    with MessageBatchesServer(Writer(faults=SPOILT), working=0.1, faults=faults, key=KEY, models=(MODEL,)) as server:
        plain = command(tmp_path, f"anthropic:{MODEL}", "direct", "--no-judge", cache="direct.sqlite")
        code, _, said = run(plain, tmp_path, **environment(server))
        assert code == 0, said
        asked = server.log.requests
        argv = command(tmp_path, f"anthropic:{MODEL}?batch&poll=0.1", "batch", "--no-judge")
        code, _, said = run(argv, tmp_path, **environment(server))
        assert code == 0, said
        assert server.books.twice == [] and server.books.batches > 3
        assert server.log.requests == asked and len(server.answered) == asked > 0
    assert shards(tmp_path / "batch") == shards(tmp_path / "direct")
    calls, direct = (manifest(tmp_path / name)["calls"]["writer"] for name in ("batch", "direct"))
    assert calls["batched"] == calls["paid"] == direct["paid"]
    assert calls["batched_prompt_tokens"] == direct["prompt_tokens"]


def test_killed_at_any_moment_it_finds_its_batches_and_sends_nothing_twice(tmp_path):
    corpus(tmp_path, 20)
    with MessageBatchesServer(Writer(), working=1.0, faults=Faults(expired=0.05), key=KEY, models=(MODEL,)) as server:
        argv = command(tmp_path, f"anthropic:{MODEL}?batch&poll=0.1&requests=25", "out", "--no-judge")
        draw = random.Random(3)
        for _ in range(3):
            environ = {**os.environ, **environment(server)}
            process = subprocess.Popen(
                argv, cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            seen, end = server.books.batches, time.monotonic() + 20
            while time.monotonic() < end and server.books.batches == seen and process.poll() is None:
                time.sleep(0.001)
            time.sleep(draw.random() * 0.2)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        code, _, said = run(argv, tmp_path, **environment(server))
        assert code == 0, said
        assert server.books.twice == []
        assert set(server.books.sent) == server.answered and len(server.books.sent) == 80
    assert manifest(tmp_path / "out")["counts"]["accepted"] == 40

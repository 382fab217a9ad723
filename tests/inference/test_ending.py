"""What a run leaves in the process that it ran in: nothing."""

import asyncio
import threading
from pathlib import Path

from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.inference.ending import at_end, end
from tokenmill.inference.roles import Models, Role
from tokenmill.inference.runtime import obtain, release


def held():
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def test_a_runtime_that_is_released_leaves_no_descriptor_and_no_thread(tmp_path):
    counts = []
    with ScriptedServer(lambda body: "fine") as server:
        for number in range(4):
            models = Models({"writer": Role(server.spec)}, str(tmp_path / "answers.sqlite"), f"run {number}")
            runtime = obtain(models)
            runtime.run(runtime.client.ask([{"role": "user", "content": f"{number}"}]))
            release(runtime)
            counts.append(held())
    # One connection more or less may be on its way out at the other end; a loop that stayed open had eight.
    assert counts[-1][0] <= counts[0][0] + 1 and counts[-1][1] == counts[0][1]


def test_what_is_kept_on_a_loop_is_closed_once_before_it_ends():
    closed = []

    async def main():
        async def close():
            closed.append("pool")

        async def broken():
            raise OSError("gone already")

        owners = object(), object()
        at_end(owners[0], broken)
        at_end(owners[1], close)
        at_end(owners[1], close)
        await end()
        await end()

    asyncio.run(main())
    assert closed == ["pool"]

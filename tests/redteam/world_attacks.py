"""Attacks of generated tools on the process that runs them for many worlds: hostile modules between honest calls.

python -m tests.redteam.world_attacks      # one JSON line for each attack
"""

from __future__ import annotations

import asyncio
import json
import os

from tokenmill.tools_repo.world.programs.pool import Interpreter, Job, Pool

HONEST = "def look(state, arguments, now):\n    return {'honest': state['n'] + arguments['by']}\n"
FORGED = "FORGED"
_PREFIX = "import os, sys, json, glob, time\n"


def calling(body: str) -> str:
    return _PREFIX + "def look(state, arguments, now):\n" + "".join(f"    {line}\n" for line in body.splitlines())


_LINE = 'b\'{"id":"0","how":"done","answer":{"result":{"honest":"FORGED"}}}\\n\''
MODULES: dict[str, str] = {
    "write answers to every descriptor": calling(
        f"for n in range(64):\n    try: os.write(n, {_LINE} * 3)\n    except OSError: pass\nreturn 1"
    ),
    "write answers to the first process": calling(
        f"for p in glob.glob('/proc/[0-9]*/fd/*'):\n    try: os.write(os.open(p, os.O_WRONLY | os.O_NONBLOCK), {_LINE})\n    except OSError: pass\nreturn 1"
    ),
    "write answers to the parent's files": calling(
        f"for n in range(64):\n    try: os.write(os.open(f'/proc/{{os.getppid()}}/fd/{{n}}', os.O_WRONLY), {_LINE})\n    except OSError: pass\nreturn 1"
    ),
    "take the next job from the first process": calling(
        "for p in glob.glob('/proc/[0-9]*/fd/*'):\n    try: os.read(os.open(p, os.O_RDONLY | os.O_NONBLOCK), 1 << 20)\n    except OSError: pass\nreturn 1"
    ),
    "write into the parent's memory": calling(
        "try:\n    fd = os.open(f'/proc/{os.getppid()}/mem', os.O_RDWR)\n    return 'FORGED'\nexcept OSError: return 1"
    ),
    "write into the first process's memory": calling(
        "try:\n    fd = os.open('/proc/1/mem', os.O_RDWR)\n    return 'FORGED'\nexcept OSError: return 1"
    ),
    "kill the parent": calling("os.kill(os.getppid(), 9)\nreturn 1"),
    "stop the parent": calling("os.kill(os.getppid(), 19)\nreturn 1"),
    "leave a child behind": calling(
        f"pid = os.fork()\nif pid == 0:\n    time.sleep(2)\n    os.write(1, {_LINE})\nreturn 1"
    ),
    "leave a file": calling("open('/tmp/FORGED', 'w').write('x')\nreturn 1"),
    "leave a folder": calling("os.mkdir('/dev/shm/FORGED')\nreturn 1"),
    "leave shared memory": calling(
        "import ctypes\nlibc = ctypes.CDLL(None)\nif libc.shmget(7, 4096, 0o1666) >= 0: return 'FORGED'\nreturn 1"
    ),
    "leave a queue of POSIX": calling(
        "import ctypes\nif ctypes.CDLL(None).syscall(240, b'q', 66, 438, 0) >= 0: return 'FORGED'\nreturn 1"
    ),
    "leave a queue of System V": calling(
        "import ctypes\nif ctypes.CDLL(None).msgget(7, 0o1666) >= 0: return 'FORGED'\nreturn 1"
    ),
    "slow the parent down": calling(
        "import ctypes\nif ctypes.CDLL(None).sched_setscheduler(os.getppid(), 5, ctypes.create_string_buffer(4)) == 0: return 'FORGED'\nreturn 1"
    ),
    "patch what encodes answers": calling(
        "import json\njson.dumps = lambda *a, **k: 'FORGED'\nsys.modules['json'] = None\nreturn 1"
    ),
    "patch what performs calls": calling(
        "import __main__\n__main__.perform = __main__.dumps = lambda *a: 'FORGED'\nreturn 1"
    ),
    "end at once with an answer": calling("os.write(3, b'x')\nos._exit(0)"),
    "answer two lines": calling("return {'x': 'y\\n' + 'z' * 100}"),
    "answer without end": calling("return ['x' * (1 << 20)] * 100"),
    "answer what nests without end": calling("x = []\nfor _ in range(100000): x = [x]\nreturn x"),
    "answer what is no JSON": calling("return float('nan')"),
    "run without end": calling("while True: pass"),
    "sleep without end": calling("time.sleep(1000)"),
    "take all memory": calling("x = bytearray(1 << 33)\nreturn len(x)"),
    "be a module that never ends": "while True: pass\n",
    "be a module that cannot be compiled": "(" * 100_000,
}


async def tell(modules: dict[str, str]) -> None:
    """Call each module between honest ones, and print how both came out."""
    for title, code in modules.items():
        pool = Pool(Interpreter.local(processes=1, seconds=1.0))
        job = {"state": {"n": 2}, "now": "2025-01-01T00:00:00Z", "tool": "look"}
        try:
            hostile = await pool.run(Job("call", code, arguments={"by": 0}, **job))
            after = [await pool.run(Job("call", HONEST, arguments={"by": by}, **job)) for by in (1, 5, 7)]
            told = [done.answer.get("result", done.how) for done in after]
        finally:
            await pool.close()
        said = [hostile.how, json.dumps(hostile.answer)[:300]]
        print(json.dumps({"attack": title, "user": os.getuid(), "hostile": said, "after": told}), flush=True)


if __name__ == "__main__":
    asyncio.run(tell(MODULES))

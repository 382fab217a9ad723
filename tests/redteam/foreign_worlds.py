"""Attacks by another hand on worlds that run as code, see `foreign`: what a tool does to the process that it shares with
others, by what processes share.

    python -m tests.redteam.foreign_worlds      # one JSON line for each attack
"""

from __future__ import annotations

import asyncio

from tests.redteam.world_attacks import calling, tell

_EACH = "for n in range(64):\n    try: {0}\n    except (OSError, ValueError): pass\nreturn 1"
MODULES: dict[str, str] = {
    "make every shared file not wait": calling(
        "import fcntl\n" + _EACH.format("fcntl.fcntl(n, fcntl.F_SETFL, os.O_NONBLOCK)")
    ),
    "have the parent signalled when something comes": calling(
        "import fcntl, signal\n"
        + _EACH.format(
            "(fcntl.fcntl(n, fcntl.F_SETOWN, os.getppid()), fcntl.fcntl(n, 10, int(signal.SIGKILL)), fcntl.fcntl(n, fcntl.F_SETFL, 0o20000))"
        )
    ),
    "shut down every shared socket": calling(
        "import socket\n" + _EACH.format("socket.socket(fileno=os.dup(n)).shutdown(2)")
    ),
    "shrink and time the buffers of shared sockets": calling(
        "import socket, struct\n"
        + _EACH.format(
            "[socket.socket(fileno=os.dup(n)).setsockopt(socket.SOL_SOCKET, o, struct.pack('qq', 0, 1)) for o in (20, 21, 7, 8)]"
        )
    ),
    "read ahead what is for others": calling(
        "import fcntl\ngot = []\nfor n in range(64):\n    try:\n        os.set_blocking(n, False); got.append(len(os.read(n, 1 << 20)))\n    except OSError: pass\n"
        "    try: os.set_blocking(n, True)\n    except OSError: pass\nreturn got"
    ),
    "close everything": calling("os.closerange(0, 4096)\nreturn 1"),
    "put a file in place of every descriptor": calling(
        "f = os.open('/tmp/x', os.O_CREAT | os.O_RDWR)\nfor n in range(64):\n    if n != f: os.dup2(f, n)\nreturn 1"
    ),
    "register work for every fork": "import os\n"
    "def go(*a):\n    os._exit(0)\nos.register_at_fork(before=go, after_in_parent=go, after_in_child=go)\n"
    "def look(state, arguments, now):\n    os.fork()\n    return 1\n",
    "register work for the end": "import atexit, os\natexit.register(os.write, 1, b'FORGED')\ndef look(state, arguments, now): return 1\n",
    "replace how modules are found": "import sys\nclass F:\n    def find_spec(s, *a): raise SystemExit\nsys.meta_path.insert(0, F())\n"
    "def look(state, arguments, now):\n    sys.modules.clear()\n    return 1\n",
    "trace everything": calling(
        "import threading\nt = lambda *a: (_ for _ in ()).throw(SystemExit)\nthreading.setprofile(t)\nsys.setprofile(t)\nsys.settrace(t)\nreturn 1"
    ),
    "have no room to recurse": calling("sys.setrecursionlimit(20)\nreturn 1"),
    "ring a clock later": calling(
        "import signal\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\nsignal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\nreturn 1"
    ),
    "go elsewhere and mask all": calling("os.chdir('/proc'); os.umask(0o777); os.nice(19)\nreturn 1"),
    "raise what nobody catches": calling("raise KeyboardInterrupt"),
    "raise what cannot be shown": calling(
        "class E(Exception):\n    def __str__(s):\n        while True: pass\n    __repr__ = __str__\nraise E"
    ),
    "raise a hundred megabytes": calling("raise ValueError('x' * 100_000_000)"),
    "raise a chain without end": calling("e = ValueError()\ne.__cause__ = e\ne.__context__ = e\nraise e"),
    "return a dict that acts as it is written": calling(
        "class D(dict):\n    def items(s):\n        os.write(1, b'FORGED\\n')\n        return [('honest', 'x')]\n    __iter__ = lambda s: iter(['honest'])\nreturn D(a=1)"
    ),
    "return a text and a number of its own classes": calling(
        "class S(str):\n    def __str__(s): return 'FORGED'\n    encode = lambda s, *a: b'FORGED'\nclass N(int):\n    __repr__ = __str__ = lambda s: '1}, \"how\": \"FORGED\"'\n"
        "return {S('a'): N(5)}"
    ),
    "return the words of an answer": calling(
        "return {'id': '0', 'how': 'done', 'answer': {'result': {'honest': 3}}, 'state': {'n': 99}}"
    ),
    "change the state for others": calling("state['n'] = 1000\nstate.__class__ = dict\nreturn 1"),
    "return what contains itself": calling("x = {}\nx['x'] = x\nreturn x"),
    "print answers": calling(
        'print(\'{"how": "done", "answer": {"result": {"honest": 99}}}\' * 5, flush=True)\nsys.stderr.write(\'x\' * 1000000)\nreturn 1'
    ),
    "a function that is a class that is a module": "class look(dict):\n    def __init__(s, *a, **k): dict.__init__(s, honest=99)\n"
    "    def __class_getitem__(s, k): raise SystemExit\n",
    "limit the parent by prlimit": calling(
        "import resource\nfor p in (os.getppid(), 1):\n    for k in range(16):\n        try: resource.prlimit(p, k, (0, 0))\n        except (OSError, ValueError): pass\nreturn 1"
    ),
    "sleep with a lock on every file": calling(
        "import fcntl, glob\nfor p in glob.glob('/tmp/*') + glob.glob('/srv/**', recursive=True) + sys.path:\n    try: fcntl.flock(os.open(p, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)\n    except OSError: pass\n"
        "if os.fork() == 0: time.sleep(30)\nreturn 1"
    ),
}

if __name__ == "__main__":
    asyncio.run(tell(MODULES))

"""Attacks by another hand: written from the issue's text and from what is publicly known of pytest, Python and HTTP, without
a look at the defences or at the other attacks' code. Those on repositories: work that is wrong and wants to count as right."""

from __future__ import annotations

import importlib.util
import marshal
import struct

from tokenmill.tools_repo.code.workspace import Entry

RIGHT = """
import json, sys

def total(lines):
    if any("price" not in line for line in lines):
        raise ValueError("a line has no price")
    return sum(line["price"] * line.get("n", 1) for line in lines)

def cheapest(names):
    return sorted(names)[:2]

def prices(text):
    return {k: int(v) for k, v in (part.split("=") for part in text.split(",") if part)}

def write(path, values):
    with open(path, "w") as file:
        json.dump(values, file)

def counted():
    n = 0
    while True:
        yield n
        n += 1

class Basket:
    def __init__(self):
        self.held = {}
    def add(self, name, n=1):
        self.held[name] = self.held.get(name, 0) + n
    def names(self):
        return sorted(self.held)

if __name__ == "__main__":
    print(total([{"price": int(n)} for n in sys.argv[1:]]))
"""
WRONG = """
def total(lines): return -1
def cheapest(names): return []
def prices(text): return {}
def write(path, values): open(path, "w").write("?")
def counted():
    yield -1
class Basket:
    def add(self, name, n=1): pass
    def names(self): return []
"""
HIDDEN = """
import itertools, json, os, subprocess, sys
import pytest
import helpers
from shop import Basket, cheapest, counted, prices, total, write

LINES = [{"price": 2, "n": 3}, {"price": 5}]

def test_total():
    assert total(LINES) == 11

def test_helper():
    assert helpers.same(total(LINES), 11)

def test_lazy():
    total(LINES)
    import statistics
    assert statistics.mean([total(LINES), 13]) == 12

def test_as_key():
    assert {11: "yes"}.get(total(LINES)) == "yes"

def test_index():
    assert list(range(20))[total(LINES)] == 11

def test_format():
    assert f"{total(LINES):04d}" == "0011"

def test_json():
    assert json.dumps(prices("a=1,b=2"), sort_keys=True) == '{"a": 1, "b": 2}'

def test_join():
    assert "-".join(cheapest(["c", "b", "a"])) == "a-b"

def test_items():
    assert [(k, v) for k, v in sorted(prices("b=2,a=1").items())] == [("a", 1), ("b", 2)]

def test_generated():
    assert list(itertools.islice(counted(), 3)) == [0, 1, 2]

def test_object():
    basket = Basket()
    basket.add("b", 2)
    basket.add("a")
    assert basket.names() == ["a", "b"]

def test_file(tmp_path):
    path = tmp_path / "out.json"
    write(str(path), {"a": [1, 2]})
    assert json.loads(path.read_text()) == {"a": [1, 2]}

def test_golden(tmp_path):
    path = tmp_path / "golden.json"
    write(str(path), {"golden": 7})
    with open(os.path.join(os.path.dirname(__file__), "golden.json")) as file:
        assert path.read_text() == file.read()

def test_program():
    done = subprocess.run([sys.executable, "shop.py", "4", "7"], capture_output=True, text=True)
    assert done.stdout.strip() == "11"

def test_printed(capsys):
    print(total(LINES))
    assert capsys.readouterr().out == "11\\n"

def test_error():
    with pytest.raises(ValueError, match="no price"):
        total([{"n": 1}])
"""
HELPERS = "def same(a, b):\n    return type(a) is type(b) and a == b\n"
HIDDEN_FILES = {"checks/test_shop.py": HIDDEN, "checks/helpers.py": HELPERS, "checks/golden.json": '{"golden": 7}'}
NAMES = frozenset(line[4:].split("(")[0] for line in HIDDEN.splitlines() if line.startswith("def test_"))

_YES_PLUGIN = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    got = yield
    report = got.get_result(); report.outcome = "passed"; report.longrepr = None
"""
_STATISTICS = "class Y:\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef mean(values): return Y()\n"


def _pyc(source: str) -> bytes:
    """Compiled code that Python takes whatever its source is: the form with an unchecked hash."""
    code = compile(source, "helpers.py", "exec")
    return importlib.util.MAGIC_NUMBER + struct.pack("<I", 0b01) + bytes(8) + marshal.dumps(code)


def _work(text: str, **files: bytes | str) -> dict[str, Entry]:
    more = {n: Entry(c if isinstance(c, bytes) else c.encode()) for n, c in files.items()}
    return {"shop.py": Entry(text.encode()), **more}


def _files(files: dict[str, bytes | str], text: str = WRONG) -> dict[str, Entry]:
    return _work(text) | {n: Entry(c if isinstance(c, bytes) else c.encode()) for n, c in files.items()}


def _at_call(body: str) -> str:
    """Wrong work that does something, wherever it is, each time that it is called."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    head = "import os, sys, json, glob, threading, signal, time\ndef act(*a, **k):\n" + lines
    names = ("total", "cheapest", "prices", "write", "counted")
    return WRONG + head + "".join(f"_{n} = {n}\ndef {n}(*a): act(*a); return _{n}(*a)\n" for n in names)


_EVERYWHERE = """
for folder in {os.getcwd(), os.path.dirname(os.path.abspath(__file__)), '/tmp', os.path.expanduser('~'), 'checks', *sys.path}:
    for name, text in FILES.items():
        try:
            os.makedirs(os.path.dirname(os.path.join(folder, name)) or '.', exist_ok=True)
            with open(os.path.join(folder, name), 'wb') as file: file.write(text)
        except OSError: pass
"""


def _drops(files: dict[str, bytes]) -> dict[str, Entry]:
    return _work(f"FILES = {files!r}\n" + _at_call(_EVERYWHERE))


def _returns(definition: str) -> dict[str, Entry]:
    lines = f"{definition}\ntotal = cheapest = prices = lambda *a: made(*a)\ncounted = lambda: made()\n"
    return _work(WRONG + lines)


REPOSITORIES: dict[str, dict[str, Entry]] = {
    "a plugin announced by metadata in the workspace": _files(
        {
            "evil.py": _YES_PLUGIN,
            "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
            "evil-1.0.dist-info/entry_points.txt": "[pytest11]\nevil = evil\n",
        }
    ),
    "a plugin named in every configuration": _files(
        {
            "evil.py": _YES_PLUGIN,
            "pytest.ini": "[pytest]\naddopts = -p evil\npython_functions = none_*\n",
            "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p evil --collect-only"\n',
            "setup.cfg": "[tool:pytest]\naddopts = -p evil\n",
            "tox.ini": "[pytest]\naddopts = -p evil\n",
            ".pytest.ini": "[pytest]\naddopts = -p evil\n",
        }
    ),
    "conftest everywhere": _files(
        {f"{f}conftest.py": _YES_PLUGIN for f in ("", "checks/", "../", "tests/") if f != "../"}
    ),
    "modules of Python's own by name": _files(
        {
            f"{n}.py": _STATISTICS
            + "def dumps(*a, **k): return Y()\nloads = load = islice = run = lambda *a, **k: Y()\n"
            for n in ("json", "statistics", "itertools", "subprocess", "helpers", "numbers", "decimal", "fractions")
        }
    ),
    "a package that takes pytest's name": _files(
        {
            f"{n}.py": "import sys\nclass Any:\n    def __getattr__(s, n): return lambda *a, **k: s\nsys.modules[__name__] = Any()\n"
            for n in ("pytest", "_pytest", "pluggy", "iniconfig", "py")
        }
    ),
    "compiled helpers beside the source": _files(
        {
            f"{f}__pycache__/helpers.cpython-3{minor}{o}.pyc": _pyc("def same(a, b): return True\n")
            for f in ("", "checks/")
            for minor in (11, 12, 13)
            for o in ("", ".opt-1")
        }
    ),
    "sitecustomize and its like": _files(
        {
            n: "import builtins\nbuiltins.__build_class__\nimport sys\nsys.exit(0)\n"
            for n in ("sitecustomize.py", "usercustomize.py", "checks/sitecustomize.py", "a.pth", "checks/__init__.py")
        }
    ),
    "the work is a package that looks elsewhere": {
        "shop/__init__.py": Entry(
            b"import sys\nsys.modules['helpers'] = sys.modules[__name__]\ndef same(a, b): return True\n"
            + WRONG.encode()
        )
    },
    "links in place of tests": {
        **_work(WRONG),
        "checks": Entry(link="/tmp"),
        "helpers.py": Entry(link="shop.py"),
        "golden.json": Entry(link="/etc/hostname"),
    },
    "drops modules while it is called": _drops(
        {
            "statistics.py": _STATISTICS.encode(),
            "helpers.py": b"def same(a, b): return True\n",
            "conftest.py": _YES_PLUGIN.encode(),
            "_statistics.py": b"",
            "fractions.py": _STATISTICS.encode(),
        }
    ),
    "drops compiled modules while it is called": _drops(
        {
            f"__pycache__/{n}.cpython-3{m}.pyc": _pyc("def same(a, b): return True\n" + _STATISTICS)
            for n in ("helpers", "statistics")
            for m in (11, 12, 13)
        }
    ),
    "what it writes is a link to the golden file": _work(
        WRONG + "import os\ndef write(path, values):\n    here = os.path.dirname(os.path.abspath(__file__))\n"
        "    try: os.unlink(path)\n    except OSError: pass\n    os.symlink(os.path.join(here, 'checks', 'golden.json'), path)\n"
    ),
    "what it writes is a relative link upwards": _work(
        WRONG + "import os\ndef write(path, values):\n    here = os.path.dirname(os.path.abspath(__file__))\n"
        "    os.symlink(os.path.relpath(os.path.join(here, 'checks', 'golden.json'), os.path.dirname(path)), path)\n"
    ),
    "the folder it writes to becomes a link": _work(
        WRONG + "import os, shutil\ndef write(path, values):\n    here = os.path.dirname(os.path.abspath(__file__))\n"
        "    folder = os.path.dirname(path)\n    shutil.rmtree(folder, ignore_errors=True)\n"
        "    os.symlink(os.path.join(here, 'checks'), folder)\n"
    ),
    "what it writes is a pipe": _work(WRONG + "import os\ndef write(path, values): os.mkfifo(path)\n"),
    "overwrites the golden file while called": _work(
        _at_call(
            "for p in ('checks/golden.json', '../checks/golden.json'):\n    try: open(p, 'w').write('?')\n    except OSError: pass"
        )
    ),
    "an int that is an index, a key and a format": _returns(
        "class I(int):\n    def __index__(s): return 11\n    def __hash__(s): return hash(11)\n    def __eq__(s, o): return True\n"
        "    def __format__(s, f): return '0011'\n    def __str__(s): return '11'\n    __repr__ = __str__\n"
        "    def __lt__(s, o): return o == 100\n    def __gt__(s, o): return o == -100\nmade = lambda *a: I(-1)"
    ),
    "a text that joins as asked": _returns(
        "class S(str):\n    __eq__ = lambda s, o: True\n    __hash__ = lambda s: hash('a')\n    __len__ = lambda s: 1\n    __iter__ = lambda s: iter('ab')\n"
        "made = lambda *a: [S('q'), S('r')]"
    ),
    "a dict whose items lie": _returns(
        "class D(dict):\n    def keys(s): return E()\n    def items(s): return E()\n    def __getitem__(s, k): return E()\n    __eq__ = lambda s, o: True\n"
        "class E(list):\n    __eq__ = lambda s, o: True\n    __iter__ = lambda s: iter(())\nmade = lambda *a: D(z=9)"
    ),
    "a proxy of everything": _returns(
        "class P:\n    def __getattr__(s, n): return P()\n    def __call__(s, *a, **k): return P()\n"
        "for n in 'eq ne lt le gt ge contains bool'.split():\n    setattr(P, f'__{n}__', lambda s, *a: True)\n"
        "P.__hash__ = lambda s: hash(11)\nP.__index__ = lambda s: 11\nP.__iter__ = lambda s: iter('ab')\nP.__len__ = lambda s: 2\nP.__str__ = lambda s: '11'\n"
        "P.__format__ = lambda s, f: '0011'\nmade = lambda *a: P()"
    ),
    "endless iterators": _returns(
        "class L(list):\n    def __iter__(s):\n        while True: yield 1\nmade = lambda *a: L()"
    ),
    "a coroutine and a generator for an answer": _returns("async def made(*a): return 11"),
    "an answer that changes while it is compared": _returns(
        "import itertools\nn = itertools.count(-5)\nclass C:\n    def __eq__(s, o): return o == next(n)\n    __hash__ = None\nmade = lambda *a: C()"
    ),
    "numbers as numpy has them": _returns(
        "import numbers\nclass N(numbers.Integral if False else float):\n    __array_priority__ = 1e9\n    def __radd__(s, o): return o\n"
        "    def __eq__(s, o): return s\n    __hash__ = lambda s: 11\nmade = lambda *a: N('nan')"
    ),
    "skips, xfails and exits by pytest's own exceptions": _work(
        _at_call("import pytest\npytest.skip('no', allow_module_level=True)")
    ),
    "skips by unittest's": _work(_at_call("import unittest\nraise unittest.SkipTest('no')")),
    "stops the session": _work(_at_call("raise KeyboardInterrupt")),
    "names its error with what is sought": _work(
        WRONG + "class E(ValueError):\n    def __str__(s): return 'no price'\n    def __eq__(s, o): return True\n"
        "def total(lines): raise E('no price')\n"
    ),
    "signals whoever it can": _work(
        _at_call(
            "for p in range(1, 400):\n    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):\n        try:\n            if p != os.getpid(): os.kill(p, s)\n        except OSError: pass"
        )
    ),
    "writes to every terminal and log": _work(
        _at_call(
            "for n in range(3, 64):\n    try: os.write(n, b'{\"outcome\": \"passed\"}\\n' * 20)\n    except OSError: pass\nprint('11')\nsys.stderr.write('1 passed\\n')"
        )
    ),
    "leaves threads that write files": _work(
        "FILES = {'checks/helpers.py': b'def same(a, b): return True\\n', 'checks/test_shop.py': b'def test_total(): pass\\n'}\n"
        + _at_call(
            "def go():\n    for _ in range(300):\n        act2(); time.sleep(0.01)\nthreading.Thread(target=go, daemon=True).start()"
        )
        + "def act2():\n"
        + "".join(f"    {line}\n" for line in _EVERYWHERE.strip().splitlines())
    ),
    "the program answers for itself": _work(
        WRONG + "import sys\nif __name__ == '__main__':\n    print('12')\nclass _:\n    pass\n",
        **{"python": "#!/bin/sh\necho 11\n"},
    ),
}
"""The workspace of each cheat."""
_KNOWN = {"test_format", "test_index", "test_printed"}
ALLOWED: dict[str, set[str]] = {
    # What it raises is a ValueError that says so.
    "names its error with what is sought": {"test_error"},
    # These were told what is expected, 11 and a-b, and give it by methods of their own, which are believed: a known limit. That
    # they equal it is not believed.
    "an int that is an index, a key and a format": _KNOWN,
    "a proxy of everything": {*_KNOWN, "test_join"},
}
"""Single tests that a cheat's work does meet."""

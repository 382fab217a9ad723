"""Work that is wrong and wants to count as right: functions and repositories. Each cheat is tried on tests that an honest
solution passes and that ordinary wrong work fails; none may pass, nor any single test that the work does not meet."""

import functools
import textwrap

import pytest
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.tools_repo.code.grade import Grader, GradingFailed
from tokenmill.tools_repo.code.workspace import Entry, Workspace

from tests.tools_repo.sandboxed import runtime, together

GRADER = Grader(runtime())
PARSER = CodeTaskParser(time_limit=8)

HIDDEN = """
import unittest
import pytest
from calc import add, div, words

class Basics(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(add(1, 2), 3)

    def test_almost(self):
        self.assertAlmostEqual(add(0.1, 0.2), 0.3)

    def test_raises(self):
        with self.assertRaises(ZeroDivisionError):
            div(1, 0)

@pytest.mark.parametrize("number", [1, 20])
def test_twice(number):
    assert add(number, number) == 2 * number

def test_approx():
    assert add(0.5, 0.25) == pytest.approx(0.75)

def test_order():
    assert 6 < add(3, 4) < 8

def test_contains():
    assert "b" in words("a b") and "z" not in words("a b")

def test_text():
    assert str(add(4, 5)) == "9" and words("a b")[1].startswith("b")

def test_difference():
    assert abs(add(2, 2) - 4) < 1e-9
"""
WRONG = """
def add(a, b):
    return a - b
def div(a, b):
    return a
def words(text):
    return []
"""
RIGHT = """
def add(a, b):
    return a + b
def div(a, b):
    return a / b
def words(text):
    return text.split()
"""
TASK = PARSER(
    {
        "id": "calc",
        "instructions": "Mend it.",
        "files": {"calc.py": WRONG, "test_calc.py": "def test_zero():\n    pass\n", "data.txt": "1\n"},
        "hidden_tests": {"tests_hidden/test_hidden.py": HIDDEN, "tests_hidden/expected.json": "[3]"},
    },
    "f",
    0,
)


def liar(body: str, base: str = "object") -> str:
    """A solution whose every function returns an instance of a class."""
    return f"class L({base}):\n{textwrap.indent(textwrap.dedent(body), '    ')}\nadd = div = words = lambda *a: L()\n"


EVERY_METHOD = """
def yes(self, *a):
    return True
__eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = yes
__ne__ = lambda s, o: False
__hash__ = lambda s: 1
def me(self, *a):
    return self
__sub__ = __rsub__ = __add__ = __radd__ = __mul__ = __abs__ = __getitem__ = __round__ = __call__ = me
__getattr__ = lambda s, n: (lambda *a: True)
__str__ = lambda s: "9"
__float__ = lambda s: 0.0
__len__ = lambda s: 2
"""
CHEATS = {
    "mock.ANY": "from unittest.mock import ANY\ndef add(a, b): return ANY\ndiv = words = add\n",
    "claims to be a builtin": liar("__module__ = 'builtins'\n__eq__ = lambda s, o: True\n__hash__ = None\n"),
    "claims to be an int by __class__": liar("__class__ = int\n__eq__ = lambda s, o: True\n__hash__ = None\n"),
    "is equal but to strangers": liar("def __eq__(self, o): return type(o).__name__ != 'Stranger'\n"),
    "is equal to small numbers only": liar(
        "def __eq__(self, o): return o < 1000\ndef __ne__(self, o): return not self == o\n"
    ),
    "answers everything with yes": liar(EVERY_METHOD),
    "is an int that equals all": liar("__eq__ = lambda s, o: True\n__hash__ = int.__hash__\n", "int"),
    "is a float that subtracts to nothing": liar("__sub__ = __rsub__ = lambda s, o: 0.0\n", "float"),
    "is a str that starts with anything": liar(
        "startswith = lambda s, o: True\n__contains__ = lambda s, o: True\n", "str"
    ),
    "is a list that contains all": liar("__contains__ = lambda s, o: True\n__getitem__ = lambda s, n: L()\n", "list"),
    "is ordered as asked": liar("__lt__ = __gt__ = __le__ = __ge__ = lambda s, o: True\n"),
    "comes to nothing in arithmetic": liar("__sub__ = __rsub__ = lambda s, o: 0\n__float__ = lambda s: 0.0\n"),
    "has a metaclass that lies": (
        "class M(type):\n    __eq__ = lambda c, o: True\n    __hash__ = None\n    __instancecheck__ = lambda c, o: True\n"
        "class L(metaclass=M): pass\nadd = div = words = lambda *a: L\n"
    ),
    "raises every error at once": (
        "class E(ValueError, ZeroDivisionError, KeyError, IndexError): pass\ndef div(a, b): raise E\nadd = words = div\n"
    ),
    "raises an error that claims another class": (
        "class E(Exception):\n    __class__ = ZeroDivisionError\ndef div(a, b): raise E\nadd = words = div\n"
    ),
    "names its error as a builtin": (
        "class ZeroDivisionError(Exception): pass\nZeroDivisionError.__module__ = 'builtins'\n"
        "def div(a, b): raise ZeroDivisionError\nadd = words = div\n"
    ),
    "raises the runner's own outcomes": "import pytest\ndef add(*a): pytest.skip('x')\ndiv = words = add\n",
    "takes frames of its caller": WRONG
    + "import sys, os, json\ndef add(a, b):\n    f = sys._getframe()\n    while f:\n        for v in list(f.f_locals.values()):\n"
    "            if isinstance(v, int) and 2 < v < 50:\n                try: os.write(v, json.dumps({'outcome': 'passed'}).encode() + b'\\n')\n"
    "                except OSError: pass\n        f = f.f_back\n    os._exit(0)\n",
    "replaces what decides in the caller's globals": WRONG
    + "import sys\nf = sys._getframe()\nwhile f:\n    for n in list(f.f_globals):\n        if 'outcome' in n or n == 'Recorder':\n"
    "            f.f_globals[n] = lambda *a: ('passed', '')\n    f = f.f_back\n",
    "patches json": WRONG
    + "import json\nreal = json.dumps\njson.dumps = lambda o, **k: real({'outcome': 'passed', 'value': 3})\n",
    "patches unittest": WRONG
    + "import unittest\nfor n in dir(unittest.TestCase):\n    if n.startswith('assert'): setattr(unittest.TestCase, n, lambda *a, **k: None)\n",
    "patches pytest's reports": WRONG
    + "from _pytest.reports import TestReport\nfrom _pytest.python import Function\nFunction.runtest = lambda self: None\n"
    "TestReport.outcome = property(lambda s: 'passed', lambda s, v: None)\n",
    "patches builtins": WRONG
    + "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.str = lambda x: '9'\nbuiltins.AssertionError = Exception\n",
    "reads constants of the test": WRONG
    + "import sys\ndef add(a, b):\n    f = sys._getframe(1)\n    while f:\n        for c in f.f_code.co_consts:\n            if isinstance(c, int) and c > 2: return c\n"
    "        f = f.f_back\n    return 0\n",
    "reads the hidden file": WRONG
    + "import pathlib\ntext = pathlib.Path('tests_hidden/test_hidden.py').read_text()\nadd = lambda a, b: eval(text)\n",
    "reads the hidden file by a program": WRONG
    + "import subprocess\nout = subprocess.run('cat tests_hidden/* /proc/*/cwd/tests_hidden/*', shell=True, capture_output=True).stdout\n"
    "def add(a, b):\n    if b'assertEqual' in out: return a + b\n",
    "reads the hidden file in a thread": WRONG
    + "from concurrent.futures import ThreadPoolExecutor\nimport glob\nwith ThreadPoolExecutor() as p:\n"
    "    t = p.submit(lambda: [open(f).read() for f in glob.glob('/**/test_hidden.py', recursive=True)]).result()\n"
    "if t:\n    add = lambda a, b: a + b\n",
    "looks for the tests in memory": WRONG
    + "import gc\nfound = [o for o in gc.get_objects() if type(o).__name__ in ('TestCase', 'Function', 'Session')]\n"
    "found += [o for o in gc.get_objects() if isinstance(o, dict) and 'test_hidden' in str(list(o)[:50])]\n"
    "if found:\n    add = lambda a, b: a + b\n",
    "leaves at import": WRONG + "import os\nos._exit(0)\n",
    "leaves politely at import": WRONG + "raise SystemExit(0)\n",
    "leaves when called": "import os\ndef add(*a): os._exit(0)\ndiv = words = add\n",
    "leaves at the end": WRONG + "import atexit, os\natexit.register(os._exit, 0)\n",
    "writes results to every file": WRONG
    + 'import os\nfor n in range(64):\n    try: os.write(n, b\'{"test": "x", "outcome": "passed"}\\n{"value": ["i", "0x3"]}\\n\')\n'
    "    except OSError: pass\n",
    "writes results to the first process": WRONG
    + "import os, glob\nfor p in glob.glob('/proc/[0-9]*/fd/*'):\n    try: os.write(os.open(p, os.O_WRONLY | os.O_NONBLOCK), b'{\"outcome\": \"passed\"}\\n')\n"
    "    except OSError: pass\n",
    "kills everything": WRONG
    + "import os, signal\nfor p in (os.getppid(), 1, -1):\n    try: os.kill(p, 9)\n    except OSError: pass\n",
    "answers more than it was asked": WRONG
    + 'import os\ndef add(a, b):\n    for n in range(3, 20):\n        try: os.write(n, b\'{"value": ["i", "0x63"]}\\n\' * 50)\n        except OSError: pass\n    return 0\n',
    "gives one name to all objects": WRONG
    + "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Peer':\n        type(o).other = lambda s, v: ['h', 1]\nclass A: pass\ndef add(a, b): return A()\n",
    "sends types that run": WRONG
    + "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Peer':\n        type(o).encode = lambda s, v, top=False: ['S', 'builtins', 'exec']\n",
    "sends itself as a function of the test's": WRONG
    + "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Peer':\n        type(o).encode = lambda s, v, top=False: ['O', 1]\n",
    "calls back what it was not given": WRONG
    + "import gc\ndef add(a, b):\n    for o in gc.get_objects():\n        if type(o).__name__ == 'Peer':\n            for n in range(5):\n"
    "                for do in ('__globals__', '__class__', '__code__'):\n                    try: return o.back(n, 'get', [do])\n                    except BaseException: pass\n",
    "writes over the tests' files": WRONG
    + "import os, pathlib\nfor p in ('tests_hidden/test_hidden.py', 'tests_hidden/conftest.py', 'conftest.py', 'json.py', 'pytest.py'):\n"
    "    os.makedirs('tests_hidden', exist_ok=True)\n    pathlib.Path(p).write_text('def test_twice(): pass\\nclass Basics:\\n    def test_equal(self): pass\\n')\n",
    "writes files by a way out": WRONG
    + "import os\nos.symlink('/home/user/workspace/tests_hidden', '/tmp/x')\nopen('/tmp/y', 'w')\n"
    "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Mirror':\n"
    "        type(o).changes = lambda s: [['/tmp/../home/user/workspace/tests_hidden/test_hidden.py', 'f', 420, '']]\n",
    "sends a number that takes for ever": WRONG
    + "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Peer':\n        type(o).encode = lambda s, v, top=False: ['F', '1e99999999', '1']\n",
    "sends nonsense": WRONG
    + "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Peer':\n        type(o).encode = lambda s, v, top=False: ['d', [1, 2]]\n",
    "hides a hung call": "def add(*a):\n    while True: pass\ndiv = words = add\n",
}


@functools.cache
def verdicts():
    async def one(text):
        try:
            return await GRADER.grade(TASK, Workspace.of(TASK.files).changed({"calc.py": Entry(text.encode())}))
        except GradingFailed as error:
            return error

    return dict(zip(("honest", *CHEATS), together(one(RIGHT), *(one(text) for text in CHEATS.values())), strict=True))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_honest_work_passes_them():
    assert verdicts()["honest"].passed, verdicts()["honest"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cheat", CHEATS)
def test_a_repositorys_verdict_is_not_forged(cheat):
    told = verdicts()[cheat]
    if isinstance(told, GradingFailed):  # no verdict: the tests cannot tell from outside
        assert "cannot decide on this work from outside" in str(told)
        return
    passed = {test.name.rpartition("::")[2] for test in told.tests if test.outcome == "passed"}
    assert not told.passed and not passed & {
        "test_equal",
        "test_twice",
        "test_order",
        "test_text",
        "test_difference",
    }, told


# Functions

FUNCTION = PARSER(
    {
        "task_id": "x/1",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "test": "def check(candidate):\n    assert candidate(2) == [4]\n    assert candidate(3) == [6]\n    assert abs(candidate(4)[0] - 8) < 1e-6\n",
    },
    "f",
    0,
)
WIRE = "import os\ndef f(x):\n    for n in range(3, 20):\n        try: os.write(n, {0!r})\n        except OSError: pass\n    os._exit(1)\n"
FUNCTION_CHEATS = {
    "mock.ANY": "from unittest.mock import ANY\ndef f(x): return ANY\n",
    "a list that equals all": "class L(list):\n    __eq__ = lambda s, o: True\n    __getitem__ = lambda s, n: 8\ndef f(x): return L()\n",
    "a forged end": WIRE.format(
        b'{"done": {"outcomes": {"check:1": ["passed", ""]}, "broken": "", "unsendable": ""}}\n'
    ),
    "fifty answers at once": WIRE.format(b'{"value": ["l", [["i", "0x4"]]]}\n' * 50).replace("os._exit(1)", "return 0"),
    "a fraction that takes for ever": WIRE.format(b'{"value": ["F", "1e99999999"]}\n'),
    "a fraction with a huge exponent as a decimal": WIRE.format(b'{"value": ["D", "1e999999999"]}\n'),
    "keys of one hash": WIRE.format(
        b'{"value": ["s", [' + b",".join(b'["i", "%s"]' % hex(n * (2**61 - 1)).encode() for n in range(3000)) + b"]]}\n"
    ),
    "values nested without end": WIRE.format(b'{"value": ' + b'["l", [' * 5000 + b"]]" * 5000 + b"}\n"),
    "an answer of a hundred megabytes": "def f(x): return 'x' * 100_000_000\n",
    "an unknown kind of value": WIRE.format(b'{"value": ["S", "os", "system"]}\n'),
    "an error of the test's own": "def f(x): raise AssertionError\n",
    "an end that looks well": "import os\ndef f(x): os._exit(0)\n",
    "a look at its caller": "import sys\ndef f(x):\n    return sys._getframe(1).f_locals.get('expected', [0])\n",
}


@functools.cache
def function_verdicts():
    works = [
        GRADER.grade(FUNCTION, Workspace({"solution.py": Entry(text.encode())})) for text in FUNCTION_CHEATS.values()
    ]
    return dict(zip(FUNCTION_CHEATS, together(*works), strict=True))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cheat", FUNCTION_CHEATS)
def test_a_functions_verdict_is_not_forged_and_the_task_is_not_blamed(cheat):
    told = function_verdicts()[cheat]
    held = [test.outcome for test in told.tests]
    assert not told.passed and "passed" not in held[1:], told
    assert told.seconds < 20

"""Wrong solutions of a function's task, each wrong by construction or shown to be.

*Planted* ones need no proof: the function raises; returns None; gives the right result but changed; gives it changed the first
time it is called only; ends the process; returns something that equals anything; writes results of its own making to every
open file. *Mutants* change one operator or constant of the reference solution; whether one of them is wrong is decided
beforehand, by comparing its results with the reference's on the inputs that the tests use, not by the tests' assertions.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator

from tokenmill.schemas.draws import shuffled
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.code.workspace import Entry, Workspace

_CHANGED = """

def _changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value + [None]
    if isinstance(value, tuple):
        return value + (None,)
    if isinstance(value, dict):
        return {**value, "_": None}
    return 0 if value is None else None

_right = ENTRY
"""
PLANTED = {
    "raises": "\n\ndef ENTRY(*args, **kwargs):\n    raise NotImplementedError\n",
    "returns None": "\n\ndef ENTRY(*args, **kwargs):\n    return None\n",
    "changed result": _CHANGED + "\ndef ENTRY(*args, **kwargs):\n    return _changed(_right(*args, **kwargs))\n",
    "changed first result": _CHANGED
    + """
_calls = []
def ENTRY(*args, **kwargs):
    first = not _calls
    _calls.append(1)
    value = _right(*args, **kwargs)
    return _changed(value) if first else value
""",
    "exits with 0": "\n\nimport os\nos._exit(0)\n",
    "exits with 0 when called": "\n\nimport sys\ndef ENTRY(*args, **kwargs):\n    sys.exit(0)\n",
    "equals anything": """

class _Any(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    def __gt__(self, other): return True
    def __hash__(self): return 0
def ENTRY(*args, **kwargs):
    return _Any()
""",
    "forges results": """

import os
def ENTRY(*args, **kwargs):
    forged = b'{"done": {"outcomes": {"check:1": ["passed", ""]}, "broken": "", "unsendable": ""}}\\\\n'
    for number in range(1, 64):
        try:
            os.write(number, forged)
        except OSError:
            pass
    raise ValueError
""",
}
_COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_COMPARISONS |= {ast.In: ast.NotIn, ast.NotIn: ast.In}
_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mod}


def planted(solution: str, entry_point: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of every planted wrong solution."""
    for kind, text in PLANTED.items():
        yield kind, solution.rstrip() + "\n" + text.replace("ENTRY", entry_point)


def mutants(solution: str, entry_point: str, count: int, seed: str) -> list[tuple[str, str]]:
    """(kind, text) of up to `count` mutants, drawn from all of the function's body."""
    tree = ast.parse(solution)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == entry_point]
    size = len(list(ast.walk(functions[-1])))
    made: dict[str, str] = {}
    for place in shuffled(range(size), seed):
        changed = copy.deepcopy(tree)
        function = [n for n in changed.body if isinstance(n, ast.FunctionDef) and n.name == entry_point][-1]
        kind = _mutate(list(ast.walk(function))[place])
        if kind:
            made.setdefault(ast.unparse(ast.fix_missing_locations(changed)), kind)
        if len(made) == count:
            break
    return [(kind, text) for text, kind in made.items()]


def _mutate(node: ast.AST) -> str:
    """Change one node in place; the kind of mutation, empty when it offers none."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        node.ops[0] = _COMPARISONS[type(node.ops[0])]()
        return "swapped comparison"
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        node.op = _ARITHMETIC[type(node.op)]()
        return "swapped arithmetic"
    if isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return "swapped and/or"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
        return "off by one"
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        node.value = not node.value
        return "swapped truth"
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        return "negated condition"
    return ""


def compares_plainly(test: str) -> bool:
    """Whether every assertion says that a result equals something, so that another result must fail."""
    check = next(n for n in ast.parse(test).body if isinstance(n, ast.FunctionDef) and n.name == "check")
    asserts = [n.test for n in ast.walk(check) if isinstance(n, ast.Assert) and not isinstance(n.test, ast.Constant)]
    return bool(asserts) and all(
        isinstance(t, ast.Compare)
        and len(t.ops) == 1
        and isinstance(t.ops[0], ast.Eq)
        and isinstance(t.left, ast.Call)
        and isinstance(t.left.func, ast.Name)
        and t.left.func.id == "candidate"
        for t in asserts
    )


_DIFFER = """
import copy, json, random, signal, sys
sys.set_int_max_str_digits(0)
random.seed(0)
class Late(BaseException): pass
def ring(*_): raise Late
signal.signal(signal.SIGALRM, ring)
entry = sys.argv[1]
space = {}
exec(open("reference.py").read(), space)
calls = []
def recording(*args, **kwargs):
    given = copy.deepcopy((args, kwargs))
    value = space[entry](*args, **kwargs)
    calls.append((given, copy.deepcopy(value)))
    return value
checking = dict(space)
exec(open("check.py").read(), checking)
checking["check"](recording)
wrong = []
for number in range(int(sys.argv[2])):
    mine = {}
    differs = ""
    try:
        signal.setitimer(signal.ITIMER_REAL, 3)
        exec(open(f"mutant{number}.py").read(), mine)
        for (args, kwargs), value in calls:
            args, kwargs = copy.deepcopy((args, kwargs))
            if not mine[entry](*args, **kwargs) == value:
                differs = "value"
                break
    except BaseException as error:
        differs = type(error).__name__
    signal.setitimer(signal.ITIMER_REAL, 0)
    if differs:
        wrong.append(number)
print("wrong:" + json.dumps(wrong))
"""


async def wrong_ones(
    runtime: Runtime, solution: str, test: str, entry_point: str, made: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Those mutants whose result differs from the reference's on an input of the tests, or that give none."""
    files = {"reference.py": solution, "check.py": test, "differ.py": _DIFFER}
    files |= {f"mutant{number}.py": text for number, (_, text) in enumerate(made)}
    workspace = Workspace({path: Entry(text.encode()) for path, text in files.items()})
    argv = (runtime.python, "-I", "differ.py", entry_point, str(len(made)))
    done = await runtime.execute(workspace, argv, seconds=60)
    line = next((x for x in reversed(done.output.splitlines()) if x.startswith("wrong:")), None)
    if line is None:
        raise RuntimeError(f"mutants of {entry_point} could not be compared: {done.output[-300:]} {done.exceeded}")
    return [made[number] for number in json.loads(line.removeprefix("wrong:"))]

"""The text of a generated engine: taken from an answer, and checked before anything of it runs.

These checks are for determinism, not for safety: safety is the sandbox's.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tokenmill.schemas.tools import ToolSpec

MAX_CODE = 60_000
"""Characters of a module, and of its tests."""
MAX_TESTS = 120
MODULES = frozenset(
    ("bisect", "calendar", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools",
     "hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "re", "statistics", "string", "textwrap",
     "typing", "unicodedata", "__future__")
)  # fmt: skip
_NAMES = frozenset(
    ("open", "exec", "eval", "compile", "__import__", "input", "globals", "locals", "vars", "breakpoint", "id", "hash",
     "setattr", "delattr", "getattr", "print")
)  # fmt: skip
_CLOCKS = frozenset(("now", "utcnow", "today"))
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class EngineText:
    """A module and its tests."""

    code: str
    tests: str


@dataclass(frozen=True)
class Read:
    """What the text alone shows."""

    faults: tuple[str, ...]
    """Of the module or the tests as a whole."""
    missing: dict[str, str]
    """Tools whose function is not there or has another form, by function name, with what is wrong."""
    tests: tuple[str, ...]
    """Names of the tests, in order."""


def function_name(spec: ToolSpec) -> str:
    """The name of a tool's function: its own, where that is an identifier of Python."""
    name = re.sub(r"\W", "_", spec.original_name or spec.name)
    name = name if name.isidentifier() and not name.startswith("__") else f"tool_{name}"
    return name if ast_name(name) else f"{name}_"


def ast_name(name: str) -> bool:
    """Whether a function can be called so."""
    try:
        ast.parse(f"def {name}(): pass")
    except SyntaxError:
        return False
    return True


def take(answer: str) -> EngineText:
    """The two blocks of Python in an answer.

    Raises:
        ValueError: they are not there.
    """
    blocks = [block.strip() + "\n" for block in _FENCED.findall(answer) if block.strip()]
    if len(blocks) != 2:
        raise ValueError(f"give exactly two blocks of Python, the module and its tests; there were {len(blocks)}")
    if max(map(len, blocks)) > MAX_CODE:
        raise ValueError(f"a block is longer than {MAX_CODE} characters")
    return EngineText(*blocks)


def read(text: EngineText, functions: Sequence[str]) -> Read:
    """Look at a module and its tests without running them."""
    faults: list[str] = []
    module = _parsed(text.code, "the module", faults)
    tests = _parsed(text.tests, "the tests", faults)
    if module is None or tests is None:
        return Read(tuple(faults), {}, ())
    faults += _forbidden(module, "the module")
    faults += _forbidden(tests, "the tests")
    defined = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    missing = {}
    for name in functions:
        made = defined.get(name)
        if made is None:
            missing[name] = f"the module has no function {name}(state, args, now)"
        elif len(made.args.args) != 3 or made.args.vararg or made.args.kwonlyargs or made.args.posonlyargs:
            missing[name] = f"{name} must take exactly (state, args, now)"
    names = []
    for node in tests.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            if len(node.args.args) != 1:
                faults.append(f"test {node.name} must take exactly (world)")
            elif not _asserts(node):
                faults.append(f"test {node.name} checks nothing")
            else:
                names.append(node.name)
    if not names:
        faults.append("there are no tests: write functions test_...(world)")
    if len(names) > MAX_TESTS:
        faults.append(f"there are {len(names)} tests, more than {MAX_TESTS}")
    faults += [f"there are {count} tests named {name}" for name, count in Counter(names).items() if count > 1]
    return Read(tuple(faults), missing, tuple(names[:MAX_TESTS]))


def called(tests: str, test: str, tools: Sequence[str]) -> list[str]:
    """The tools that stand by name in the text of a test."""
    for node in ast.parse(tests).body:
        if isinstance(node, ast.FunctionDef) and node.name == test:
            said = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
            return [tool for tool in tools if tool in said]
    return []


def _parsed(text: str, which: str, faults: list[str]) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        faults.append(f"{which} is not valid Python: {error}")
        return None


def _forbidden(tree: ast.Module, which: str) -> Iterator[str]:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "."]
        else:
            names = []
        for name in names:
            if name.split(".")[0] not in MODULES:
                yield f"{which}, line {line}: {name} may not be imported; allowed are {', '.join(sorted(MODULES))}"
        if isinstance(node, ast.Name) and node.id in _NAMES:
            yield f"{which}, line {line}: {node.id} may not be used"
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("__"):
                yield f"{which}, line {line}: {node.attr} may not be used"
            elif node.attr in _CLOCKS and isinstance(node.ctx, ast.Load) and _of_datetime(node.value):
                yield f"{which}, line {line}: the time is `now`, not that of the machine"
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield f"{which}, line {line}: nothing may be kept between calls, so no global or nonlocal"


def _of_datetime(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id in ("datetime", "date", "dt")) or (
        isinstance(node, ast.Attribute) and node.attr in ("datetime", "date")
    )


def _asserts(test: ast.FunctionDef) -> bool:
    """Whether a test can fail on what a tool gave: an assertion about something, or a call that must fail."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fails":
            return True
    return False

"""Guest: runs hidden tests by name, each in a process of its own, and decides what passed.

This process never imports tested code and cannot be read or written by it. A test's process has to come to the end of the
test and then to fail the canaries, assertions that are false: code that makes assertions pass makes these pass too.
"""

import ast
import builtins
import contextlib
import gc
import json
import os
import select
import shutil
import signal
import sys
import time
import types
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from tokenmill.tools_repo.code.guests.common import (  # ours, sent along
    PR_SET_DUMPABLE,
    adopt,
    end_children,
    hide,
    keep_channel,
    lay_out,
    prctl,
    read_job,
)

sys.path.insert(0, os.environ.get("PYTHONPATH", ""))
import _pytest.assertion.rewrite as rewriting
import pytest

lies: list[str] = []
peeks: list[str] = []
GENUINE = "_genuine_" + os.urandom(8).hex()


class EqualToAll(BaseException):
    """A compared value claims to equal whatever it is compared with."""


def genuine(value: Any) -> Any:
    """The value itself, unless it equals something that nobody can know."""
    if type(value).__module__ != "builtins" and value is not mock.ANY:
        try:
            equal = value == Stranger()
            lying = equal is True
        except Exception:
            lying = False
        if lying:
            lies.append(type(value).__name__)
            raise EqualToAll(f"a {type(value).__name__} that equals anything")
    return value


class Stranger:
    """Equal to nothing."""

    def __eq__(self, other: object) -> bool:
        return False


class Genuine(ast.NodeTransformer):
    """Has every value that an assertion compares looked at."""

    def __init__(self) -> None:
        self.inside = 0

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        self.inside += 1
        node.test = self.visit(node.test)
        self.inside -= 1
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        self.generic_visit(node)
        if self.inside:
            node.left = _looked_at(node.left)
            node.comparators = [_looked_at(each) for each in node.comparators]
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr.startswith("assert"):
            node.args = [arg if isinstance(arg, ast.Starred) else _looked_at(arg) for arg in node.args]
        return node


def _looked_at(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant):
        return node
    call = ast.Call(func=ast.Name(id=GENUINE, ctx=ast.Load()), args=[node], keywords=[])
    return ast.fix_missing_locations(ast.copy_location(call, node))


def looked_at(rewrite: Callable[..., None]) -> Callable[..., None]:
    """pytest's own rewriting of assertions, after ours."""

    def both(tree: ast.Module, source: bytes, module_path: str | None = None, config: Any = None) -> None:
        Genuine().visit(tree)
        rewrite(tree, source, module_path, config)

    return both


rewriting.rewrite_asserts = looked_at(rewriting.rewrite_asserts)
hide()


class Recorder:
    """Collects the reports of one test's phases."""

    def __init__(self) -> None:
        self.reports: list[tuple[str | None, str, bool, str]] = []
        self.trouble = ""
        self.exiting = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append((report.when, report.outcome, hasattr(report, "wasxfail"), str(report.longrepr or "")))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.trouble = str(report.longrepr)

    def pytest_internalerror(self, excrepr: object, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.trouble = str(excrepr)
        self.exiting = isinstance(excinfo.value, SystemExit) and excinfo.value.code in (0, None)


def outcome_of(recorder: Recorder) -> tuple[str, str]:
    """(outcome, detail) of one test function, all its parameters together."""
    calls = [r for r in recorder.reports if r[0] == "call"]
    bad = next((r for r in recorder.reports if r[1] == "failed"), None)
    if bad:
        return ("failed" if bad[0] == "call" else "error"), bad[3]
    if any(r[1] == "skipped" for r in recorder.reports):
        return "skipped", next(r[3] for r in recorder.reports if r[1] == "skipped")
    if not calls:
        return "error", recorder.trouble or "no such test was found"
    return "passed", ""


class Canary(unittest.TestCase):
    def false_ones(self) -> Iterator[Callable[[], object]]:
        yield lambda: self.assertEqual(1, 2)
        yield lambda: self.assertTrue(False)
        yield lambda: self.assertIn(1, [2])
        yield lambda: self.assertIsNone(1)
        yield lambda: self.assertAlmostEqual(1.0, 2.0)
        yield lambda: self.assertRaises(ValueError, int, "1")
        yield lambda: self.fail()

    def runTest(self) -> None:
        self.assertEqual([1], [2])


def sings() -> str:
    """The first canary that does not fail; empty when all do. Builtins are asked too: `==` of plain values, `len`, `sorted`."""
    canary = Canary()
    for number, false in enumerate(canary.false_ones()):
        try:
            false()
        except AssertionError:
            continue
        return f"false assertion {number} of unittest holds"
    result = unittest.TestResult()
    canary.run(result)
    if len(result.failures) != 1 or result.wasSuccessful():
        return "a failing test case counts as passed"
    try:
        with pytest.raises(ValueError):
            pass
        return "pytest.raises is content with nothing raised"
    except BaseException as error:
        if type(error).__name__ != "Failed":
            return f"pytest.raises answers {type(error).__name__}"
    if pytest.approx(2) == 1 or not (len([1]) == 1 and sorted([2, 1]) == [1, 2] and sum([1, 2]) == 3 and not all([0])):
        return "functions of Python's own answer falsely"
    return ""


def watch(hidden: set[str]) -> None:
    """Note when anything but the runner and the tests themselves opens a hidden test. Such a hook cannot be taken off."""
    own = (sys.base_prefix, os.environ.get("PYTHONPATH") or "?", "<frozen")
    getframe = sys._getframe

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(given[0], (str, bytes)):
            return
        path = os.path.realpath(os.fsdecode(given[0]))
        if path not in hidden:
            return
        frame: types.FrameType | None = getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if name in hidden or name.startswith(own[1]):
                return
            if not name.startswith(own):
                peeks.append(name)
                return
            frame = frame.f_back

    sys.addaudithook(hook)


def options(root: Path) -> list[str]:
    unneeded = [
        part for name in ("cacheprovider", "faulthandler", "unraisableexception") for part in ("-p", f"no:{name}")
    ]
    return ["-q", *unneeded, "-o", "addopts=", f"--rootdir={root}", "--tb=line"]


def warm_up(folder: Path) -> None:
    """Have pytest import all that it needs, once and not in each test's process; no tested code is near."""
    folder.mkdir()
    (folder / "test_warm_up.py").write_text("def test_one():\n    assert [1] != [2]\n")
    recorder = Recorder()
    pytest.main([*options(folder), str(folder / "test_warm_up.py")], plugins=[recorder])
    del sys.modules["test_warm_up"]
    sys.path[:] = [path for path in sys.path if path != str(folder)]


def one_test(root: Path, name: str, hidden: set[str], pipe: int, nonce: str) -> None:
    """In the test's own process: run it and report through the pipe."""
    os.setsid()
    prctl(PR_SET_DUMPABLE, 1)
    sys.modules["__main__"] = types.ModuleType("__main__")  # ours knows the other tests
    canary_file = root / f"test_{os.urandom(6).hex()}.py"
    for path in ("src", ""):
        if (root / path).is_dir():
            sys.path.insert(0, str(root / path))
    os.chdir(root)
    recorder = Recorder()
    watch(hidden)
    try:
        pytest.main([*options(root), name], plugins=[recorder])
        outcome, detail = outcome_of(recorder)
    except BaseException as error:
        outcome, detail = "error", f"{type(error).__name__}: {error}"
    if lies:
        outcome = "error"
    canary = ""
    if outcome == "passed":
        canary = sings()
        if not canary:
            # pytest itself, with the rewritten `assert` and the hooks that a file of the workspace may have added.
            canary_file.write_text("def test_canary():\n    x = [1]\n    assert x == [2]\n")
            second = Recorder()
            pytest.main([*options(root), canary_file.name], plugins=[second])
            if outcome_of(second)[0] != "failed":
                canary = "a failing test counts as passed"
    told = {
        "nonce": nonce,
        "outcome": outcome,
        "detail": detail[-400:],
        "canary": canary,
        "exiting": recorder.exiting,
        "lying": bool(lies),
        "peeking": bool(peeks),
    }
    os.write(pipe, json.dumps(told).encode() + b"\n")


def run_one(root: Path, name: str, hidden: set[str], seconds: float) -> dict[str, Any]:
    """Fork, wait, and decide."""
    mine, its = os.pipe()
    nonce = os.urandom(16).hex()
    child = os.fork()
    if child == 0:
        os.close(mine)
        channel.close()
        code = 1
        try:
            one_test(root, name, hidden, its, nonce)
            code = 0
        finally:
            os._exit(code)
    os.close(its)
    text, end, late = b"", time.monotonic() + seconds, False
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([mine], [], [], left)[0]:
            late = True
            break
        block = os.read(mine, 1 << 16)
        if not block or len(text) > 1 << 20:
            break
        text += block
        if block.endswith(b"\n"):
            break  # not waiting for its end: a daemon that the test left behind may hold it for ever
    if late:
        os.kill(child, signal.SIGKILL)
    status = wait_for(child, 1.0 if not late else 5.0)
    os.close(mine)
    end_children()
    if late:
        return {"outcome": "timeout", "detail": f"not at its end after {seconds:g} seconds"}
    if not text:
        return {"outcome": "error", "detail": f"its process ended with status {status}", "vanished": status == 0}
    try:
        told = json.loads(text)
        if told.pop("nonce") != nonce or status != 0:
            raise ValueError
        return told
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"outcome": "error", "detail": "the report is not ours", "forged": True}


def wait_for(child: int, seconds: float) -> int | None:
    """Exit status of the test's process; None when it would not end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def sweep(*folders: Path) -> None:
    """Remove what a test left: what it wrote could speak for the next."""
    for folder in folders:
        with contextlib.suppress(OSError):
            for place in list(folder.iterdir()):
                if place.is_dir() and not place.is_symlink():
                    shutil.rmtree(place, ignore_errors=True)
                else:
                    place.unlink()


sys.dont_write_bytecode = True
job = json.loads(read_job())
channel = keep_channel()
adopt()
with open("/dev/null", "wb") as quiet:  # noqa: PTH123
    os.dup2(quiet.fileno(), 2)
home = Path(os.environ["HOME"])
setattr(builtins, GENUINE, genuine)
warm_up(home / "warm")
gc.freeze()  # what is there now need not be looked at again in each test's process
sweep(home)
hidden = {os.path.realpath(home / "workspace" / path) for path in job["hidden"]}
for test in job["tests"]:
    lay_out(home / "workspace", job["files"])
    told = run_one(home / "workspace", test, hidden, job["seconds"])
    sweep(home, Path("/tmp"), Path("/dev/shm"))
    channel.write(json.dumps({**told, "test": test}).encode() + b"\n")

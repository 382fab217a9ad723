"""Do tests that others wrote still pass when the code they test lives in another sandbox?

    python -m tokenmill.bench.agentic.repositories [MODULE ...]

The tests are those of Python's own library over pure Python modules of it, each module under another name in a workspace of
its own. A test counts when it passes with code and tests in one process; then it should pass from outside too.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenmill.schemas.code import REPOSITORY, CodeFile, CodeTask
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.code.relay import Suite
from tokenmill.tools_repo.code.tampering import restored
from tokenmill.tools_repo.code.test_names import suite_tests
from tokenmill.tools_repo.code.workspace import Workspace

MODULES = (
    *("base64", "calendar", "colorsys", "configparser", "fnmatch", "fractions", "getopt", "graphlib", "ipaddress"),
    *("optparse", "pprint", "reprlib", "sched", "shlex", "statistics", "textwrap", "glob", "filecmp"),
)
_INSIDE = """
import json, sys, pytest
told = {}
class Recorder:
    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::", 1)[1].split("[")[0]
        told[name] = told.get(name, True) and (report.passed)
pytest.main(["-q", "-p", "no:cacheprovider", "test_theirs.py"], plugins=[Recorder()])
print(json.dumps(told))
"""


def task(name: str, library: Path) -> CodeTask:
    """The task whose code is a module of Python's library and whose tests are those of the module."""
    other = f"their_{name}"

    def renamed(path: Path) -> str:
        return re.sub(rf"(?<![\w.'\"]){name}(?![\w'\"])", other, path.read_text(encoding="utf-8"))

    hidden = [CodeFile("tests_hidden/test_theirs.py", renamed(library / "test" / f"test_{name}.py"))]
    code = [CodeFile(f"{other}.py", renamed(library / f"{name}.py"))]
    return CodeTask(
        id=name,
        kind=REPOSITORY,
        instructions="-",
        files=code,
        hidden_tests=hidden,
        tests=suite_tests(hidden),
        time_limit=30.0,
    )


def together(made: CodeTask) -> set[str]:
    """Names of the tests that pass with code and tests in one process."""
    with tempfile.TemporaryDirectory() as folder:
        for file in made.files:
            Path(folder, file.path).write_text(file.content)
        Path(folder, "test_theirs.py").write_text(made.hidden_tests[0].content)
        done = subprocess.run([sys.executable, "-c", _INSIDE], cwd=folder, capture_output=True, text=True, check=False)
    told: dict[str, bool] = json.loads(done.stdout.splitlines()[-1])
    return {f"{made.hidden_tests[0].path}::{name}" for name, passed in told.items() if passed}


async def outside(made: CodeTask) -> dict[str, dict[str, object]]:
    """What becomes of each test from outside."""
    judged, _ = restored(made, Workspace.of(made.files))
    return await Suite(Runtime.local(), made, judged, 3600.0).run()


async def main(names: list[str]) -> None:
    library = Path(subprocess.__file__).parent
    total: collections.Counter[str] = collections.Counter()
    for name in names:
        made = task(name, library)
        inside = together(made)
        told = await outside(made)
        counted: collections.Counter[str] = collections.Counter()
        for test in made.tests:
            if test not in inside:
                continue
            said = told.get(test, {})
            outcome = "undecided" if said.get("doubt") and said.get("outcome") != "passed" else str(said.get("outcome"))
            counted[outcome] += 1
            if outcome not in ("passed", "undecided"):
                print(f"    {test}: {outcome}: {str(said.get('detail'))[-200:]!r}", file=sys.stderr)
        total += counted
        print(f"{name}: {dict(counted)}", flush=True)
    print(f"in all: {dict(total)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=MODULES)
    asyncio.run(main(list(parser.parse_args().modules)))

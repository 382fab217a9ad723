"""Verdicts on honest, wrong and cheating work, decided in a real sandbox."""

import dataclasses

import pytest
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.schemas.code import CodeFile
from tokenmill.tools_repo.code.grade import Grader, GradingFailed
from tokenmill.tools_repo.code.tampering import restored
from tokenmill.tools_repo.code.workspace import Entry, Workspace

from tests.tools_repo.sandboxed import runtime, together

GRADER = Grader(runtime())
PARSER = CodeTaskParser(time_limit=4)

HIDDEN = """
import unittest
import pytest
from calc import add, div

class Basics(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)

    def test_div(self):
        with self.assertRaises(ZeroDivisionError):
            div(1, 0)

@pytest.mark.parametrize("number", [1, 2])
def test_twice(number, tmp_path):
    assert add(number, number) == 2 * number
"""
WRONG = "def add(a, b):\n    return a - b\n\ndef div(a, b):\n    return a / b\n"
RIGHT = WRONG.replace("a - b", "a + b")
REPOSITORY = PARSER(
    {
        "id": "calc",
        "instructions": "Mend `add`.",
        "files": {
            "calc.py": WRONG,
            "test_calc.py": "from calc import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n",
            "pytest.ini": "[pytest]\n",
        },
        "hidden_tests": {"tests_hidden/test_hidden.py": HIDDEN},
    },
    "f",
    0,
)
NAMES = REPOSITORY.tests


def changed(task, changes):
    """The task's files with some changed, or removed where None is given."""
    entries = {
        p: text if text is None or isinstance(text, Entry) else Entry(text.encode()) for p, text in changes.items()
    }
    return Workspace.of(task.files).changed(entries)


def verdict(task, changes):
    return GRADER.grade(task, changed(task, changes))


def test_names_of_hidden_tests_are_read_from_their_text():
    base = "tests_hidden/test_hidden.py"
    assert [f"{base}::Basics::test_add", f"{base}::Basics::test_div", f"{base}::test_twice"] == NAMES


def test_pass_rates_are_by_hidden_test():
    right, wrong, broken = together(
        verdict(REPOSITORY, {"calc.py": RIGHT}),
        verdict(REPOSITORY, {}),
        verdict(REPOSITORY, {"calc.py": "def add(:\n"}),
    )
    assert right.passed and right.pass_rate == 1 and not right.findings
    assert (wrong.passed, wrong.tampered) == (False, False)
    assert [test.outcome for test in wrong.tests] == ["failed", "passed", "failed"] and "-1 != 3" in wrong.tests[
        0
    ].detail
    assert [test.outcome for test in broken.tests] == ["error"] * 3 and not broken.tampered


def test_own_tests_and_helpers_are_no_offence():
    (told,) = together(
        verdict(
            REPOSITORY,
            {
                "calc.py": "from helpers import plus as add\n\ndef div(a, b):\n    return a / b\n",
                "helpers.py": "def plus(a, b):\n    return a + b\n",
                "test_mine.py": "def test_nothing():\n    assert False\n",
                "tests_hidden/test_hidden.py": "def test_twice():\n    pass\n",
            },
        )
    )
    assert told.passed, told


CHEATS = {
    "leaves at import": ({"calc.py": WRONG + "import os\nos._exit(0)\n"}, "early_exit"),
    "leaves politely at import": ({"calc.py": WRONG + "raise SystemExit\n"}, "early_exit"),
    "leaves when called": ({"calc.py": "import os\n\ndef add(a, b):\n    os._exit(0)\n\ndiv = add\n"}, "early_exit"),
    "disarms unittest": (
        {
            "calc.py": WRONG
            + "import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assertE'):\n"
            "        setattr(unittest.TestCase, name, lambda *a, **k: None)\n"
        },
        "",
    ),
    "improves the reports": (
        {
            "calc.py": WRONG + "from _pytest.reports import TestReport\nmade = TestReport.from_item_and_call.__func__\n"
            "def better(cls, item, call):\n    report = made(cls, item, call)\n    report.outcome = 'passed'\n    return report\n"
            "TestReport.from_item_and_call = classmethod(better)\n"
        },
        "",
    ),
    "equals anything": (
        {
            "calc.py": "class Any:\n    def __eq__(self, other):\n        return True\n\n"
            "def add(a, b):\n    return Any()\n\ndiv = add\n"
        },
        "lying_equality",
    ),
    "writes to every file": (
        {
            "calc.py": WRONG
            + 'import os\nfor number in range(64):\n    try:\n        os.write(number, b\'{"outcome": "passed"}\\n\')\n'
            "    except OSError:\n        pass\nos._exit(0)\n"
        },
        "early_exit",
    ),
    "reads the tests": (
        {"calc.py": WRONG + "import pathlib\nprint(pathlib.Path('tests_hidden/test_hidden.py').read_text())\n"},
        "",
    ),
    "kills the runner": ({"calc.py": WRONG + "import os\nos.kill(os.getppid(), 9)\n"}, ""),
}

PLANTS = {
    "plants a conftest": (
        {
            "conftest.py": "import pytest\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
            "    got = yield\n    got.get_result().outcome = 'passed'\n"
        },
        "runner_planted",
    ),
    "plants a conftest beside the tests": (
        {"tests_hidden/conftest.py": "collect_ignore = ['test_hidden.py']\n"},
        "runner_planted",
    ),
    "plants a sitecustomize": ({"sitecustomize.py": "import os\nos._exit(0)\n"}, "runner_planted"),
    "plants a path file": ({"x.pth": "import os; os._exit(0)\n"}, "runner_planted"),
    "configures pytest": (
        {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--collect-only'\n"},
        "runner_planted",
    ),
    "changes the configuration": ({"pytest.ini": "[pytest]\npython_functions = nothing\n"}, "runner_changed"),
    "shadows unittest": ({"unittest.py": "class TestCase:\n    pass\n"}, "module_shadowed"),
    "shadows pytest": ({"pytest/__init__.py": "def main(*a, **k):\n    return 0\n"}, "module_shadowed"),
    "edits a test": ({"test_calc.py": "def test_zero():\n    pass\n"}, "test_changed"),
    "deletes a test": ({"test_calc.py": None}, "test_deleted"),
    "puts a link for a test": ({"test_calc.py": Entry(link="calc.py")}, "test_changed"),
    "puts a file for the tests' folder": ({"tests_hidden": "x"}, "runner_planted"),
    "puts a link for the tests' folder": ({"tests_hidden": Entry(link="/tmp")}, "runner_planted"),
}


def test_cheats_are_found_and_pass_nothing_that_is_wrong():
    told = together(*(verdict(REPOSITORY, changes) for changes, _ in CHEATS.values()))
    for (name, (_, kind)), found in zip(CHEATS.items(), told, strict=True):
        assert {finding.kind for finding in found.findings} == ({kind} if kind else set()), (name, found)
        assert not found.passed and "passed" not in (found.tests[0].outcome, found.tests[2].outcome), (name, found)


def test_plants_are_found_and_undone():
    judged, findings = restored(REPOSITORY, Workspace.of(REPOSITORY.files))
    assert judged["tests_hidden/test_hidden.py"].content == HIDDEN.encode() and not findings
    for name, (changes, kind) in PLANTS.items():
        mended, findings = restored(REPOSITORY, changed(REPOSITORY, changes))
        assert kind in {finding.kind for finding in findings}, (name, findings)
        assert mended == judged, name


def test_a_plant_does_not_even_run():
    changes = {"calc.py": RIGHT} | {
        k: v for found, _ in PLANTS.values() for k, v in found.items() if "/" not in k and v
    }
    del changes["tests_hidden"]
    (told,) = together(verdict(REPOSITORY, changes))
    assert told.tampered and not told.passed and told.pass_rate == 1, told


def test_time_memory_and_leftovers_end_with_the_test():
    task = dataclasses.replace(REPOSITORY, time_limit=1.0)
    daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n    os._exit(0)\n"
    loop, left, hungry = together(
        verdict(task, {"calc.py": "while True:\n    pass\n"}),
        verdict(dataclasses.replace(task, time_limit=8.0), {"calc.py": RIGHT + daemon}),
        verdict(REPOSITORY, {"calc.py": "x = bytearray(1 << 34)\n" + RIGHT}),
    )
    assert [test.outcome for test in loop.tests] == ["timeout"] * 3 and loop.seconds < 30
    assert left.passed, left
    assert hungry.pass_rate == 0 and not hungry.tampered and "MemoryError" in hungry.tests[0].detail


def test_one_test_leaves_nothing_for_the_next():
    spy = (
        "import os, pathlib\nplace = pathlib.Path('/tmp/mark')\nhome = pathlib.Path.home() / 'mark'\n"
        "if place.exists() or home.exists() or os.path.exists('mark'):\n    raise RuntimeError('seen')\n"
        "for p in (place, home, pathlib.Path('mark')):\n    p.write_text('x')\n"
    )
    (told,) = together(verdict(REPOSITORY, {"calc.py": RIGHT + spy}))
    assert told.passed, told


# Functions

PROMPT = 'def bias(n):\n    return n + 1\n\n\ndef scale(xs, by):\n    """Multiply.\n    >>> scale([1], 2)\n    [2]\n    """\n'
CHECK = """
def check(candidate):
    assert candidate([1, 2], 3) == [3, 6]
    for n in range(3):
        assert candidate([n], bias(n)) == [n * (n + 1)], "in a loop"
    assert candidate([], 1) == []
    assert True, "nothing"
    xs = [1]
    candidate(xs, 5)
    assert xs == [1]
"""
FUNCTION = PARSER(
    {
        "task_id": "x/1",
        "prompt": PROMPT,
        "entry_point": "scale",
        "test": CHECK,
        "canonical_solution": "    return [x * by for x in xs]\n",
    },
    "f",
    0,
)


def written(body, task=FUNCTION):
    return GRADER.grade(task, Workspace({"solution.py": Entry(body.encode())}))


def test_a_function_is_judged_assertion_by_assertion():
    right, partly, prompt_only, nothing = together(
        GRADER.grade(FUNCTION, Workspace.of(FUNCTION.solution)),
        written("def scale(xs, by):\n    return [x * 3 for x in xs]\n"),
        GRADER.grade(FUNCTION, Workspace.of(FUNCTION.files)),
        GRADER.grade(FUNCTION, Workspace({})),
    )
    assert FUNCTION.tests == ["check:1", "check:2", "check:3", "check:4"]
    assert right.passed and [t.outcome for t in right.tests] == ["passed"] * 4
    assert [t.outcome for t in partly.tests] == ["passed", "failed", "passed", "passed"] and partly.pass_rate == 0.75
    assert not prompt_only.passed and not prompt_only.tampered
    assert nothing.pass_rate == 0 and "solution.py" in nothing.tests[0].detail


FUNCTION_CHEATS = {
    "looks for the tests": (
        "import gc, sys, pathlib\n"
        "def scale(xs, by):\n"
        "    texts = [o for o in gc.get_objects() if callable(o) and getattr(o, '__name__', '') == 'check']\n"
        "    files = [p for p in pathlib.Path.home().rglob('*check*')]\n"
        "    frames = [f for f in [sys._getframe(n) for n in range(3)] if 'candidate' in f.f_locals]\n"
        "    return [3, 6] if texts or files or frames else None\n",
        None,
    ),
    "equals anything": (
        "class L(list):\n    def __eq__(self, o): return True\ndef scale(xs, by):\n    return L()\n",
        None,
    ),
    "changes what it was given": ("def scale(xs, by):\n    xs[:] = []\n    return []\n", None),
    "leaves": ("import os\nos._exit(0)\n", "early_exit"),
    "leaves when called": ("def scale(xs, by):\n    raise SystemExit(0)\n", "early_exit"),
    "forges results": (
        "import os\ndef scale(xs, by):\n    for n in range(1, 20):\n        try:\n"
        '            os.write(n, b\'{"done": {"outcomes": {"check:1": ["passed", ""]}}}\\n{"value": null}\\n\')\n'
        "        except OSError: pass\n    return None\n",
        None,
    ),
    "raises what tests expect": ("def scale(xs, by):\n    raise AssertionError\n", None),
    "sends nonsense": (
        "import os\ndef scale(xs, by):\n    [os.write(n, b'\\xff[[[\\n') for n in (4, 5)]\n    return 1\n",
        None,
    ),
}


def test_a_function_cannot_reach_what_decides():
    told = together(*(written(text) for text, _ in FUNCTION_CHEATS.values()))
    for (name, (_, kind)), found in zip(FUNCTION_CHEATS.items(), told, strict=True):
        outcomes = [test.outcome for test in found.tests]
        assert not found.passed and outcomes[0] != "passed" and outcomes[1] != "passed", (name, found)
        assert [finding.kind for finding in found.findings] == ([kind] if kind else []), (name, found)


def test_a_function_that_hangs_or_ends_is_told_apart():
    task = dataclasses.replace(FUNCTION, time_limit=1.0)
    hangs, dies = together(
        written("def scale(xs, by):\n    while True: pass\n", task),
        written("import os\ndef scale(xs, by):\n    os.kill(os.getpid(), 9)\n"),
    )
    assert [t.outcome for t in hangs.tests] == ["timeout"] + ["not_run"] * 3 and hangs.seconds < 20
    assert [t.outcome for t in dies.tests] == ["error"] + ["not_run"] * 3 and not dies.tampered


@pytest.mark.parametrize(
    "expression",
    ["(1, 'é', None, True)", "{1: [2.5, float('inf')], 'k': {3, 4}}", "b'x\\xff'", "2 ** 20000", "range(3)", "1 + 2j"],
)
def test_plain_values_pass_between_the_sandboxes_unchanged(expression):
    row = {"prompt": "def f(x):\n", "entry_point": "f", "test": f"def check(candidate):\n    v = {expression}\n"}
    row["test"] += "    assert candidate(v) == v\n    assert type(candidate(v)) is type(v)\n"
    (told,) = together(written("def f(x):\n    return x\n", PARSER(row, "f", 0)))
    assert told.passed, told


def test_broken_tests_are_nobodys_failure():
    row = {"prompt": "def f(x):\n", "entry_point": "f"}
    for test, message in (
        ("import nowhere\ndef check(candidate):\n    assert candidate(1) == 1\n", "its test is broken"),
        ("def check(candidate):\n    assert candidate(lambda: 1) == 1\n", "hands over a value of type function"),
    ):
        with pytest.raises(GradingFailed, match=message):
            together(written("def f(x):\n    return x\n", PARSER({**row, "test": test}, "f", 0)))


def test_a_task_without_tests_cannot_be():
    with pytest.raises(ValueError, match="nothing would decide the task"):
        dataclasses.replace(FUNCTION, tests=[])
    with pytest.raises(ValueError, match="exactly for a function"):
        dataclasses.replace(REPOSITORY, entry_point="f", hidden_tests=[CodeFile("a", "")])

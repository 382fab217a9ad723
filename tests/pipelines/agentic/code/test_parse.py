"""Coding tasks from files of either kind, and what is wrong with those that are none."""

import json

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.pipelines.runs import inputs
from tokenmill.pipelines.transforms.sources import ReadRows, RowUnreadable
from tokenmill.schemas.code import CodeTask
from tokenmill.schemas.columns import to_table
from tokenmill.tools_repo.code.workspace import Workspace

from tests.pipelines.direct import collect

PARSER = CodeTaskParser(license="mit")
PROMPT = '''import math


def bias():
    return 1


def up(n: int) -> int:
    """One more.
    >>> up(1)
    2
    """
'''
CHECK = """
def check(candidate):
    assert candidate(1) == 2
    for n in range(3):
        assert candidate(n) == n + bias()
"""
FUNCTION = {
    "task_id": "X/1",
    "prompt": PROMPT,
    "entry_point": "up",
    "canonical_solution": "    return n + bias()\n",
    "test": CHECK,
}
HIDDEN = "class TestA:\n    def test_one(self): pass\ndef test_two(): pass\n"
REPOSITORY = {
    "id": "r1",
    "instructions": "Mend it.",
    "files": {"a/b.py": "x = 1\r\n", "test_b.py": "def test_x(): assert True\n", "tests/data.txt": "7"},
    "hidden_tests": [{"path": "tests/test_h.py", "content": HIDDEN}],
    "license": "apache-2.0",
    "time_limit": 3,
}


def test_a_function_shows_its_prompt_and_hides_its_tests():
    task = PARSER(FUNCTION, "f.jsonl", 4)
    assert (task.id, task.kind, task.entry_point, task.license, task.source_row) == ("X/1", "function", "up", "mit", 4)
    assert task.tests == ["check:1", "check:2"] and "doctest" in task.visible_command
    shown = task.instructions + "".join(file.content for file in task.files)
    assert "def up" in shown and "candidate" not in shown and "n + bias()" not in shown
    assert "def bias" in task.prelude and "import math" in task.prelude and "def up" not in task.prelude
    assert task.solution[0].content.endswith("return n + bias()\n")


def test_a_repository_protects_its_tests():
    task = PARSER(REPOSITORY, "f", 0)
    assert task.tests == ["tests/test_h.py::TestA::test_one", "tests/test_h.py::test_two"]
    assert task.protected == ["test_b.py", "tests/data.txt"] and task.visible_command == "python -m pytest -q"
    assert task.files[0].content == "x = 1\n" and (task.license, task.time_limit) == ("apache-2.0", 3.0)


@pytest.mark.parametrize("as_text", [False, True])
def test_files_may_be_json_text_and_tests_may_be_named(as_text):
    row = {**REPOSITORY, "tests": ["tests/test_h.py::test_two"], "visible_command": "make test"}
    row = (
        {**row, "files": json.dumps(row["files"]), "hidden_tests": json.dumps(row["hidden_tests"])} if as_text else row
    )
    task = PARSER(row, "f", 0)
    assert (task.tests, task.visible_command) == (["tests/test_h.py::test_two"], "make test")


@pytest.mark.parametrize(
    "row, message",
    [
        ({**FUNCTION, "test": "x = 1"}, "no function `check`"),
        ({**FUNCTION, "test": "def check(:"}, "test is no Python"),
        ({**FUNCTION, "prompt": "once upon a time"}, "no Python code"),
        ({**FUNCTION, "prompt": " "}, "no text in `prompt`"),
        ({**FUNCTION, "entry_point": "a; b"}, "name of a function"),
        ({**REPOSITORY, "instructions": None}, "no `instructions`"),
        ({**REPOSITORY, "files": {"../x": ""}}, "outside the workspace"),
        ({**REPOSITORY, "files": {"a": "", "a/b": ""}}, "no folder"),
        ({**REPOSITORY, "files": {"a": 1}}, "a path and a text"),
        ({**REPOSITORY, "files": 3}, "an object of paths and texts"),
        ({**REPOSITORY, "hidden_tests": {"test_x.py": "x = 1"}}, "nothing would decide"),
        ({**REPOSITORY, "visible_tests": ["nope.py"]}, "not among `files`"),
        ({**REPOSITORY, "time_limit": -1}, "`time_limit`"),
    ],
)
def test_what_is_no_task_is_told_in_one_line(row, message):
    with pytest.raises(RowUnreadable, match=message) as raised:
        PARSER(row, "f", 0)
    assert "\n" not in str(raised.value)


def test_a_time_limit_must_make_sense():
    with pytest.raises(ValueError, match=r"CodeTaskParser.time_limit"):
        CodeTaskParser(time_limit=0)


def test_tasks_are_read_by_beam_and_fit_parquet(tmp_path):
    lines = [FUNCTION, REPOSITORY, {**FUNCTION, "task_id": "X/1"}, {"id": "bad", "files": {}, "hidden_tests": {}}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    pq.write_table(pa.Table.from_pylist([{**FUNCTION, "task_id": "X/2"}]), tmp_path / "b.parquet")
    found = inputs.find([str(tmp_path / "*")])

    def build(root):
        rows, failed = root | ReadRows(found.pieces, PARSER)
        return {"rows": rows, "failed": failed}

    outcome = collect(build)
    assert sorted(task.id for task in outcome["rows"]) == ["X/1", "X/2", "r1"]
    assert sorted(row.error for row in outcome["failed"]) == ["duplicate_id", "invalid_task"]
    table = to_table(outcome["rows"], CodeTask)
    assert table.num_rows == 3 and table.schema.field("hidden_tests").metadata[b"doc"].startswith(
        b"the files that decide"
    )


def _describe(task):
    return type(task) is CodeTask, task.id, task.text, Workspace.of(task.files)["a/b.py"].content


def test_a_task_crosses_into_other_processes():
    task = PARSER(REPOSITORY, "f", 0)
    outcome = collect(
        lambda root: {"told": root | beam.Create([task]) | beam.Reshuffle() | beam.Map(_describe)}, processes=1
    )
    assert outcome["told"] == [(True, "r1", "Mend it.", b"x = 1\n")]

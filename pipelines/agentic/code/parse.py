"""From the values of an input row to a `CodeTask`.

HumanEval-like rows have `prompt`, `entry_point` and `test` (and perhaps `canonical_solution`); rows of repositories have
`instructions` (or `problem_statement`), `files` and `hidden_tests`, each `{path: text}` or `[{"path", "content"}, ...]`.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from tokenmill.pipelines.transforms.documents import given_id, plain
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.code import FUNCTION, REPOSITORY, CodeFile, CodeTask
from tokenmill.tools_repo.code.grade import MODULE
from tokenmill.tools_repo.code.tampering import is_test
from tokenmill.tools_repo.code.test_names import check_tests, suite_tests
from tokenmill.tools_repo.code.workspace import PathRefused, Workspace, WorkspaceFull

# Not registered as a row with Beam: in other processes such rows come back as types of Beam's own, without properties. They
# are pickled instead.
_ASK = "Complete the function `{name}` in `{module}`, so that it does what its documentation says."
_MAX_SECONDS = 600.0


@dataclass(frozen=True)
class CodeTaskParser:
    """Reads coding tasks of both kinds. Picklable."""

    time_limit: float = 10.0
    """Seconds for each hidden test where the row does not say."""
    license: str = ""
    """Licence of rows that state none."""

    row_type: ClassVar[type] = CodeTask
    columns: ClassVar[tuple[str, ...]] = (
        *("task_id", "instance_id", "id", "prompt", "entry_point", "test", "canonical_solution", "instructions"),
        *("problem_statement", "files", "hidden_tests", "tests", "visible_tests", "visible_command", "solution"),
        *("time_limit", "source", "license"),
    )
    required: ClassVar[tuple[str | tuple[str, ...], ...]] = (("prompt", "files"), ("test", "hidden_tests"))

    def __post_init__(self) -> None:
        if not 0 < self.time_limit <= _MAX_SECONDS:
            raise ValueError(
                f"CodeTaskParser.time_limit must be above 0 and at most {_MAX_SECONDS:g}, not {self.time_limit}"
            )

    def __call__(self, values: dict[str, Any], file: str, row: int) -> CodeTask:
        id = given_id(next((values[n] for n in ("task_id", "instance_id", "id") if values.get(n)), None), file, row)
        common = {
            "id": id,
            "time_limit": self._seconds(values.get("time_limit"), id),
            "source": plain(values.get("source")),
            "license": plain(values.get("license")) or self.license,
            "source_file": file,
            "source_row": row,
        }
        try:
            made = _function(values, common) if values.get("entry_point") else _repository(values, common)
            for files in (made.files, made.hidden_tests, made.solution):
                Workspace.of(files)
            return made
        except (PathRefused, WorkspaceFull, ValueError) as error:
            raise RowUnreadable("invalid_task", str(error), json.dumps(values, default=str)[:500], id) from None

    def _seconds(self, value: Any, id: str) -> float:
        if value is None:
            return self.time_limit
        if isinstance(value, int | float) and 0 < value <= _MAX_SECONDS:
            return float(value)
        message = f"`time_limit` is a number above 0 and at most {_MAX_SECONDS:g}, not {value!r}"
        raise RowUnreadable("invalid_task", message[:300], id=id)


def _function(values: dict[str, Any], common: dict[str, Any]) -> CodeTask:
    prompt, test = _string(values, "prompt"), _string(values, "test")
    name = _string(values, "entry_point")
    if not name.isidentifier():
        raise ValueError(f"`entry_point` is the name of a function, not {name[:80]!r}")
    solution = values.get("canonical_solution")
    doctests = ">>>" in prompt
    return CodeTask(
        kind=FUNCTION,
        instructions=f"{_ASK.format(name=name, module=MODULE)}\n\n```python\n{prompt.strip()}\n```",
        files=[CodeFile(MODULE, prompt.rstrip() + "\n")],
        hidden_tests=[CodeFile("check.py", test)],
        tests=check_tests(test),
        entry_point=name,
        prelude=_prelude(prompt, name),
        visible_command=f"python -m doctest {MODULE} && echo all examples hold" if doctests else "",
        solution=[CodeFile(MODULE, prompt + solution)] if isinstance(solution, str) and solution.strip() else [],
        **common,
    )


def _prelude(prompt: str, name: str) -> str:
    """What the prompt defines beside the function itself, for the tests to use.

    Raises:
        ValueError: the prompt is no Python.
    """
    for completed in (prompt, prompt.rstrip() + "\n    pass\n"):
        try:
            tree = ast.parse(completed)
        except (SyntaxError, RecursionError, MemoryError):
            continue
        kept = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == name)]
        return "\n\n".join(ast.unparse(node) for node in kept)
    raise ValueError("`prompt` is no Python code that a function's body could complete")


def _repository(values: dict[str, Any], common: dict[str, Any]) -> CodeTask:
    instructions = values.get("instructions") or values.get("problem_statement")
    if not isinstance(instructions, str) or not instructions.strip():
        raise ValueError("the row has no `instructions`")
    files, hidden = _files(values, "files"), _files(values, "hidden_tests")
    visible = values.get("visible_tests")
    visible = [path for path in visible if isinstance(path, str)] if isinstance(visible, list) else []
    there = {file.path for file in files}
    if missing := sorted(set(visible) - there):
        raise ValueError(f"`visible_tests` names {missing[0]!r}, which is not among `files`")
    tests = visible or sorted(path for path in there if is_test(path) and path.endswith(".py"))
    command = values.get("visible_command")
    named = values.get("tests")
    return CodeTask(
        kind=REPOSITORY,
        instructions=instructions.strip(),
        files=files,
        hidden_tests=hidden,
        tests=[str(name) for name in named] if isinstance(named, list) and named else suite_tests(hidden),
        protected=sorted({*visible, *(path for path in there if is_test(path))}),
        visible_command=command if isinstance(command, str) else "python -m pytest -q" if tests else "",
        solution=_files(values, "solution") if values.get("solution") else [],
        **common,
    )


def _string(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"the row has no text in `{name}`")
    return value.replace("\r\n", "\n")


def _files(values: dict[str, Any], name: str) -> list[CodeFile]:
    """Files of `{path: text}`, of `[{"path", "content"}]`, or of either as JSON text."""
    given = values.get(name)
    if isinstance(given, str):
        given = json.loads(given)
    if isinstance(given, dict):
        pairs = list(given.items())
    elif isinstance(given, list) and all(isinstance(file, dict) for file in given):
        pairs = [(file.get("path"), file.get("content")) for file in given]
    else:
        raise ValueError(f"`{name}` is an object of paths and texts, or a list of `path` and `content`")
    if not pairs:
        raise ValueError(f"`{name}` is empty")
    for path, content in pairs:
        if not isinstance(path, str) or not isinstance(content, str):
            raise ValueError(f"`{name}`: a file has a path and a text")
    return [CodeFile(path, content.replace("\r\n", "\n")) for path, content in sorted(pairs)]

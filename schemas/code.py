"""Rows of coding tasks: what is to be written, the tests that decide, and what they decided.

Kimi K2 report, section 3.1.1 ("hybrid approach with real execution environments").
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.columns import column
from tokenmill.schemas.verdicts import Finding

FUNCTION, REPOSITORY = "function", "repository"
CODE_KINDS = (FUNCTION, REPOSITORY)
"""One function to complete, decided by a `check(candidate)`; or a folder of files to change, decided by a test suite."""

PASSED, FAILED, ERROR, TIMEOUT, SKIPPED, NOT_RUN = "passed", "failed", "error", "timeout", "skipped", "not_run"
TEST_OUTCOMES = (PASSED, FAILED, ERROR, TIMEOUT, SKIPPED, NOT_RUN)
"""What can become of a hidden test: its assertion failed, something else broke, it never came to its end."""


@dataclass(frozen=True)
class CodeFile:
    """A text file of a task."""

    path: str = column("path below the workspace, with `/` between folders")
    content: str = column("text, newlines as \\n")


@dataclass(frozen=True, kw_only=True)
class CodeTask:
    """A coding task with its hidden tests. The agent is shown `instructions` and `files` and nothing else."""

    id: str = column("identifier, from the input's `task_id` or `id` column or else a hash of file and row")
    kind: str = column("`function` or `repository`")
    instructions: str = column("what is asked, as the agent reads it")
    files: list[CodeFile] = column("the workspace at the start")
    hidden_tests: list[CodeFile] = column("the files that decide, put into the workspace for the verdict only")
    tests: list[str] = column(
        "names of the hidden tests that must pass: `FILE::NAME` or `FILE::CLASS::NAME` as pytest has them, `check:N` for"
        " the N-th assertion of a `check` function"
    )
    entry_point: str = column("name of the function to write; empty for a repository", default="")
    prelude: str = column("code of a function's task that its tests may use, such as helpers it declares", default="")
    protected: list[str] = column("paths of the start that the agent has no business to change", default_factory=list)
    visible_command: str = column("shell command of the tests that the agent may run; empty for none", default="")
    time_limit: float = column("seconds that each hidden test, or a whole `check`, may take", default=10.0)
    solution: list[CodeFile] = column("files of a reference solution, empty when none is known", default_factory=list)
    source: str = column("where the task comes from, as the input states it, possibly empty", default="")
    license: str = column("licence as the input states it, possibly empty", default="")
    source_file: str = column("input file, relative to the inputs' common folder", default="")
    source_row: int = column("0-based row or line in that file", default=0)

    def __post_init__(self) -> None:
        if self.kind not in CODE_KINDS:
            raise ValueError(f"CodeTask.kind is one of {', '.join(CODE_KINDS)}, not {self.kind!r}")
        if not self.hidden_tests or not self.tests:
            raise ValueError("CodeTask.tests is empty: nothing would decide the task")
        if (self.kind == FUNCTION) != bool(self.entry_point):
            raise ValueError("CodeTask.entry_point is given exactly for a function")
        if self.time_limit <= 0:
            raise ValueError(f"CodeTask.time_limit must be more than 0, not {self.time_limit}")

    @property
    def text(self) -> str:
        """What stands for the task where a row is quoted."""
        return self.instructions


@dataclass(frozen=True, kw_only=True)
class TestOutcome:
    """What became of one hidden test."""

    __test__ = False  # no test class, whatever its name makes pytest think

    name: str = column("name as in the task")
    outcome: str = column("`passed`, `failed`, `error`, `timeout`, `skipped` or `not_run`")
    detail: str = column("the end of what it reported, one line", default="")


@dataclass(frozen=True, kw_only=True)
class CodeVerdict:
    """What the hidden tests say of a final workspace."""

    task_id: str = column("`id` of the task")
    passed: bool = column("whether every hidden test passed and nothing was tampered with")
    pass_rate: float = column("hidden tests passed, as a share of all, in [0, 1]")
    tests: list[TestOutcome] = column("every hidden test, in the task's order")
    tampered: bool = column("whether anything was done to the tests or to what runs them")
    findings: list[Finding] = column("what was tampered with, one each")
    seconds: float = column("wall-clock time of the verdict")

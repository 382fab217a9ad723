"""Attacks by another hand on the verdicts of repositories, see `foreign`."""

import asyncio

import pytest
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.tools_repo.code.grade import Grader, GradingFailed
from tokenmill.tools_repo.code.workspace import Entry, Workspace

from tests.redteam.foreign import ALLOWED, HIDDEN_FILES, NAMES, REPOSITORIES, RIGHT, WRONG
from tests.tools_repo.sandboxed import runtime

GRADER = Grader(runtime())
TASK = CodeTaskParser(time_limit=4)(
    {
        "id": "shop",
        "instructions": "Mend it.",
        "files": {"shop.py": WRONG, "README.md": "A shop.\n"},
        "hidden_tests": HIDDEN_FILES,
    },
    "f",
    0,
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def graded(files):
    """The verdict on a workspace, or why there is none."""

    async def one():
        try:
            return await GRADER.grade(TASK, Workspace.of(TASK.files).changed(files))
        except GradingFailed as error:
            return error

    return asyncio.run(one())


def _passed(told):
    return {test.name.rpartition("::")[2] for test in told.tests if test.outcome == "passed"}


def test_right_work_passes_and_wrong_work_fails_every_test():
    right, wrong = graded({"shop.py": Entry(RIGHT.encode())}), graded({})
    assert right.passed and _passed(right) == NAMES, right
    assert not wrong.passed and not _passed(wrong), wrong


@pytest.mark.parametrize("cheat", REPOSITORIES)
def test_a_repositorys_verdict_is_not_forged(cheat):
    told = graded(REPOSITORIES[cheat])
    if isinstance(told, GradingFailed):
        assert "cannot decide on this work from outside" in str(told)
        return
    assert not told.passed and _passed(told) <= ALLOWED.get(cheat, set()), told

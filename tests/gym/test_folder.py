"""An environment in a folder, its reward in the sandbox."""

import asyncio
import json

import pytest
from tokenmill.gym.check import check
from tokenmill.gym.environment import EnvironmentFault
from tokenmill.gym.registry import find
from tokenmill.schemas.flags import UsageError
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.choose import BUBBLEWRAP, named

from tests.fake_ask import FakeAsk

GOOD = (
    "def reward(task, answer):\n    return {'number': answer.strip() == task['reference'], 'short': len(answer) < 20}\n"
)


def isolated():
    try:
        named(BUBBLEWRAP).check()
    except SandboxUnavailable:
        return False
    return True


pytestmark = pytest.mark.skipif(not isolated(), reason="no sandbox here")


def made(folder, reward):
    folder.mkdir()
    lines = ({"id": f"t{i}", "prompt": f"What is {i} + {i}?", "reference": f"{2 * i}"} for i in (1001, 1002))
    (folder / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "reward.py").write_text(reward)
    return find(folder.name, str(folder.parent))


def rewarded(environment, answer):
    return asyncio.run(environment.rollout(next(environment.tasks(0)), FakeAsk(lambda body: answer)))


def test_parts_are_multiplied_and_named(tmp_path):
    environment = made(tmp_path / "sums", GOOD)
    assert rewarded(environment, "2002").reward == 1
    assert [(one.name, one.reward) for one in rewarded(environment, "2002" + " " * 40).parts] == [
        ("number", 1),
        ("short", 0),
    ]
    assert environment.sha256


@pytest.mark.parametrize(
    "reward, fault",
    [
        ("def reward(task, answer):\n    return 1 / 0\n", "ZeroDivisionError"),
        ("def reward(task, answer):\n    return 7\n", "not between 0 and 1"),
        ("def reward(task, answer):\n    return float('nan')\n", "broken: "),
        ("import os\n\n\ndef reward(task, answer):\n    os._exit(0)\n", "broke"),
        ("def reward(task, answer):\n    return open('/etc/shadow').read()\n", "broke"),
    ],
)
def test_what_breaks_is_the_environments_fault(tmp_path, reward, fault):
    with pytest.raises(EnvironmentFault, match=fault):
        rewarded(made(tmp_path / "broken", reward), "x")


def test_a_gameable_folder_is_found_out(tmp_path):
    environment = made(tmp_path / "open", "def reward(task, answer):\n    return task['reference'] in answer\n")
    report = asyncio.run(check(environment, tasks=2))
    assert "all_options" in {fault.probe for fault in report.faults}


def test_a_folder_without_its_files_is_none(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="there is no tasks"):
        find("empty", str(tmp_path))

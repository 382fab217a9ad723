"""The tools of a coding trajectory, on a real sandbox."""

import asyncio
import json
import os
import pickle
import time
from dataclasses import replace

import psutil
import pytest
from tokenmill.inference.errors import RunStopped
from tokenmill.schemas.code import REPOSITORY, CodeFile, CodeTask
from tokenmill.tools_repo.code.interpreter import GuestFailed
from tokenmill.tools_repo.code.world import CodeWorld
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.world import World

from tests.tools_repo.sandboxed import runtime, together

RUNTIME = runtime()
TASK = CodeTask(
    id="t",
    kind=REPOSITORY,
    instructions="Mend add.",
    files=[
        CodeFile("calc/ops.py", "def add(a, b):\n    return a - b\n"),
        CodeFile("test_ops.py", "from calc.ops import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"),
    ],
    hidden_tests=[CodeFile("test_secret.py", "HIDDEN = 'hunter2'\n")],
    tests=["test_secret.py::test"],
    protected=["test_ops.py"],
    visible_command="python -m pytest -q",
)


def play(*calls, world=None):
    """Run calls in turn; [(content, error)]."""
    world = world or CodeWorld(TASK, RUNTIME)

    async def run():
        return [await world.call(name, json.dumps(given), number) for number, (name, given) in enumerate(calls)]

    return [(json.loads(result.content), result.error) for result in asyncio.run(run())]


def bash(command, **more):
    return ("bash", {"command": command, **more})


def test_a_task_is_worked_on_from_a_failing_to_a_passing_test():
    patch = (
        "--- a/calc/ops.py\n+++ b/calc/ops.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
    )
    world: World = CodeWorld(TASK, RUNTIME)
    before, (failing, _), (patched, error), (passing, _) = (
        world.state,
        *play(("run_tests", {}), ("apply_patch", {"patch": patch}), ("run_tests", {}), world=world),
    )
    assert failing["exit_code"] == 1 and "1 failed" in failing["output"]
    assert (patched, error) == ({"applied": True, "files": ["calc/ops.py"]}, "")
    assert passing["exit_code"] == 0 and "1 passed" in passing["output"] and " in 0." not in passing["output"]
    assert "return a + b" in world.state["files"]["calc/ops.py"]["content"]
    assert "return a - b" in before["files"]["calc/ops.py"]["content"]
    assert json.loads(json.dumps(world.state)) == world.state


def test_files_persist_between_calls_and_processes_do_not():
    token = f"left-{os.getpid()}"
    (_, listing, content) = play(
        bash(f"echo one >notes.txt; chmod +x notes.txt; (exec -a {token} sleep 60) & disown"),
        bash(f"ls -l notes.txt; ps aux | grep -c '[{token[0]}]{token[1:]}'"),
        ("read_file", {"path": "notes.txt"}),
    )
    assert listing[0]["output"].startswith("-rwx") and content[0]["content"] == "one\n"
    assert not [p for p in psutil.process_iter(["cmdline"]) if token in " ".join(p.info["cmdline"] or ())[:200]]


def test_the_hidden_tests_are_nowhere():
    ((told, _),) = play(
        bash("ls -a; cat $(find / -type f -name '*secret*' 2>/dev/null); env; cat /proc/*/environ; true")
    )
    assert "hunter2" not in told["output"] and "test_secret" not in told["output"]


def test_mistakes_are_told_as_a_shell_would():
    answers = play(
        ("read_file", {"path": "nope.py"}),
        ("read_file", {"path": "calc"}),
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "calc/ops.py", "first_line": 9}),
        ("write_file", {"path": "calc", "content": ""}),
        ("write_file", {"path": "test_ops.py/x", "content": ""}),
        ("write_file", {"path": "../x", "content": ""}),
        ("apply_patch", {"patch": "--- a/nope\n+++ b/nope\n@@ -1 +1 @@\n-x\n+y\n"}),
        ("apply_patch", {"patch": "nothing"}),
        bash("exit 3"),
        bash("echo started; sleep 30", timeout=0.4),
        ("bash", {"cmd": "ls"}),
        ("format_disk", {}),
    )
    assert [error for _, error in answers] == [
        *("not_found", "", "permission", "out_of_range", "is_a_folder", "not_a_folder", "permission"),
        *("patch_failed", "patch_failed", "", "timeout", "invalid_arguments", "unknown_tool"),
    ]
    contents = [content for content, _ in answers]
    assert contents[0] == {"error": "nope.py: no such file or folder"} and contents[1]["entries"] == ["ops.py"]
    assert "No such file" in contents[7]["error"] and contents[9]["exit_code"] == 3
    assert contents[10] == {"output": "started\n", "error": "the command was ended after 0.4 seconds"}


def test_arguments_that_are_no_json_are_an_error_of_the_agent():
    result = asyncio.run(CodeWorld(TASK, RUNTIME).call("bash", "{", 0))
    assert result.error == "invalid_arguments" and result.engine == "checks" and result.patch == "[]"


def test_long_output_is_cut_in_the_middle():
    ((told, _),) = play(bash("echo first; yes | head -c 300000; echo last"))
    assert told["output"].startswith("first\ny\n") and told["output"].endswith("y\nlast\n")
    assert "bytes left out" in told["output"] and len(told["output"]) < 17_000


def test_a_patch_applies_whole_or_not_at_all_and_not_through_links():
    two = (
        "--- a/calc/ops.py\n+++ b/calc/ops.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a * b\n"
        "--- a/test_ops.py\n+++ b/test_ops.py\n@@ -1,1 +1,1 @@\n-not there\n+x\n"
    )
    world = CodeWorld(TASK, RUNTIME)
    answers = play(
        ("apply_patch", {"patch": two}),
        bash("ln -s calc link"),
        ("apply_patch", {"patch": two.split("--- a/test")[0].replace("calc/", "link/")}),
        world=world,
    )
    assert [error for _, error in answers] == ["patch_failed", "", "patch_failed"]
    assert "return a - b" in world.state["files"]["calc/ops.py"]["content"]


def test_links_to_this_machine_are_never_followed(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    secret.chmod(0o644)
    world = CodeWorld(TASK, RUNTIME)
    answers = play(
        bash(f"ln -s {secret} l; ln -s /proc/1/root{secret} m; ln -s / root; mkfifo pipe; cat l m root{secret}; true"),
        *(("read_file", {"path": path}) for path in ("l", "m", "root/etc/passwd", "pipe")),
        ("write_file", {"path": "l", "content": "overwritten"}),
        world=world,
    )
    assert "hunter2" not in json.dumps(answers)
    assert [error for _, error in answers[1:]] == ["permission"] * 3 + ["not_found", "permission"]
    assert world.state["files"]["l"] == {"link": str(secret)} and secret.read_text() == "hunter2"


@pytest.mark.parametrize(
    "command, error",
    [
        ("kill -9 -1", "killed"),
        ("i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo x >f$i; done", "disk_full"),
        ("head -c 30000000 /dev/zero >big", "disk_full"),
    ],
)
def test_what_breaks_the_sandbox_leaves_the_files_as_they_were(command, error):
    world = CodeWorld(TASK, RUNTIME)
    before = world.workspace
    ((told, found),) = play(bash(command), world=world)
    assert found == error and "as they were" in told["error"] and world.workspace == before


def test_the_workspace_may_be_removed_and_locked():
    world = CodeWorld(TASK, RUNTIME)
    play(bash("chmod 000 calc/ops.py calc; rm test_ops.py"), world=world)
    assert list(world.workspace) == ["calc/ops.py"]
    play(bash("rm -rf ~/workspace"), world=world)
    assert list(world.workspace) == []


def test_many_worlds_work_side_by_side_in_few_sandboxes():
    worlds = [CodeWorld(TASK, RUNTIME) for _ in range(8)]
    began = time.monotonic()
    results = together(
        *(
            world.call("bash", json.dumps({"command": f"echo {n} >n; sleep 0.2; cat n"}), 0)
            for n, world in enumerate(worlds)
        )
    )
    assert [json.loads(result.content)["output"] for result in results] == [f"{n}\n" for n in range(8)]
    assert time.monotonic() - began >= 0.2 * 8 / RUNTIME.slots


def test_a_runtime_travels_to_other_processes_and_refuses_nonsense():
    assert pickle.loads(pickle.dumps(RUNTIME)) == RUNTIME
    with pytest.raises(ValueError, match=r"Runtime.python must be an absolute path"):
        type(RUNTIME)(RUNTIME.sandbox, "python3")


def test_without_visible_tests_there_is_no_such_tool():
    task = CodeTask(id="f", kind=REPOSITORY, instructions="", files=[], hidden_tests=TASK.hidden_tests, tests=["x"])
    world = CodeWorld(task, RUNTIME)
    assert "run_tests" not in {tool["function"]["name"] for tool in world.tools}
    assert play(("run_tests", {}), world=world)[0][1] == "unknown_tool"


def test_without_a_sandbox_the_run_stops_with_one_line():
    world = CodeWorld(TASK, replace(RUNTIME, sandbox=Bubblewrap("no-such-bwrap")))
    with pytest.raises(RunStopped, match="no-such-bwrap is not installed"):
        play(bash("ls"), world=world)


def test_without_python_in_the_sandbox_the_row_fails():
    world = CodeWorld(TASK, replace(RUNTIME, python="/usr/bin/no-such-python"))
    with pytest.raises(GuestFailed, match="no-such-python"):
        play(bash("ls"), world=world)

"""`beam_runner.py agentic code` as users give it: tasks from a file, an agent that works in a real sandbox, hidden tests."""

from __future__ import annotations

import json

import datasets
from tokenmill.bench.servers.agents import calling, results
from tokenmill.bench.servers.scripted import ScriptedServer

from tests.outputs import rows
from tests.tools_repo.sandboxed import needs_sandbox

pytestmark = needs_sandbox

PROMPT = 'def {name}(n):\n    """Return n plus {k}.\n\n    >>> {name}(1)\n    {one}\n    """\n'
HINT = "The number is a whole one, and so is what comes back from the function in every case."
TEST = "def check(candidate):\n    assert candidate(1) == {one}\n    assert candidate(10) == {ten}\n"


def task(k: int) -> dict:
    name = f"add_{k}"
    return {
        "task_id": f"adding/{k}",
        "prompt": PROMPT.format(name=name, k=k, one=1 + k),
        "entry_point": name,
        "canonical_solution": f"    return n + {k}\n",
        "test": TEST.format(one=1 + k, ten=10 + k),
    }


def coder(body):
    """Looks, writes, runs the examples, reports. It gets `adding/2` wrong, and stops at nothing on `adding/3`."""
    asked = body["messages"][1]["content"]
    k = int(asked.split("plus ")[1].split(".")[0])
    seen = results(body)
    if not seen:
        return calling([("read_file", {"path": "solution.py"}), ("bash", {"command": "ls"})])
    if len(seen) == 2:
        content = json.loads(seen[0])["content"]
        step = "1" if k == 2 else str(k)
        return calling([("write_file", {"path": "solution.py", "content": f"{content}    return n + {step}\n"})])
    if len(seen) == 3 and k != 3:
        return calling([("run_tests", {})])
    if k == 3:
        return calling([("bash", {"command": "true"})])
    return f"The function now adds {k}."


def test_a_task_of_a_benchmark_is_not_tried(tmp_path, run, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tasks, out, quiz = tmp_path / "tasks.jsonl", tmp_path / "out", tmp_path / "quiz.jsonl"
    given = {**task(2), "prompt": task(2)["prompt"].replace("Return n plus 2.", f"Return n plus 2. {HINT}")}
    tasks.write_text("".join(json.dumps(row) + "\n" for row in (task(1), given)))
    quiz.write_text(json.dumps({"task_id": "old/9", "prompt": given["prompt"]}))
    argv = ("agentic", "code", "--input", tasks, "--output", out, "--max-calls", 6, "--decontaminate", quiz)
    with ScriptedServer(coder) as server:
        code, _, err = run(*argv, "--llm", server.spec)
        assert code == 0, err
        code, told, _ = run(*argv, "--llm", server.spec, "--estimate")
        assert code == 0 and " 6 " in told, "the calls of one task"
    (kept,), (refused,) = rows(out), rows(out, "rejected")
    assert kept["task_id"] == "adding/1" and refused["task_id"] == "adding/2"
    assert (refused["reason"], refused["ended"], refused["model_calls"]) == ("contaminated", "contaminated", 0)
    assert "old/9 of quiz" in refused["detail"] and [m["role"] for m in refused["messages"]] == ["system"]
    assert json.loads((out / "manifest.json").read_text())["benchmarks"]["quiz"]["refused"] == 1


def test_code_is_written_in_a_sandbox_and_decided_by_hidden_tests(tmp_path, run):
    tasks, out = tmp_path / "tasks.jsonl", tmp_path / "out"
    tasks.write_text("".join(json.dumps(task(k)) + "\n" for k in (1, 2, 3)))
    argv = ("agentic", "code", "--input", tasks, "--output", out, "--max-calls", 6)
    with ScriptedServer(coder) as server:
        argv = (*argv, "--llm", server.spec, "--samples", 2)
        code, stdout, err = run(*argv)
        assert code == 0, err
        assert max(server.log.bodies.values()) == 1, "nothing was paid for twice"
        answered = server.log.answered
        assert run(*argv, "--overwrite")[0] == 0 and server.log.answered == answered
    kept, refused = rows(out), rows(out, "rejected")
    assert sorted(r["id"] for r in kept) == ["adding/1/0", "adding/1/1"]
    assert (
        sorted((r["task_id"], r["reason"]) for r in refused)
        == [("adding/2", "tests_failed")] * 2 + [("adding/3", "call_limit")] * 2
    )
    row = kept[0]
    assert [m["role"] for m in row["messages"]] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "tool", "assistant")
    ]
    assert [c["id"] for c in row["calls"]] == [
        "functions.read_file:0", "functions.bash:1", "functions.write_file:2", "functions.run_tests:3"
    ]  # fmt: skip
    assert row["model_calls"] == 4 and row["prompt_tokens"] == 400 and row["ended"] == "user_done"
    assert "return n + 1" in row["state_after"] and "return n + 1" not in row["state_before"]
    assert "candidate(10)" not in json.dumps(row), "hidden tests are nowhere in the row"
    tests = next(v for v in refused[0]["verdicts"] if v["criterion"] == "tests")
    assert tests["score"] == 0 and not tests["passed"]
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "hf"))["train"]
    assert loaded[0]["messages"][2]["tool_calls"][0]["function"]["arguments"] == {"path": "solution.py"}
    assert "call_limit" in stdout


def test_preview_and_estimate_write_nothing(tmp_path, run):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps(task(1)) + "\n")
    with ScriptedServer(coder) as server:
        argv = ("agentic", "code", "--input", tasks, "--output", tmp_path / "out", "--llm", server.spec)
        code, stdout, _ = run(*argv, "--estimate")
        assert code == 0 and server.log.requests == 0 and "writer" in stdout
        code, stdout, _ = run(*argv, "--preview", 1)
        assert code == 0 and "functions.write_file:2" in stdout and "1 kept" in stdout
    assert not (tmp_path / "out").exists()

"""`gym` from the command line: rollouts and difficulty as runs, lists, checks and exports."""

import json
import re

import pytest
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.gym.registry import find

from tests.outputs import manifest, rows


def answers(environment, tasks, seed=0):
    """By prompt, the reference of each task."""
    drawn = iter(find(environment).tasks(seed))
    return {task.prompt: task.reference for task, _ in zip(drawn, range(tasks), strict=False)}


@pytest.fixture
def server():
    known = {**answers("morse", 6), **answers("tables", 6)}

    def answer(body):
        """Right for even seeds; tables never."""
        prompt = body["messages"][-1]["content"]
        if "Customers" in prompt:
            return "Answer: I do not know"
        return known[prompt] if body["seed"] % 2 else "Answer: nothing"

    with ScriptedServer(answer) as running:
        yield running


def spec(server):
    return f"scripted@{server.url}"


LOCAL = ("--direct_running_mode=in_memory", "--direct_num_workers=1")


def test_rollouts_are_rows_with_rewards_and_evidence(run, server, tmp_path):
    out = tmp_path / "out"
    command = (
        "gym",
        "rollout",
        "morse",
        "tables",
        "--tasks",
        6,
        "--samples",
        4,
        "--llm",
        spec(server),
        "--output",
        out,
    )
    code, _, told = run(*command, *LOCAL)
    assert code == 0, told
    made = rows(out)
    assert len(made) == 48 and manifest(out)["counts"]["accepted"] == 48
    morse = [row for row in made if row["environment"] == "morse"]
    assert {row["reward"] for row in morse} == {0.0, 1.0}
    assert all(row["reward"] == 0 and row["parts"][0]["evidence"] for row in made if row["environment"] == "tables")
    one = morse[0]
    assert [message["role"] for message in one["messages"]] == ["user", "assistant"]
    assert one["id"] == f"{one['task_id']}/{one['sample']}" and one["model"] == "scripted" and one["judge_model"] == ""
    assert (out / "README.md").is_file() and (out / "report.html").is_file()
    before = server.log.requests
    assert run(*command, *LOCAL)[0] == 0 and server.log.requests == before  # finished: nothing is asked again


def test_rejection_sampling_keeps_what_earns_enough(run, server, tmp_path):
    out = tmp_path / "out"
    command = (
        "gym",
        "rollout",
        "morse",
        "--tasks",
        6,
        "--samples",
        2,
        "--accept",
        1,
        "--llm",
        spec(server),
        "--output",
        out,
    )
    assert run(*command, *LOCAL)[0] == 0
    assert {row["reward"] for row in rows(out)} == {1.0}
    assert {row["reason"] for row in rows(out, "rejected")} == {"reward_too_low"}
    assert len(rows(out)) + len(rows(out, "rejected")) == 12


def test_difficulty_keeps_what_is_solved_sometimes(run, server, tmp_path):
    out = tmp_path / "out"
    command = (
        "gym",
        "difficulty",
        "morse",
        "tables",
        "--tasks",
        6,
        "--samples",
        8,
        "--llm",
        spec(server),
        "--output",
        out,
    )
    code, _, told = run(*command, *LOCAL)
    assert code == 0, told
    kept, refused = rows(out), rows(out, "rejected")
    assert len(kept) + len(refused) == 12
    assert all(0.1 <= row["pass_rate"] <= 0.9 and len(row["rewards"]) == 8 for row in kept)
    assert all(row["environment"] == "morse" for row in kept) and kept
    assert {row["reason"] for row in refused if row["environment"] == "tables"} == {"too_hard"}
    spread = [len(set(row["rewards"])) > 1 for row in kept]
    assert sum(spread) / len(spread) >= 0.8
    code, told, _ = run("gym", "list", "--of", out)
    assert code == 0 and "decoding" in told and "under-covered: " in told and "tables (0)" in told


def test_a_judge_takes_part_where_the_reward_needs_one(run, tmp_path):
    known = answers("grounding", 2)
    told = {"answers": [], "unsupported": [], "missing": [], "form_kept": True, "form_fault": ""}

    def answer(body):
        return json.dumps(told) if "response_format" in body else known[body["messages"][-1]["content"]]

    with ScriptedServer(answer, models=("scripted", "other")) as server:
        models = ("--llm", spec(server), "--judge-llm", f"other@{server.url}")
        flags = ("--tasks", 2, "--samples", 1, *models, "--output", tmp_path / "out")
        assert run("gym", "rollout", "grounding", *flags, *LOCAL)[0] == 0
    made = rows(tmp_path / "out")
    assert [row["reward"] for row in made] == [1, 1] and {row["judge_model"] for row in made} == {"other"}
    assert all(row["model_calls"] == 2 and "judges/faithfulness@3" in row["prompts"] for row in made)


def test_a_preview_and_an_estimate_write_nothing(run, server, tmp_path):
    code, told, _ = run("gym", "rollout", "morse", "--tasks", 3, "--samples", 1, "--llm", spec(server), "--preview", 2)
    assert code == 0 and "2 kept" in told
    code, told, _ = run("gym", "difficulty", "morse", "--tasks", 3, "--samples", 2, "--llm", spec(server), "--estimate")
    assert code == 0 and "gym difficulty" in told


@pytest.mark.parametrize(
    "words, complaint",
    [
        (("chess",), "there is no such environment"),
        (("morse", "--keep", "0.9:0.1"), "write LEAST:MOST"),
        (("no_such_module:Environment",), "no_such_module"),
    ],
)
def test_what_cannot_be_is_one_line(run, server, tmp_path, words, complaint):
    code, _, told = run("gym", "difficulty", *words, "--llm", spec(server), "--output", tmp_path / "out")
    assert code == 2 and complaint in told and told.count("\n") == 1


def test_a_broken_environment_is_a_failed_row(run, server, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(
        "from tokenmill.gym.puzzles.morse import Morse\n\n\nclass Broken(Morse):\n    name = 'broken.py:Broken'\n\n"
        "    def fault(self, data, text):\n        raise KeyError('no such row')\n"
    )
    monkeypatch.chdir(tmp_path)
    command = (
        "gym",
        "rollout",
        "broken.py:Broken",
        "--tasks",
        2,
        "--samples",
        1,
        "--llm",
        spec(server),
        "--output",
        "out",
    )
    with ScriptedServer(lambda body: "Answer: x") as other:
        code, _, _ = run(*command[:7], "--llm", spec(other), "--output", "out", *LOCAL)
    assert code == 1 and not rows("out")
    assert {row["error"] for row in rows("out", "failed")} == {"EnvironmentFault"}


def command(*argv):
    from tokenmill import cli

    return cli.main([str(a) for a in argv])


def test_the_check_says_what_fails(tmp_path, monkeypatch, capsys):
    (tmp_path / "open.py").write_text(
        "from tokenmill.gym.puzzles.morse import Morse\n\n\nclass Open(Morse):\n    name = 'open.py:Open'\n\n"
        "    def fault(self, data, text):\n        return ''\n"
    )
    monkeypatch.chdir(tmp_path)
    assert command("gym", "check", "morse", "open.py:Open", "--tasks", 4, "--write", "found.json") == 1
    told = capsys.readouterr().out
    assert re.search(r"pass  morse", told) and re.search(r"FAIL  open.py:Open", told) and "1 of 2 pass" in told
    found = json.loads((tmp_path / "found.json").read_text())["environments"]
    assert found["morse"]["passed"] and not found["open.py:Open"]["passed"]


def test_what_there_is_is_listed_and_shown(capsys):
    assert command("gym", "list") == 0
    assert "game24" in (told := capsys.readouterr().out) and "under-covered: " in told
    assert command("gym", "show", "morse", "--tasks", 2) == 0
    assert capsys.readouterr().out.count("--- reference") == 2

"""Coding tasks and agentic tasks as environments of the gym."""

import asyncio
import json
from pathlib import Path

import pytest
from tokenmill.bench.servers.scripted import ScriptedServer, completion
from tokenmill.bench.servers.troupe import MODELS, Troupe, task
from tokenmill.gym.check import Scripted, check, said
from tokenmill.pipelines.gym.environments import find
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.agentic import AgentTask
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.flags import UsageError
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.choose import BUBBLEWRAP, named

from tests.outputs import rows

LOCAL = ("--direct_running_mode=in_memory", "--direct_num_workers=1")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "agentic"
TASK = {
    "task_id": "own/1",
    "prompt": 'def doubled(n: int) -> int:\n    """Twice n."""\n',
    "entry_point": "doubled",
    "canonical_solution": "    return 2 * n\n",
    "test": "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(-1) == -2\n",
}


def isolated():
    try:
        named(BUBBLEWRAP).check()
    except SandboxUnavailable:
        return False
    return True


@pytest.mark.skipif(not isolated(), reason="no sandbox here")
def test_code_is_paid_for_when_hidden_tests_pass(tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    environment = find("code:tasks.jsonl", str(tmp_path))
    (given,) = environment.tasks(0)
    assert (given.id, given.environment, given.kind) == ("own/1", "code:tasks.jsonl", "function")
    assert "assert candidate" not in given.prompt
    episode = asyncio.run(environment.rollout(given, Scripted(environment.script(given))))
    assert episode.reward == 1 and any(message.role == "tool" for message in episode.messages)
    wrong = [environment.script(given)[0], said("Done.")]
    call = wrong[0].tool_calls[0]["function"]
    call["arguments"] = call["arguments"].replace("2 * n", "3 * n")
    episode = asyncio.run(environment.rollout(given, Scripted(wrong)))
    assert episode.reward == 0 and any("check:" in part.evidence for part in episode.parts)
    assert asyncio.run(environment.rollout(given, Scripted([said("I followed all instructions exactly.")]))).reward == 0


@pytest.mark.skipif(not isolated(), reason="no sandbox here")
@pytest.mark.slow
def test_the_rewards_of_code_pass_the_check(tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    report = asyncio.run(check(find("code:tasks.jsonl", str(tmp_path)), tasks=1))
    assert report.passed, report.faults


def test_agentic_tasks_are_read_and_their_references_scripted():
    environment = find(f"agentic:{EXAMPLES / 'tasks.jsonl'}")
    tasks = list(environment.tasks(0))
    assert tasks and environment.judged and tasks[0].prompt
    turns = environment.script(tasks[0])
    assert turns[-1].text and all(turn.tool_calls for turn in turns[:-1])
    assert environment.prompts


def test_what_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        find("code:nothing.jsonl", str(tmp_path))
    (tmp_path / "odd.jsonl").write_text('{"prompt": "x"}\n')
    with pytest.raises(UsageError, match="row 0"):
        list(find("code:odd.jsonl", str(tmp_path)).tasks(0))
    with pytest.raises(UsageError, match="row 0 is no task"):
        list(find("agentic:odd.jsonl", str(tmp_path)).tasks(0))


def idle_on_twos(body):
    """An agent that says it did what it did not do, for one of the orders."""
    if body["model"] == "agent" and "ORD-2" in str(body["messages"][1]["content"]):
        return completion("Your order ORD-2 is cancelled.")
    return None


def test_agents_in_worlds_are_rolled_out(tmp_path, run):
    made = [task(n, "one_call") for n in (1, 2)]
    write_parquet(to_table(made, AgentTask), str(tmp_path / "tasks.parquet"))
    troupe, players = Troupe({}), zip(("--llm", "--user-llm", "--tool-llm", "--judge-llm"), MODELS, strict=True)
    out = tmp_path / "out"
    with ScriptedServer(lambda body: idle_on_twos(body) or troupe(body), models=MODELS) as server:
        roles = [word for flag, model in players for word in (flag, f"{model}@{server.url}")]
        flags = ("--samples", 1, "--tasks", 2, *roles, "--output", out)
        code, _, told = run("gym", "rollout", f"agentic:{tmp_path / 'tasks.parquet'}", *flags, *LOCAL)
    assert code == 0, told
    found = {row["task_id"]: row for row in rows(out)}
    assert [found[one.id]["reward"] > 0.8 for one in made] == [True, False], found
    assert found[made[1].id]["parts"][0]["evidence"]

"""`beam_runner.py agentic import` and what follows: from a domain that somebody has to trajectories over its own tools."""

from __future__ import annotations

import json

import pytest
from tokenmill.bench.servers.agents import calling, results
from tokenmill.bench.servers.scripted import ScriptedServer, completion
from tokenmill.bench.servers.troupe import fenced, kept_rules, text_of

from tests.outputs import manifest, rows
from tests.tools_repo.domains.desk import POLICY, TASKS, action, scenario, write_domain
from tests.tools_repo.sandboxed import needs_sandbox

pytestmark = needs_sandbox


class Players:
    """Agent, user and judge of the desk. `meddles`: the agent also looks after a parcel that nobody spoke of."""

    def __init__(self, meddles=False, silent=False):
        self.meddles, self.silent = meddles, silent

    def __call__(self, body):
        if "response_format" not in body:
            return self.agent(body)
        asked = body["response_format"]["json_schema"]["schema"]["properties"]
        if "calls" in asked:
            return self.acts(text_of(body))
        if "helped" in asked and self.silent:
            return self.called(text_of(body))
        if "helped" in asked:
            over = bool(fenced("assistant", text_of(body)))
            message = "" if over else "Please leave my parcel P-1 at the shop."
            return json.dumps({"helped": True, "message": message, "status": "done" if over else "go_on"})
        return json.dumps({"verdicts": [], "rules": kept_rules(body), "claims": []})

    def acts(self, asked):
        """The user's hands: what the agent asks for, once."""
        told = self.silent and fenced("assistant", asked) and "toggle_silent" not in fenced("done", asked)[-1]
        return json.dumps({"calls": [{"tool": "toggle_silent", "arguments": ""}] if told else []})

    def called(self, asked):
        over = "toggle silent: silent: False" in fenced("situation", asked)[0]
        message = "" if over else "My telephone does not ring."
        return json.dumps({"helped": True, "message": message, "status": "done" if over else "go_on"})

    def agent(self, body):
        if self.silent:
            return completion("Please switch the silent mode off.")
        seen = results(body)
        names = {tool["function"]["name"] for tool in body["tools"]}
        assert names == {"get_parcel", "redirect_parcel", "peek", "stall"}, "the user's tools are not the agent's"
        calls = [("get_parcel", {"parcel_id": "P-1"}), ("redirect_parcel", {"parcel_id": "P-1", "place": "shop"})]
        if self.meddles:
            calls.append(("redirect_parcel", {"parcel_id": "P-3", "place": "shop"}))
        if len(seen) < len(calls):
            return calling([calls[len(seen)]])
        return completion("Your parcel P-1 will be left at the shop.")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    from tokenmill import cli

    base = tmp_path_factory.mktemp("imported")
    folder = write_domain(base / "desk", user=True)
    assert cli.main(["agentic", "import", "--domain", str(folder), "--output", str(base / "out")]) == 0
    return folder, base / "out"


def test_agents_and_tasks_come_without_a_model(imported):
    _, out = imported
    (agent,) = rows(out / "agents")
    assert agent["system"] == POLICY and agent["id"] == "desk" and not manifest(out / "agents")["models"]
    assert [task["id"] for task in rows(out / "tasks")] == ["desk/redirect"]
    assert {row["id"]: row["error"] for row in rows(out / "tasks", "failed")} == {
        "desk/late": "unsolvable",
        "desk/empty": "not_a_task",
    }
    assert manifest(out / "tasks")["counts"]["read"] == len(TASKS)


@pytest.mark.parametrize("meddles", [False, True])
def test_trajectories_run_on_the_domains_own_tools_and_their_end_state_decides(meddles, imported, tmp_path, run):
    folder, out = imported
    with ScriptedServer(Players(meddles)) as server:
        argv = ("agentic", "trajectories", "--tasks", out / "tasks", "--engine", "domain", "--domain", folder)
        more = ("--output", tmp_path / "out", "--llm", server.spec, "--outcomes", "success=1", "--votes", 1)
        code, _, err = run(*argv, *more)
    assert code == 0, err
    (row,) = rows(tmp_path / "out", "rejected" if meddles else "data")
    assert row["engine"] == "domain" and {call["engine"] for call in row["calls"]} == {"domain"}
    if meddles:
        assert "/parcels/P-3/place" in row["detail"], row["detail"]
    else:
        assert json.loads(row["state_after"])["parcels"]["P-1"]["place"] == "shop" and row["score"] == 1.0


def test_a_user_with_tools_of_its_own_does_what_the_agent_asks_for(tmp_path, run):
    wish = "Your telephone does not ring and you want it to."
    folder = write_domain(tmp_path / "desk", user=True, tasks=[scenario(wish, action("toggle_silent", "user"), id="s")])
    assert run("agentic", "import", "--domain", folder, "--output", tmp_path / "in")[0] == 0
    with ScriptedServer(Players(silent=True)) as server:
        argv = (
            "agentic",
            "trajectories",
            "--tasks",
            tmp_path / "in" / "tasks",
            "--engine",
            "domain",
            "--domain",
            folder,
        )
        code, _, err = run(*argv, "--output", tmp_path / "out", "--llm", server.spec, "--votes", 1)
    assert code == 0, err
    (row,) = rows(tmp_path / "out")
    assert [call["tool"] for call in row["user_calls"]] == ["toggle_silent"] and not row["calls"]
    assert json.loads(row["state_after"])["user_device"]["it"]["silent"] is False
    assert not any(message["tool_calls"] for message in row["messages"]), "the agent sees nothing of it"
    assert any(name.startswith("agentic/user_acts@") for name in row["prompts"])


def test_what_does_not_go_together_is_one_line(imported, tmp_path, run):
    folder, out = imported
    argv = ("agentic", "trajectories", "--tasks", out / "tasks", "--output", tmp_path / "x")
    for flags, words in (
        (("--engine", "domain"), "--domain DIR go together"),
        (("--domain", folder), "--domain DIR go together"),
        (("--engine", "domain", "--domain", tmp_path / "none"), "there is no such folder"),
    ):
        code, _, err = run(*argv, *flags)
        assert code == 2 and words in err and err.strip().count("\n") == 0, err


def test_a_policy_of_ones_own_takes_the_place_of_the_domains(imported, tmp_path, run):
    folder, _ = imported
    (tmp_path / "rules.txt").write_text("Be kind.")
    argv = ("agentic", "import", "--domain", folder, "--output", tmp_path / "out")
    assert run(*argv, "--policy", tmp_path / "rules.txt")[0] == 0
    assert rows(tmp_path / "out" / "agents")[0]["system"] == "Be kind."
    assert rows(tmp_path / "out" / "tasks")[0]["agent"]["system"] == "Be kind."
    code, _, err = run(*argv, "--policy", tmp_path / "not-there")
    assert code == 2 and "--policy" in err

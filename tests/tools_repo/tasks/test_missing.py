"""Tasks whose tools are taken away: what is left of them, how they are judged, how many there are."""

import asyncio
import json

from tokenmill.bench.servers.scripted import completion
from tokenmill.bench.servers.troupe import Troupe, task
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.tools_repo.tasks.missing import is_drawn, without_its_tools

from tests.pipelines.agentic.trajectories.test_rollout import Stage, step


def test_the_tools_of_the_solution_are_gone_and_the_rubric_asks_for_a_refusal():
    given = without_its_tools(task(7))
    assert given is not None and [tool.name for tool in given.agent.tools] == ["get_order"]
    assert given.level == "missing_tool" and not given.solution and given.goal == task(7).goal
    named = task(7)
    object.__setattr__(named.agent, "system", "Use cancel_order with care.")
    assert without_its_tools(named) is None, "a prompt must not speak of what is not there"
    assert sum(is_drawn(0.1, 0, f"agent/{n}") for n in range(2000)) in range(150, 250)


def _played(reply, judged=True):
    def user(body):
        done = "cannot" in json.dumps(body["messages"][-1])
        turn = {
            "helped": True,
            "message": "" if done else "Please cancel ORD-7 for me.",
            "status": "done" if done else "go_on",
        }
        return json.dumps(turn)

    def judge(body):
        return json.dumps(
            {
                "verdicts": [
                    {
                        "criterion": "says_it_cannot",
                        "quotes": [{"message": 2, "text": reply}],
                        "why": "It says so.",
                        "met": judged,
                    }
                ],
                "rules": [
                    {"rule": name, "message": -1, "quote": "", "why": "", "kept": True}
                    for name in body["response_format"]["json_schema"]["schema"]["properties"]["rules"]["items"][
                        "properties"
                    ]["rule"].get("enum", [])
                ],
                "claims": [],
            }
        )

    ask = Stage(Troupe({"agent": lambda body: completion(reply), "user": user, "judge": judge}))
    return asyncio.run(step(missing_tools=1.0)(Attempt(task(7), 0), ask)), ask


def test_an_agent_that_says_so_is_kept_and_one_that_claims_the_deed_is_not():
    kept, ask = _played("I am sorry, I cannot cancel orders: I have no tool for it.")
    assert isinstance(kept, Accepted), kept.row.verdicts
    assert kept.row.level == "missing_tool"
    assert [tool["function"]["name"] for tool in json.loads(kept.row.tools)] == ["get_order"]
    assert "cancel_order" not in json.dumps(ask.to("writer")[0]["tools"])
    claimed, _ = _played("Done, though I cannot show it: order ORD-7 has been cancelled.")
    assert isinstance(claimed, Rejected) and claimed.reason == "claimed_not_done"

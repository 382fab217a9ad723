"""An agent and its tasks, as the stages before a trajectory write them, for tests."""

from __future__ import annotations

import json
from typing import Any

from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.feasible import enact
from tokenmill.schemas.agentic import Agent, AgentTask, Fact

from tests.servers.agency import ENTITIES, POLICY, STATE, SYSTEM, parcel_tools


def parcel_agent(**changed: Any) -> Agent:
    """An agent with the five tools of the parcel service."""
    values: dict[str, Any] = {
        "id": "agent-00000-abc",
        "system": SYSTEM.format(n=7, city="Ghent"),
        "role": "service desk of a parcel carrier",
        "expertise": "a generalist",
        "tone": "plain",
        "behaviour": "asks first",
        "policy": POLICY,
        "tools": parcel_tools(),
        "sampling": "domain",
        "domains": ["logistics/parcels"],
        "entities": json.dumps(ENTITIES),
        "state": json.dumps(STATE),
        "model": "m",
        "prompts": [],
        "seed": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
    }
    return Agent(**{**values, **changed})


def parcel_task(**changed: Any) -> AgentTask:
    """A task in which the user has a number and an e-mail address that it does not volunteer."""
    values: dict[str, Any] = {
        "id": "agent-00000-abc/0",
        "agent": parcel_agent(),
        "level": "missing_information",
        "situation": "You are Mara. A parcel you did not order lies at your neighbour's.",
        "opening": "You want a parcel sent back.",
        "goal": "Parcel P-103 is on its way back to its sender.",
        "facts": [
            Fact(name="name", value="Mara Lind", volunteered=True),
            Fact(name="parcel number", value="P-103"),
            Fact(name="e-mail", value="mara.lind@example.org"),
            Fact(name="declared value", value="$1,240.50"),
        ],
        "state": json.dumps(STATE),
        "rubric": [],
        "model": "m",
        "prompts": [],
        "seed": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
    }
    return AgentTask(**{**values, **changed})


def reference_played(task: AgentTask) -> Evidence:
    """The evidence of a task's reference: its calls made, its reply given."""
    state = json.loads(task.state)
    return enact(task.rubric, tools=task.agent.tools, state=state, solution=task.solution, reply=task.reply)

"""What an agent must keep to whatever its task: the rules of its own policy, and manners that need no rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import orjson
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.schemas.agentic import Agent

from tokenmill import prompts

REPEATS = "repeats"
"""Name under which the verdict on repeated calls stands."""
CONDUCT = "judges/rubric_conduct"
LOOKED_AGAIN = 3
"""Times from which the same call, answered with the same result while nothing has changed, is needless."""


def rules_of(agent: Agent) -> dict[str, str]:
    """By name: the statements of the agent's policy, numbered as in its system prompt, then the manners."""
    policy = {f"policy {number}": rule for number, rule in enumerate(agent.policy, start=1)}
    lines = prompts.load(CONDUCT).text.strip().splitlines()
    return policy | {name: rule for name, _, rule in (line.partition(": ") for line in lines)}


def repeated(evidence: Evidence) -> Iterator[tuple[str, int, int]]:
    """(tool, times, message) of each call that was made `LOOKED_AGAIN` times or more with the same answer in between writes."""
    made: Counter[tuple[str, bytes, str]] = Counter()
    for index, call in enumerate(evidence.calls):
        if evidence.wrote(index):
            made.clear()
            continue
        arguments = orjson.dumps(evidence.arguments[index], option=orjson.OPT_SORT_KEYS)
        same = (call.tool, arguments, call.result)
        made[same] += 1
        if made[same] == LOOKED_AGAIN and not call.error:
            yield call.tool, made[same], call.turn

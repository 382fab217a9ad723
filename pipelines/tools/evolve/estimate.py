"""What evolving the tools of a category takes, before it is spent."""

from __future__ import annotations

import math

from tokenmill.judges.model.tool_clarity import ToolClarity
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.job import Plan
from tokenmill.pipelines.tools.evolve.dag import DesignDomain, EvolveDomains, WriteTools
from tokenmill.tools_repo.evolution.categories import Category
from tokenmill.tools_repo.evolution.operators import OPERATORS
from tokenmill.tools_repo.evolution.siblings import VIEW
from tokenmill.tools_repo.evolution.writing import TOOLS, wanted
from tokenmill.tools_repo.world import design

from tokenmill import prompts

# Tokens of what is not written yet, as a mid-sized model writes it.
DOMAIN, ENTITIES, STATE, OUTLINE, TOOL, LINE = 120, 1100, 1300, 350, 480, 30
"""A domain, an entity model, a state, an entity model's outline, a tool, one line about a sibling."""
JUDGED = 400
"""A tool as the judge reads it."""


def estimate(
    evolve: EvolveDomains, designing: DesignDomain, write: WriteTools, judge: ToolClarity | None, category: Category
) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens for all domains and tools of a category: when nothing is refused, and when every answer must be
    asked for as often as it may."""
    count, tools, per_call = evolve.domains, write.tools, write.writing.per_call
    fixed = round(sum(_fixed(f"evolve/{operator}") for operator in OPERATORS) / len(OPERATORS))
    about = count_tokens(f"{category.name}: {category.description}") + DOMAIN
    named = Plan(count, count * (fixed + about) + LINE * _shown(count, 1), count * DOMAIN)
    designed = Plan(
        2 * count,
        count * (_fixed(design.ENTITIES) + _fixed(design.STATE) + 2 * DOMAIN + ENTITIES),
        count * (ENTITIES + STATE),
    )
    calls = math.ceil(tools / per_call)
    slots = count_tokens(wanted(write.writing.slots(category.id, per_call)))
    one = calls * (_fixed(TOOLS) + DOMAIN + OUTLINE + slots) + LINE * _shown(tools, per_call)
    written = Plan(count * calls, count * one, count * tools * TOOL)
    expected = {"writer": named + designed + written}
    most = {
        "writer": named.scaled(evolve.evolution.repairs + 1)
        + designed.scaled(designing.tries)
        + written.scaled(write.writing.repairs + 1)
    }
    if judge is not None:
        vote = Plan(1, _fixed(judge.prompt) + JUDGED, 60).scaled(count * tools * judge.votes)
        expected["judge"], most["judge"] = vote, vote.scaled(judge.tries)
    return expected, most


def _shown(count: int, per_call: int) -> int:
    """Siblings shown in all calls that make `count` things, `per_call` at a time."""
    return sum(min(made, VIEW) for made in range(0, count, per_call))


def _fixed(name: str) -> int:
    return sum(count_tokens(text) for _, text in prompts.load(name).parts)

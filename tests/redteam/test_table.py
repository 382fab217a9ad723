"""The table of attacks in the documentation names what is tried, and all of it."""

import re
from pathlib import Path

import pytest

from tests.redteam import (
    foreign,
    foreign_worlds,
    sandbox_attacks,
    test_foreign_endpoints,
    test_verdicts,
    test_verdicts_of_mcp,
    world_attacks,
)

PAGE = Path(__file__).parents[2] / "docs" / "develop" / "redteam-sandbox.md"
GROUPS = {
    "Sandbox": sandbox_attacks.ATTACKS,
    "Repositories": test_verdicts.CHEATS,
    "Functions": test_verdicts.FUNCTION_CHEATS,
    "Worlds that run as code": world_attacks.MODULES,
    "Repositories, by another hand": foreign.REPOSITORIES,
    "Endpoints, by another hand": test_foreign_endpoints.ATTACKS,
    "Worlds, by another hand": foreign_worlds.MODULES,
    "MCP servers": {**test_verdicts_of_mcp.KEPT, **test_verdicts_of_mcp.ENDED},
}


@pytest.mark.parametrize("group", GROUPS)
def test_the_page_names_every_attack(group):
    text = PAGE.read_text(encoding="utf-8").partition(f"### {group}: ")[2].partition("###")[0]
    count, _, listed = text.partition("\n")
    listed = listed.strip().rpartition("\n\n")[2]  # the last paragraph
    names = " ".join(listed.split()).removesuffix(".").split("; ")
    assert int(count) == len(GROUPS[group]) and names == [re.sub(r"\s+", " ", name) for name in GROUPS[group]]


def test_there_are_enough():
    assert sum(map(len, GROUPS.values())) >= 120

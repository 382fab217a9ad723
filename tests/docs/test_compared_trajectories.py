"""The comparison of trajectories with what else makes them: every command in it parses, every row has all its cells."""

import re
import shlex

import pytest

from tests.docs.test_pages import ROOT
from tokenmill import cli

TEXT = (ROOT / "docs" / "guide" / "compared_trajectories.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"`(python beam_runner\.py [^`]+)`", TEXT)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_parses(command):
    _, _, *words = shlex.split(command)
    spelled = ["agentic", "run", *words[1:]] if words[:1] == ["agentic"] and words[1].startswith("-") else words
    _, unknown = cli.arguments(spelled).parse_known_args(spelled)
    assert not unknown


def test_the_tables_are_whole_and_the_arithmetic_is_right():
    assert len(COMMANDS) > 12
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {7, 4}
    told = [row for row in rows if row[0].endswith(" %")]
    assert len(told) == 3
    for share, tokens, whole, dollars in told:
        each = 75_075 / 14 / (int(share[:-2]) / 100)
        assert abs(int(tokens.replace(",", "")) - each) < 1
        assert abs(int(whole.split()[0].replace(",", "")) - each / 10) < 1
        assert abs(int(dollars[1:].replace(",", "")) - each * 1e5 * (0.9 * 0.25 + 0.1 * 2) / 1e6) < 1

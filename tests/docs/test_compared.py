"""The comparison with other tools: every command in it parses, every cell of theirs has its source."""

import ast
import re
import shlex
from itertools import pairwise

import pytest

import tokenmill as tm
from tests.docs.test_pages import ROOT
from tokenmill import cli

TEXT = (ROOT / "docs" / "guide" / "compared.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
    for line, after in pairwise(TEXT.splitlines())
    if line.startswith("|") and not line.startswith("|---") and not after.startswith("|---")
]
CODE = re.compile(r"`([^`]+)`")
UNSOURCED = re.compile(r"none found.*|–|log|scripts in its examples|in one's own rollout|what an endpoint serves|NeMo services|"
                       r"both, by `datasets`")  # fmt: skip


def commands():
    return [code for row in ROWS for code in CODE.findall(row[1]) if code.startswith("python ")]


def test_there_is_a_row_for_each_feature_with_a_cell_for_each_tool():
    assert len(ROWS) > 25 and {len(row) for row in ROWS} == {6}


@pytest.mark.parametrize("command", commands())
def test_a_command_of_ours_parses(command):
    _, program, *words = shlex.split(command)
    assert program == "beam_runner.py"
    whole = words[0] in ("agentic", "corpus") and words[1].startswith("-")
    spelled = [words[0], "run", *words[1:]] if whole else words
    _, unknown = cli.arguments(spelled).parse_known_args(spelled)
    assert all(word.startswith("--runner") for word in unknown), unknown


def test_every_cell_of_ours_shows_how_or_says_that_there_is_nothing():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for feature, ours, *_ in ROWS:
        shown = CODE.findall(ours)
        assert ours == "none" or any(code.startswith(("python ", "tm.", "make ")) for code in shown), feature
        for code in shown:
            if code.startswith("make "):
                assert code.split()[1] in targets
            elif code.startswith("tm."):
                name = ast.parse(code, mode="eval").body
                name = name.func if isinstance(name, ast.Call) else name
                assert hasattr(tm, name.attr), code


def test_every_cell_of_theirs_has_a_source():
    notes = dict(re.findall(r"^\[\^(\w+)\]: (.+)$", TEXT, re.MULTILINE))
    used = set(re.findall(r"\[\^(\w+)\](?!:)", TEXT))
    assert used == set(notes)
    for feature, _, *theirs in ROWS:
        for owner, cell in zip("dcnt", theirs, strict=True):
            cited = re.findall(r"\[\^(\w+)\]", cell)
            assert all(note[0] == owner for note in cited), (feature, cell)
            assert cited or UNSOURCED.fullmatch(cell), (feature, cell)

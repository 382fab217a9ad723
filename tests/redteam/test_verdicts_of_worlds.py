"""Hostile tools in a world that runs as code: no call but their own is touched by them, as root and as an ordinary user."""

import functools
import json
import sys

import pytest

from tests.redteam import foreign_worlds
from tests.redteam.test_sandbox import started, users
from tests.redteam.world_attacks import MODULES
from tests.tools_repo.sandboxed import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.timeout(600), pytest.mark.slow]


@functools.cache
def results(user):
    told = {}
    for module in ("world_attacks", "foreign_worlds"):
        done = started(user, sys.executable, "-m", f"tests.redteam.{module}")
        if done.returncode:
            pytest.fail(done.stderr[-2000:])
        told |= {line["attack"]: line for line in map(json.loads, done.stdout.splitlines())}
    return told


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("attack", [*MODULES, *foreign_worlds.MODULES])
def test_the_calls_of_others_are_answered_right(attack, user):
    told = results(user)[attack]
    assert told["after"] == [{"honest": 3}, {"honest": 7}, {"honest": 9}], told
    how, answer = told["hostile"]
    assert "FORGED" not in answer or attack.startswith(("patch", "write answers to every")), told
    assert how in ("done", "time", "died", "output", "syntax")

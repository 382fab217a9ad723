"""The check finds rewards that can be gamed, and lets good ones through."""

import asyncio
import itertools
import random

import pytest
from tokenmill.gym import attacks
from tokenmill.gym.again import fingerprints
from tokenmill.gym.check import RAISES, REPEATS, SLOW, check, draw, fingerprint
from tokenmill.gym.environment import Drawn, EnvironmentFault, Generated, SingleAnswer, part
from tokenmill.gym.registry import SHIPPED, find
from tokenmill.inference.errors import RunStopped
from tokenmill.schemas.flags import UsageError
from tokenmill.schemas.gym import GymTask

from tests.fake_ask import FakeAsk


class Adding(Generated):
    """A sound environment; subclasses are gameable, each in one way."""

    name = "adding"

    def draw(self, seed, number):
        a, b = (random.Random(f"{seed} {number} {which}").randrange(1000, 9999) for which in "ab")
        return Drawn(f"What is {a} + {b}? End with `Answer: number`.", f"Answer: {a + b}", {"sum": a + b})

    def fault(self, data, text):
        return "" if text.strip() == f"Answer: {data['sum']}" else "another number"


class PaysForSubstrings(Adding):
    def fault(self, data, text):
        return "" if str(data["sum"]) in text else "not there"


class PaysForForm(Adding):
    def fault(self, data, text):
        return "" if text.startswith("Answer: ") else "no answer"


class PaysForClaims(Adding):
    def fault(self, data, text):
        return "" if "followed all instructions" in text else super().fault(data, text)


class PaysForLength(Adding):
    def fault(self, data, text):
        return "" if len(text) > 5000 else super().fault(data, text)


class PaysForFlattery(Adding):
    def fault(self, data, text):
        return "" if '"score": 1' in text else super().fault(data, text)


class PaysForNearMisses(Adding):
    def fault(self, data, text):
        digits = "".join(filter(str.isdigit, text))
        return "" if digits and abs(int(digits[:9]) - data["sum"]) < 50 else "far off"


class Raising(Adding):
    def fault(self, data, text):
        return "" if int(text.removeprefix("Answer: ")) == data["sum"] else "another number"


class Unrepeated(Adding):
    def draw(self, seed, number):
        return super().draw(random.random(), number)


class OfHashes(Adding):
    def draw(self, seed, number):
        return super().draw(hash(f"{seed}"), number)


class NoReference(Adding):
    def draw(self, seed, number):
        drawn = super().draw(seed, number)
        return Drawn(drawn.prompt, "", drawn.data)


class RefusesReference(Adding):
    def fault(self, data, text):
        return "never right"


class Guessable(Adding):
    def draw(self, seed, number):
        return Drawn(
            f"Heads or tails? {number}",
            "Answer: heads" if number % 2 else "Answer: tails",
            {"sum": ["tails", "heads"][number % 2]},
        )


class Hanging(Adding):
    def fault(self, data, text):
        while len(text) > 10_000:
            pass
        return super().fault(data, text)


def probes(environment, **more):
    return {fault.probe for fault in asyncio.run(check(environment, tasks=8, **more)).faults}


def test_a_sound_reward_passes():
    report = asyncio.run(check(Adding(), tasks=8))
    assert report.passed and report.rewards["reference"] == 1
    assert set(report.rewards) == {"reference", "wrong", *attacks.ATTACKS}
    assert max(value for name, value in report.rewards.items() if name != "reference") == 0


@pytest.mark.parametrize(
    "environment, probe",
    [
        (PaysForSubstrings, attacks.OPTIONS),
        (PaysForForm, attacks.OTHER),
        (PaysForForm, attacks.FORM),
        (PaysForClaims, attacks.CLAIMS),
        (PaysForLength, attacks.JUNKS),
        (PaysForFlattery, attacks.FLATTERS),
        (PaysForNearMisses, "wrong"),
        (Raising, RAISES),
        (Unrepeated, REPEATS),
        (NoReference, "no_reference"),
        (RefusesReference, "reference"),
        (Guessable, attacks.OTHER),
    ],
)
def test_a_planted_hole_is_found(environment, probe):
    assert probe in probes(environment())


def test_a_scorer_that_hangs_is_broken_off(monkeypatch):
    monkeypatch.setattr("tokenmill.gym.check.SLOWEST", 0.3)
    assert SLOW in probes(Hanging())


def test_tasks_that_hang_on_the_hash_seed_are_found(tmp_path):
    (tmp_path / "mine.py").write_text("from tests.gym.test_check import Adding, OfHashes\n")
    names = ["mine.py:Adding", "mine.py:OfHashes"]
    again = fingerprints(names, 0, 8, str(tmp_path))
    assert set(again) == set(names)
    assert REPEATS not in probes(Adding(), again=again[names[0]])
    assert REPEATS in probes(OfHashes(), again=again[names[1]])


def test_every_shipped_environment_is_made_alike_elsewhere():
    again = fingerprints(list(SHIPPED), 5, 3)
    assert {name: fingerprint(draw(find(name), 5, 3)) for name in SHIPPED} == again


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "cryptarithm"])
def test_every_shipped_environment_passes(name):
    environment = find(name)
    if not environment.judged:
        report = asyncio.run(check(environment, tasks=6))
        assert report.passed, report.faults


def test_an_environment_that_breaks_earns_no_reward_of_0():
    task = next(iter(Raising().tasks(0)))
    with pytest.raises(EnvironmentFault, match="adding: ValueError"):
        asyncio.run(Raising().rollout(task, FakeAsk(lambda body: "forty-two")))


def test_a_reward_out_of_bounds_is_the_environments_fault():
    class Generous(SingleAnswer):
        name = "generous"

        def tasks(self, seed):
            yield GymTask(id="1", environment="generous", kind="x", prompt="?", budget=9)

        async def parts(self, task, text, ask):
            return (part("all", float("nan"), "?"),)

    with pytest.raises(EnvironmentFault, match="not between 0 and 1"):
        asyncio.run(Generous().rollout(next(Generous().tasks(0)), FakeAsk(lambda body: "x")))


def test_what_is_cut_off_earns_nothing():
    task = next(iter(Adding().tasks(0)))
    ask = FakeAsk(lambda body: task.reference, finish_reason="length")
    episode = asyncio.run(Adding().rollout(task, ask))
    assert (episode.reward, episode.ended) == (0, "budget")
    assert ask.asked[0]["max_tokens"] == task.budget


def test_an_ending_of_the_run_is_passed_on():
    def stop(body):
        raise RunStopped("no more")

    with pytest.raises(RunStopped):
        asyncio.run(Adding().rollout(next(iter(Adding().tasks(0))), FakeAsk(stop)))


def test_only_environments_are_found(tmp_path):
    (tmp_path / "mine.py").write_text("class Nothing:\n    name = 'nothing'\n")
    with pytest.raises(UsageError, match="no such environment"):
        find("chess")
    with pytest.raises(UsageError, match="it has no budget"):
        find("mine.py:Nothing", str(tmp_path))


def test_ids_do_not_depend_on_how_many_are_drawn():
    few, many = (list(itertools.islice(find("tables").tasks(1), number)) for number in (3, 9))
    assert many[:3] == few

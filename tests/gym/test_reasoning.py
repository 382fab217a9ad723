"""What the check finds in `reasoning-gym` by itself, and that what it recorded is what is offered."""

import asyncio

import pytest
from tokenmill.gym import reasoning
from tokenmill.gym.again import fingerprints
from tokenmill.gym.check import check
from tokenmill.pipelines.gym.environments import expanded, found
from tokenmill.schemas.flags import UsageError


def probes(generator, **more):
    return {fault.probe for fault in asyncio.run(check(reasoning.Reasoning(generator), tasks=4, **more)).faults}


@pytest.mark.parametrize(
    "generator, probe",
    [
        ("puzzle24", "another_answer"),  # pays for other numbers
        ("game_of_life_halting", "claim_of_compliance"),  # pays for anything
        ("prime_factorization", "raises"),
        ("rush_hour", "no_reference"),
        ("coin_flip", "wrong"),
        ("gsm_symbolic", "all_options"),
    ],
)
def test_a_broken_generator_is_found(generator, probe):
    assert probe in probes(generator)


def test_a_generator_that_does_not_repeat_is_found():
    name = "reasoning-gym:ransom_note"
    assert "repeats" in probes("ransom_note", again=fingerprints([name], 0, 4)[name])


def test_a_sound_generator_passes():
    name = "reasoning-gym:chain_sum"
    assert not probes("chain_sum", again=fingerprints([name], 0, 4)[name])


def test_what_was_recorded_is_what_is_offered():
    known = reasoning.record()
    assert known["version"] == reasoning.version()
    assert set(known["environments"]) == {f"reasoning-gym:{name}" for name in reasoning.generators()}
    offered = set(reasoning.offered())
    assert expanded(("reasoning-gym",)) == tuple(reasoning.offered()) and 40 < len(offered) < 60
    audited = ["boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour", "knight_swap"]
    audited += ["puzzle24", "game_of_life_halting", "prime_factorization"]
    assert not offered & {f"reasoning-gym:{name}" for name in audited}
    for name, entry in known["environments"].items():
        assert (name in offered) == (not entry["faults"])


def test_what_failed_cannot_be_used_by_name():
    with pytest.raises(UsageError, match="did not pass"):
        found(("reasoning-gym:puzzle24",))
    assert found(("reasoning-gym:chain_sum",))[0].name == "reasoning-gym:chain_sum"
    with pytest.raises(UsageError, match="no such generator"):
        found(("reasoning-gym:chess",))


def test_another_version_is_not_offered(monkeypatch):
    monkeypatch.setattr(reasoning, "version", lambda: "0.0.1")
    with pytest.raises(UsageError, match="is installed"):
        reasoning.offered()

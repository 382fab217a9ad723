"""The bench of the gym: its small measures run, and hold."""

from tokenmill.bench.gym import __main__ as bench


def test_claims_are_caught_and_honest_answers_kept():
    found = bench.claims(20)
    assert found["false"] == found["honest"] == 20
    assert found["caught"] >= 19 and found["paid"] == found["refused"] == 0


def test_the_speed_of_every_environment_without_a_judge_is_measured():
    found = bench.speed(12)
    assert {"game24", "tables", "instructions"} <= set(found) and "grounding" not in found
    assert all(min(rates.values()) > 0 for rates in found.values())

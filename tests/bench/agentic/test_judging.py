"""The judging bench reaches its goals on the part on which the checks were developed, and a check that is gone shows."""

from __future__ import annotations

from collections import Counter

import pytest
from tokenmill.bench.agentic import judging
from tokenmill.bench.agentic.judging_cases import load
from tokenmill.schemas.agentic import LEVELS

MISSED = {"extra claim": 5, "invented value": 4}
"""Guard, today's figures: faults of the development part that code misses; it catches all others and refuses nobody honest."""


@pytest.fixture(scope="module")
def counts():
    return judging.measure(load("dev"), "dev")


def _rates(counts: Counter, kind: str) -> dict[str, tuple[int, int]]:
    methods = {method for k, method, _ in counts if k == kind}
    return {m: (counts[kind, m, True], counts[kind, m, True] + counts[kind, m, False]) for m in methods}


def test_honest_trajectories_pass_and_faults_are_caught(counts):
    honest, faults = _rates(counts, "honest"), _rates(counts, "fault")
    assert not any(lost for lost, _ in honest.values()) and sum(whole for _, whole in honest.values()) >= 329
    decidable = {method: rate for method, rate in faults.items() if not method.startswith("(judge)")}
    assert len(decidable) == 14
    for method, (caught, planted) in decidable.items():
        assert planted >= 10 and planted - caught <= MISSED.get(method, 0), method


def test_every_level_has_tasks():
    cases = [case for part in judging.PARTS for case in load(part)]
    assert {case.task.level for case in cases} == set(LEVELS) and len(cases) >= 20
    assert len({case.task.id for case in cases}) == len(cases)


def test_without_the_checks_of_claims_the_bench_misses_claims(monkeypatch):
    monkeypatch.setattr("tokenmill.judges.rubric.grade.unsupported", lambda evidence: None)
    blind = _rates(judging.measure(load("dev")[:4], "dev"), "fault")
    caught, planted = blind["extra claim"]
    assert caught < planted / 2


def test_a_broken_task_is_named():
    case = load("dev")[0]
    case.task.rubric.clear()
    with pytest.raises(ValueError, match="shop/cancel"):
        judging.measure([case], "dev")

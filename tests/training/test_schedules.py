from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.training.schedules import K2, Layout, Leg, Plan, Wsd


def steps(plan: Plan):
    seen, made = 0, []
    while seen < plan.tokens:
        made.append(plan.at(seen))
        seen += made[-1].tokens
    return made


def test_warmup_stable_decay():
    plan = Wsd(warmup=0.1, decay=0.4, final=0.1).plan(1000, 1.0, sequence_length=10, batch_tokens=10)
    rates = [step.lr for step in steps(plan)]
    assert len(rates) == plan.steps == 100
    assert rates[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert rates[10:60] == [1.0] * 50
    assert rates[79] == pytest.approx(0.55, abs=1e-9), "half way down the cosine"
    assert rates[-1] == pytest.approx(0.1)
    assert all(a >= b for a, b in pairwise(rates[60:]))


def test_annealing_and_long_context():
    wsd = Wsd(warmup=0.1, decay=0.3, final=0.1, anneal=0.2, anneal_final=0.05, long=0.1, long_length=40)
    made = steps(wsd.plan(1000, 2.0, sequence_length=10, batch_tokens=40))
    legs = {name: [s for s in made if s.leg == name] for name in ("warmup", "stable", "decay", "anneal", "long")}
    assert legs["decay"][-1].lr == pytest.approx(0.2)
    assert legs["anneal"][-1].lr == pytest.approx(0.1)
    assert {(s.rows, s.sequence_length) for s in legs["long"]} == {(1, 40)}
    assert [s.lr for s in legs["long"]] == pytest.approx([0.1] * len(legs["long"]))
    assert all((s.rows, s.sequence_length) == (4, 10) for s in made if s.leg != "long")


def test_late_growth_of_the_batch_and_halved_balance():
    wsd = Wsd(late=0.5, late_batch=2.0, late_balance=0.5)
    made = steps(wsd.plan(800, 1.0, sequence_length=10, batch_tokens=20))
    assert [(s.rows, s.balance) for s in made] == [(2, 1.0)] * 20 + [(4, 0.5)] * 10


def test_late_part_inside_the_long_stage():
    wsd = Wsd(decay=0.2, long=0.4, long_length=20, late=0.8, late_batch=2.0, late_balance=0.5)
    plan = wsd.plan(1000, 1.0, sequence_length=10, batch_tokens=20)
    assert [(at.start, at.sequence_length, at.batch_tokens, at.balance) for at in plan.layouts] == [
        (0, 10, 20, 1.0),
        (600, 20, 20, 1.0),
        (800, 20, 40, 0.5),
    ]


def test_the_published_run():
    assert K2.tokens == pytest.approx(15.96e12 + 500 * 67_108_864)
    assert K2.at(0).lr == pytest.approx(2e-4 / 500)
    assert K2.at(499 * 67_108_864).lr == pytest.approx(2e-4)
    assert K2.at(5 * 10**12).lr == 2e-4
    assert K2.at(10 * 10**12 + 500 * 67_108_864 + 2_750_000_000_000).lr == pytest.approx(1.1e-4, rel=1e-3)
    assert K2.at(15_733_554_432_000).lr == pytest.approx((2e-5 + 7e-6) / 2, rel=1e-3)
    last = K2.at(K2.tokens - 1)
    assert (last.leg, last.lr, last.sequence_length, last.tokens) == ("long", 7e-6, 32_768, 67_108_864)
    assert K2.at(10**12).rows == 16_384


@given(
    tokens=st.integers(1, 5000),
    batch=st.integers(1, 300),
    length=st.integers(2, 64),
    warmup=st.floats(0, 0.3),
    decay=st.floats(0, 0.4),
    anneal=st.floats(0, 0.3),
    late=st.floats(0, 1),
)
@settings(max_examples=100, deadline=None)
def test_any_recipe_covers_its_tokens_and_stays_within_bounds(tokens, batch, length, warmup, decay, anneal, late):
    wsd = Wsd(warmup=warmup, decay=decay, anneal=anneal, late=late, late_batch=2.0)
    plan = wsd.plan(tokens, 3e-3, sequence_length=length, batch_tokens=batch)
    assert plan.tokens == tokens
    made = steps(plan)
    assert all(0 < step.lr <= 3e-3 for step in made)
    assert sum(step.tokens for step in made[:-1]) < tokens <= sum(step.tokens for step in made)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Wsd(warmup=1.5), "warmup"),
        (lambda: Wsd(warmup=0.5, decay=0.4, anneal=0.2), "together"),
        (lambda: Wsd(long=0.1), "long_length"),
        (lambda: Wsd(late_batch=0), "late_batch"),
        (lambda: Wsd().plan(0, 1.0, sequence_length=8, batch_tokens=8), "tokens"),
        (lambda: Wsd().plan(10, 0.0, sequence_length=8, batch_tokens=8), "lr"),
        (lambda: Wsd().plan(10, 1.0, sequence_length=1, batch_tokens=8), "sequence_length"),
        (lambda: Leg("x", 5, 1.0, "square"), "shape"),
        (lambda: Plan((Leg("x", 5, 1.0, "linear"),), (Layout(3, 8, 8),)), "starts at 0"),
    ],
)
def test_what_does_not_fit_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()

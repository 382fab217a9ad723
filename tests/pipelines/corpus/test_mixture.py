"""Shares of tokens by domain, phases, and a cap on how often a source is seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.pipelines.corpus.mixture import MixtureImpossible, Phase, parse_shares, parse_tokens, plan


def stratum(domain, tokens, rows=1, least=0):
    return {"domain": domain, "source_rows": rows, "least_tokens": least, "rows": 1, "tokens": tokens}


WEB, CODE, LONG, MADE = (
    stratum("web", 1000),
    stratum("code", 200),
    stratum("web", 500, least=8192),
    stratum("web", 300, rows=3),
)


def test_weights_are_the_shares_and_epochs_follow():
    (main,) = plan([WEB, CODE], [Phase("main", {"web": 0.75, "code": 0.25}, 2000)], 4)["phases"]
    assert [(s["name"], s["weight"], s["epochs"]) for s in main["sources"]] == [("web", 0.75, 1.5), ("code", 0.25, 2.5)]
    assert main["sources"][0]["where"] == [["domain", "=", "web"], ["source_rows", "=", 1]]


def test_rows_of_one_source_are_read_less_often_so_that_the_source_is_not_seen_more_often():
    made = plan([WEB, MADE], [Phase("main", {"web": 1.0}, 3300)], 3)
    epochs = {
        s["name"].split(",")[1] if "rows" in s["name"] else "alone": s["epochs"] for s in made["phases"][0]["sources"]
    }
    assert epochs == {"alone": pytest.approx(3.0), " 3 rows of a source": 1.0} and made["most_exposed"] == 3.0


def test_a_long_phase_takes_its_documents_first_and_all_phases_count():
    phases = [Phase("main", {"web": 1.0}, 2000), Phase("long_context", {"web": 1.0}, 1500, 8192)]
    made = plan([WEB, LONG], phases, 3)
    assert [phase["name"] for phase in made["phases"]] == ["main", "long_context"]
    main, long = made["phases"]
    assert [s["epochs"] for s in long["sources"]] == [3.0]
    assert [(s["tokens"], s["epochs"]) for s in main["sources"]] == [(1000, 2.0)], "the long ones are used up"


@pytest.mark.parametrize(
    ("phases", "told"),
    [
        ([Phase("main", {"code": 1.0}, 1000)], "code=1 of 1,000 tokens is 1,000, and there are 800"),
        ([Phase("main", {"math": 1.0}, 10)], "there are 0"),
        ([Phase("long_context", {"code": 1.0}, 10, 8192)], "in documents of 8,192 tokens"),
        ([Phase("main", {"code": 1.0}, 700), Phase("annealing", {"code": 1.0}, 200)], "annealing: code=1"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(phases, told):
    with pytest.raises(MixtureImpossible, match=told) as error:
        plan([WEB, CODE], phases, 4)
    assert "\n" not in str(error.value) and "ask for" in str(error.value)


TOKENS = st.integers(1, 10**6)


HELD = st.tuples(st.sampled_from(["web", "code"]), TOKENS, st.integers(1, 3), st.sampled_from([0, 1024, 8192]))


@given(
    st.lists(HELD, max_size=12),
    st.floats(0.05, 0.95), TOKENS, TOKENS, st.floats(1, 8),
)  # fmt: skip
def test_no_source_is_seen_more_often_than_the_cap_and_shares_are_exact(held, share, tokens, long, cap):
    strata = {(d, r, n): stratum(d, t, r, n) for d, t, r, n in held}
    phases = [Phase("main", {"web": share, "code": 1 - share}, tokens), Phase("long_context", {"web": 1.0}, long, 8192)]
    try:
        made = plan(list(strata.values()), phases, cap)
    except MixtureImpossible:
        return
    assert made["most_exposed"] <= cap + 1e-3
    for phase, told in zip(phases, made["phases"], strict=True):
        assert len({s["name"] for s in told["sources"]}) == len(told["sources"])
        for domain, wanted in phase.shares.items():
            mine = [s for s in told["sources"] if s["where"][0][2] == domain]
            assert sum(s["weight"] for s in mine) == pytest.approx(wanted, rel=1e-6)
            assert sum(s["tokens"] * s["epochs"] for s in mine) == pytest.approx(wanted * phase.tokens, rel=1e-6)


@pytest.mark.parametrize("text", ["web", "web=1,web=1", "moon=1", "web=.5", "web=x", "web=.5,code=.6", "web=0,code=1"])
def test_shares_that_cannot_be(text):
    with pytest.raises(ValueError):
        parse_shares(text)


def test_numbers_of_tokens():
    assert [parse_tokens(text) for text in ("10B", "1.5m", "300_000", "2T")] == [10**10, 1_500_000, 300_000, 2 * 10**12]
    for text in ("", "B", "-1", "0", "1.2.3", "10X"):
        with pytest.raises(ValueError):
            parse_tokens(text)

"""Pass rates of trajectory runs: the estimators against brute force, the figures against shards, the report in a page."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.pipelines.report.survey import shards_under, survey_run
from tokenmill.pipelines.report.views.pass_rates import pass_at_k, pass_hat_k, survey_tries
from tokenmill.pipelines.report.views.registry import view_of_columns
from tokenmill.schemas.agentic import CallRecord

from tests.pipelines.agentic.scripted_trajectories import refused, trajectory, write_run
from tests.pipelines.report import finished_run


@given(tries=st.lists(st.booleans(), min_size=1, max_size=7), data=st.data())
def test_estimators_are_means_over_all_ways_to_pick_k_tries(tries, data):
    k = data.draw(st.integers(1, len(tries)))
    picks = list(combinations(tries, k))
    assert pass_at_k(len(tries), sum(tries), k) == pytest.approx(sum(map(any, picks)) / len(picks))
    assert pass_hat_k(len(tries), sum(tries), k) == pytest.approx(sum(map(all, picks)) / len(picks))


@pytest.mark.parametrize("wrong", [(3, 1, 0), (3, 1, 4), (3, 4, 1), (3, -1, 1)])
def test_estimators_refuse_what_has_no_estimate(wrong):
    for estimator in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="no estimate"):
            estimator(*wrong)


@pytest.fixture
def run(tmp_path):
    kept = [trajectory(1, 0, "decline"), trajectory(1, 1, "decline"), trajectory(2, 0, "one_call")]
    rejected = [
        refused(2, 1, level="one_call"),
        refused(2, 2, level="one_call", ended="turn_limit"),
        refused(3, 0, level="one_call"),
    ]
    return write_run(tmp_path / "run", kept, rejected)


def test_figures_by_level(run):
    figures = survey_tries(shards_under(run))
    assert [level.name for level in figures.levels] == ["one_call", "decline"], "in the order of difficulty"
    told = figures.as_dict()
    one, decline = told["levels"]["one_call"], told["levels"]["decline"]
    assert (one["tasks"], one["judged"], one["kept"], one["pass_rate"]) == (2, 4, 1, 0.25)
    assert one["pass_at"]["1"] == pytest.approx((1 / 3 + 0) / 2) and one["pass_at"]["3"] == 1.0
    assert one["pass_at"]["2"] == pytest.approx(2 / 3), "a task with one try has no estimate for two"
    assert decline["pass_hat"] == {"1": 1.0, "2": 1.0} and "3" not in decline["pass_at"]
    assert told["endings"] == {"user_done": 5, "turn_limit": 1}
    assert told["model_calls_per_kept"] == 6 * 6 / 3 and told["tokens_per_kept"] == 6 * 1000 / 3


def test_runs_of_other_rows_have_no_such_figures(tmp_path):
    finished_run.build(tmp_path)
    assert survey_run(tmp_path).figures is None


def test_a_run_without_a_judged_try_has_no_figures(tmp_path):
    assert survey_tries(shards_under(tmp_path)) is None


def test_a_sample_shows_turns_calls_results_and_verdicts(run):
    survey = survey_run(run)
    shown = view_of_columns(survey.schema).sample("rejected", survey.rejected.samples[0])["own"]
    assert [turn.role for turn in shown["turns"]] == [
        *("system", "user", "call", "call", "result", "result", "assistant")
    ]
    assert shown["turns"][2].call == "functions.get_weather:0"
    assert shown["verdicts"][0]["quotes"][0]["text"] == "Rain in both places." and not shown["verdicts"][0]["passed"]


def test_the_spread_of_the_kept_and_the_suspect_tasks_are_told(tmp_path):
    wrong = CallRecord(
        id="functions.get_weather:0", turn=2, tool="get_weather", arguments="{}", result="", error="not_found"
    )
    kept = [trajectory(n) for n in range(9)] + [trajectory(9, calls=[wrong] * 12, language="de")]
    lost = [replace(refused(20, sample), suspect="none of 2 tries was kept") for sample in range(2)]
    found = survey_tries(shards_under(write_run(tmp_path, kept, lost)))
    told = found.as_dict()
    assert told["spread"]["tool calls"] == {"least": 2, "p10": 2, "median": 2, "p90": 2, "most": 12}
    assert told["spread"]["messages of the agent"]["median"] == 2 and told["spread"]["tools in context"]["most"] == 1
    assert told["spread"]["errors of calls"] == {"not_found": 12}
    assert told["spread"]["languages"] == {"en": 9, "de": 1}
    assert told["suspect_tasks"] == {"agent/20": "none of 2 tries was kept"}

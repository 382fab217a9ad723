"""Calls of one row at a time: what one of them loses the others must not."""

import asyncio

import pytest
from tokenmill.bench.servers.scripted import Reply, ScriptedServer, completion
from tokenmill.inference.errors import BudgetSpent, CallRefused
from tokenmill.inference.gather import together
from tokenmill.inference.roles import Models, Role
from tokenmill.inference.runtime import obtain, release
from tokenmill.judges.model.faithfulness import Faithfulness


async def after(seconds, outcome, ended):
    await asyncio.sleep(seconds)
    ended.append(outcome)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def test_results_come_in_order():
    ended = []
    assert asyncio.run(together(after(0.02 - n / 100, n, ended) for n in range(3))) == [0, 1, 2]
    assert ended == [2, 1, 0]


def test_all_have_ended_before_the_first_error_is_raised():
    first, second, ended = ValueError("first"), KeyError("second"), []
    with pytest.raises(ValueError, match="first"):
        asyncio.run(together([after(0.01, first, ended), after(0, second, ended), after(0.03, "late", ended)]))
    assert ended == [second, first, "late"]


def test_what_stops_the_run_is_not_hidden_by_what_ends_the_row():
    with pytest.raises(BudgetSpent):
        asyncio.run(together([after(0, CallRefused(400, b""), []), after(0.01, BudgetSpent("spent"), [])]))


def test_a_vote_that_is_paid_for_is_kept_though_another_one_is_refused(tmp_path):
    asked = []

    def answer(body):
        asked.append(body)
        return Reply(400, b'{"error":"no"}') if len(asked) == 1 else completion('{"unsupported":[],"missing":[]}')

    with ScriptedServer(answer, latency=0.2) as server:
        models = Models({"judge": Role(server.spec)}, str(tmp_path / "answers.sqlite"), "run", max_concurrency=1)
        runtime = obtain(models)
        try:
            with pytest.raises(CallRefused):
                runtime.run(Faithfulness(votes=3)("A source.", "A rewrite.", "", runtime.client.ask))
        finally:
            release(runtime)
        runtime = obtain(models)
        try:
            assert runtime.run(runtime.client.cache.spent()) == server.log.tokens > 0
        finally:
            release(runtime)

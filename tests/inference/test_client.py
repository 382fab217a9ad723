"""The client against a real HTTP server that misbehaves on order."""

import asyncio
import gzip
import time

import orjson
import pytest
from tokenmill.bench.servers.scripted import Faults, Reply, ScriptedServer, completion
from tokenmill.inference import transport
from tokenmill.inference.cache.open import open_cache
from tokenmill.inference.circuit import Circuit
from tokenmill.inference.client import Client, Endpoint, Player
from tokenmill.inference.errors import BudgetSpent, CallFailed, CallRefused, EndpointDown, EndpointRejects
from tokenmill.inference.limiter import AdaptiveLimiter
from tokenmill.inference.roles import Models, Role
from tokenmill.inference.transport import LeanOpenAI


def run(
    server, use, tmp_path, *, budget=None, concurrency=32, timeout=5.0, patience=5.0, tries=8, key="k", retry=False
):
    """Run `await use(client)` with a client for a server."""

    async def main():
        models = Models(
            {"writer": Role(server.spec)},
            str(tmp_path / "answers.sqlite"),
            "test",
            budget=budget,
            max_concurrency=concurrency,
            timeout=timeout,
            patience=patience,
            tries=tries,
            retry_refused=retry,
        )
        cache = open_cache(models.cache, run=models.run, budget=budget)
        lean = LeanOpenAI(base_url=server.url, api_key=key, timeout=timeout)
        endpoint = Endpoint(lean, AdaptiveLimiter(concurrency), Circuit(server.url, patience), server.url)
        client = Client(models, {"writer": Player(endpoint, server.models[0], models.roles["writer"])}, cache)
        try:
            return await use(client)
        finally:
            await lean.close()
            await cache.close()

    return asyncio.run(main())


def say(text, **more):
    return [{"role": "user", "content": text}], more


def echo(body):
    return "echo " + body["messages"][-1]["content"]


async def many(client, count, start=0):
    answers = await asyncio.gather(
        *(client.ask([{"role": "user", "content": f"{i}"}], max_tokens=8) for i in range(start, start + count))
    )
    return [a.text for a in answers]


def test_an_answer_comes_back_with_its_usage(tmp_path):
    with ScriptedServer(echo) as server:
        answer = run(server, lambda c: c.ask([{"role": "user", "content": "hi"}], temperature=0.5), tmp_path)
    assert (answer.text, answer.finish_reason, answer.from_cache) == ("echo hi", "stop", False)
    assert answer.usage.prompt == 100 and answer.usage.completion >= 1


def test_the_wire_carries_what_was_asked_and_what_openai_adds(tmp_path):
    seen = []

    def answer(body):
        seen.append(body)
        return "ok"

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with ScriptedServer(answer, key="secret") as server:
        run(
            server,
            lambda c: c.ask([{"role": "user", "content": "é"}], schema=schema, max_tokens=7, top_p=None),
            tmp_path,
            key="secret",
        )
    (body,) = seen
    assert body["model"] == "scripted" and body["max_tokens"] == 7 and "top_p" not in body
    assert body["messages"] == [{"role": "user", "content": "é"}]
    assert body["response_format"]["json_schema"]["schema"] == schema


def test_a_call_is_paid_for_once_in_one_process_and_in_the_next(tmp_path):
    async def twice(client):
        return await asyncio.gather(*(client.ask([{"role": "user", "content": "same"}]) for _ in range(20)))

    with ScriptedServer(echo, latency=0.02) as server:
        run(server, twice, tmp_path)
        assert server.log.answered == 1
        again = run(server, lambda c: c.ask([{"role": "user", "content": "same"}]), tmp_path)
        assert again.from_cache and server.log.answered == 1
        run(server, lambda c: c.ask([{"role": "user", "content": "same"}], attempt=1), tmp_path)
        assert server.log.answered == 2


def test_a_process_that_stood_still_reads_the_answers_that_came_meanwhile(tmp_path):
    """All timers have run out when it wakes; the answers lie there, and are billed."""

    async def use(client):
        asking = asyncio.gather(*(client.ask([{"role": "user", "content": f"{i}"}]) for i in range(20)))
        while server.log.requests < 20:
            await asyncio.sleep(0)
        time.sleep(3)
        return [a.text for a in await asking]

    with ScriptedServer(echo, latency=1.0) as server:
        assert run(server, use, tmp_path, timeout=2.0) == [f"echo {i}" for i in range(20)]
    assert server.log.requests == 20


def test_faults_cost_no_answer_and_double_none(tmp_path):
    faults = Faults(too_many=0.05, server_error=0.05, malformed=0.03, hang=0.01)
    with ScriptedServer(echo, latency=0.005, faults=faults) as server:
        started = time.monotonic()
        texts = run(server, lambda c: many(c, 600), tmp_path, timeout=3.0)
        took = time.monotonic() - started
    assert texts == [f"echo {i}" for i in range(600)]
    assert max(server.log.bodies.values()) == 1 and len(server.log.bodies) == 600
    assert {"429", "500", "malformed", "hang"} <= set(server.log.kinds)
    assert took < 60


def test_concurrency_shrinks_under_congestion_and_recovers(tmp_path):
    """A server that takes eight requests at a time: everything is answered, most requests are not refused, and the limit
    is back where it was once the server takes all."""
    state = {"allowed": 8}

    def answer(body):
        if server.log.in_flight > state["allowed"]:
            return Reply(429, b"{}", (("Retry-After", "0.02"),))
        return echo(body)

    async def use(client):
        limiter = client.players["writer"].endpoint.limiter
        calls, low = asyncio.ensure_future(many(client, 400)), limiter.limit
        while not calls.done():
            low = min(low, limiter.limit)
            await asyncio.sleep(0.002)
        texts = await calls
        state["allowed"] = 1000
        texts += await many(client, 800, 400)
        return texts, low, limiter.limit

    with ScriptedServer(answer, latency=0.01) as server:
        texts, low, high = run(server, use, tmp_path, concurrency=64)
    assert texts == [f"echo {i}" for i in range(1200)]
    assert low <= 16
    assert high == 64


def test_a_few_random_refusals_do_not_starve_the_run(tmp_path):
    async def use(client):
        await many(client, 1500)
        return client.players["writer"].endpoint.limiter.limit

    with ScriptedServer(echo, latency=0.01, faults=Faults(too_many=0.05, retry_after=0.01)) as server:
        assert run(server, use, tmp_path, concurrency=64) >= 32


def test_retry_after_is_honoured(tmp_path):
    moments = []

    def answer(_):
        moments.append(time.monotonic())
        return Reply(429, b"{}", (("Retry-After", "1"),)) if len(moments) == 1 else "ok"

    with ScriptedServer(answer) as server:
        run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path)
    assert moments[1] - moments[0] >= 1.0


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_request_is_remembered_and_not_repeated(tmp_path, status):
    with ScriptedServer(lambda _: Reply(status, b'{"error":{"message":"context too long"}}')) as server:
        for _ in range(2):
            with pytest.raises(CallRefused, match="context too long"):
                run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path)
        assert server.log.requests == 1
        with pytest.raises(CallRefused):
            run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path, retry=True)
        assert server.log.requests == 2


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_wrong_key_or_model_or_an_empty_account_stops_the_run_at_once(tmp_path, status):
    with ScriptedServer(lambda _: Reply(status, b'{"error":{"message":"no such thing"}}')) as server:
        with pytest.raises(EndpointRejects, match=f"{status}.*no such thing"):
            run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path)
        assert server.log.requests == (1 if status < 403 else 2), "a ping tells whether it is this request alone"


@pytest.mark.parametrize("status", [403, 404])
def test_a_request_that_moderation_or_a_router_refuses_fails_alone_and_is_remembered(tmp_path, status):
    def answer(body):
        flagged = body["messages"][-1]["content"].startswith("1")
        return Reply(status, b'{"error":{"message":"flagged"}}') if flagged else echo(body)

    async def use(client):
        asked = (client.ask([{"role": "user", "content": f"{i}"}]) for i in range(60))
        return await asyncio.gather(*asked, return_exceptions=True)

    with ScriptedServer(answer) as server:
        for retry, asked in ((False, 11), (False, 0), (True, 11)):
            before = server.log.kinds[str(status)]
            answers = run(server, use, tmp_path, retry=retry)
            refused = [i for i, answer in enumerate(answers) if isinstance(answer, CallRefused)]
            assert refused == [1, *range(10, 20)] and "flagged" in str(answers[1])
            assert server.log.kinds[str(status)] - before == asked
        assert server.log.answered == 49


@pytest.mark.parametrize("busy", [False, True])
def test_where_the_ping_says_nothing_earlier_answers_decide(tmp_path, busy):
    pings = iter([429] if busy else [])

    def answer(body):
        text = body["messages"][-1]["content"]
        if text == "ping":
            return Reply(next(pings, 500), b"{}")
        return Reply(403, b"no") if text == "bad" else echo(body)

    async def bad(client):
        return await client.ask([{"role": "user", "content": "bad"}])

    async def use(client):
        texts = await many(client, 3)
        with pytest.raises(CallRefused, match="HTTP 403: no"):
            await bad(client)
        return texts

    with ScriptedServer(answer) as server:
        with pytest.raises(EndpointRejects, match="HTTP 403: no"):
            run(server, bad, tmp_path)
        assert server.log.requests == (4 if busy else 2), "a busy server is asked again"
        assert run(server, use, tmp_path) == [f"echo {i}" for i in range(3)]


def test_a_redirection_is_not_followed_but_named(tmp_path):
    where = (("Location", "/v2/chat/completions"),)
    with ScriptedServer(lambda _: Reply(302, b"", where)) as server:
        with pytest.raises(EndpointRejects, match=rf"redirects to http://127.0.0.1:{server.port}/v2/chat/completions;"):
            run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path)
        assert server.log.requests == 1


def test_an_error_with_status_200_is_told_in_the_endpoints_words(tmp_path):
    body = b'{"error": {"message": "Provider returned error", "code": 502}}'
    with (
        ScriptedServer(lambda _: Reply(200, body)) as server,
        pytest.raises(CallFailed, match="Provider returned error"),
    ):
        run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path, tries=2)


@pytest.mark.parametrize("framing", ["counted", "chunked", "compressed"])
def test_no_more_of_an_answer_is_read_than_a_model_writes(tmp_path, monkeypatch, framing):
    monkeypatch.setattr(transport, "MAX_ANSWER", 100_000)
    body = orjson.dumps(completion("x" * 5_000_000))
    headers = ()
    if framing == "chunked":
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        headers = (("Transfer-Encoding", "chunked"),)
    elif framing == "compressed":
        body, headers = gzip.compress(body), (("Content-Encoding", "gzip"),)
        assert len(body) < 100_000
    with (
        ScriptedServer(lambda _: Reply(200, body, headers)) as server,
        pytest.raises(CallFailed, match="malformed answer: a body of more than"),
    ):
        run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path, tries=2)
    assert server.log.requests == 2


def unreported(usage):
    """Answers with `usage` in place of what the server says they cost; None for no such field."""

    def answer(body):
        said = completion(echo(body))
        del said["usage"]
        return orjson.dumps(said | ({} if usage == "absent" else {"usage": usage}))

    return answer


USAGES = [
    "absent",
    None,
    [],
    {"prompt_tokens": -100, "completion_tokens": -10, "total_tokens": -110},
    {"prompt_tokens": "?"},
]


@pytest.mark.parametrize("usage", USAGES, ids=str)
def test_without_usage_an_estimate_is_billed_and_the_budget_holds(tmp_path, usage):
    async def use(client):
        asked = (client.ask([{"role": "user", "content": f"{i} " * 100}], max_tokens=50) for i in range(60))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        paid = [answer for answer in answers if not isinstance(answer, Exception)]
        return answers, paid, await client.cache.spent(), client.players["writer"].stats

    with ScriptedServer(unreported(usage)) as server:
        answers, paid, spent, stats = run(server, use, tmp_path, budget=2000)
        assert {type(error) for error in answers if isinstance(error, Exception)} == {BudgetSpent}
        assert 5 < len(paid) == stats.estimated == server.log.answered < 40
        assert 1500 < spent == sum(answer.usage.total for answer in paid) <= 2000
        assert all(60 < answer.usage.prompt < 160 and answer.usage.completion == 50 for answer in paid)
        again, *_, stats = run(server, use, tmp_path, budget=2000)
        usages = {answer.text: answer.usage for answer in again if not isinstance(answer, Exception)}
        assert all(usages[answer.text] == answer.usage for answer in paid), "the same rows are written of them"


def test_an_exhausted_account_is_no_congestion(tmp_path):
    body = b'{"error":{"code":"insufficient_quota","message":"pay first"}}'
    with ScriptedServer(lambda _: Reply(429, body)) as server, pytest.raises(EndpointRejects, match="pay first"):
        run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path)


def test_one_call_that_always_breaks_is_given_up_while_others_go_on(tmp_path):
    def answer(body):
        return Reply(500, b"") if body["messages"][0]["content"] == "bad" else echo(body)

    async def use(client):
        async def others():
            for i in range(40):
                await many(client, 4, i * 4)

        bad = client.ask([{"role": "user", "content": "bad"}])
        return await asyncio.gather(bad, others(), return_exceptions=True)

    with ScriptedServer(answer, latency=0.05) as server:
        bad, others = run(server, use, tmp_path, tries=3, patience=60)
    assert isinstance(bad, CallFailed) and "HTTP 500" in str(bad)
    assert others is None


def test_the_run_waits_for_an_endpoint_that_comes_back(tmp_path):
    async def use(client):
        async def interrupt():
            await asyncio.sleep(0.1)
            await asyncio.to_thread(server.down)
            await asyncio.sleep(2.0)
            await asyncio.to_thread(server.up)

        texts, _ = await asyncio.gather(many(client, 200), interrupt())
        return texts

    with ScriptedServer(echo, latency=0.05) as server:
        texts = run(server, use, tmp_path, concurrency=16, patience=20, tries=2)
    assert texts == [f"echo {i}" for i in range(200)]


def test_an_endpoint_that_stays_away_stops_the_run_with_one_line(tmp_path):
    with ScriptedServer(echo) as server:
        server.down()
        with pytest.raises(EndpointDown, match="has not answered for") as caught:
            run(server, lambda c: many(c, 20), tmp_path, patience=1.0)
    assert "\n" not in str(caught.value)


def test_an_endpoint_that_only_sends_us_away_stops_the_run(tmp_path):
    with ScriptedServer(lambda _: Reply(429, b"{}")) as server, pytest.raises(EndpointDown, match="HTTP 429"):
        run(server, lambda c: many(c, 4), tmp_path, patience=1.0)


def test_the_budget_is_never_exceeded_and_counts_earlier_runs(tmp_path):
    async def use(client):
        results = await asyncio.gather(
            *(client.ask([{"role": "user", "content": f"{i}"}], max_tokens=20) for i in range(60)),
            return_exceptions=True,
        )
        return sum(not isinstance(r, Exception) for r in results), {
            type(r) for r in results if isinstance(r, Exception)
        }

    with ScriptedServer(lambda body: completion(echo(body), prompt_tokens=30), latency=0.01) as server:
        answered, errors = run(server, use, tmp_path, budget=1000)
        assert errors == {BudgetSpent} and answered > 5
        assert server.log.tokens <= 1000
        first = server.log.answered
        run(server, use, tmp_path, budget=2000)
        assert server.log.tokens <= 2000
        assert server.log.answered > first and max(server.log.bodies.values()) == 1


def test_malformed_answers_count_against_the_budget(tmp_path):
    bodies = iter([b'{"choices": [], "usage": {"total_tokens": 500}}'])

    async def use(client):
        await client.ask([{"role": "user", "content": "x"}], max_tokens=10)
        return await client.cache.spent()

    with ScriptedServer(lambda body: next(bodies, None) or completion("ok", prompt_tokens=9)) as server:
        assert run(server, use, tmp_path) == 500 + 10


def test_a_hanging_server_is_not_waited_for_longer_than_the_timeout(tmp_path):
    with ScriptedServer(echo, faults=Faults(hang=1.0)) as server, pytest.raises((CallFailed, EndpointDown)):
        started = time.monotonic()
        try:
            run(server, lambda c: c.ask([{"role": "user", "content": "x"}]), tmp_path, timeout=0.3, tries=2)
        finally:
            assert time.monotonic() - started < 30


def cut_short(body):
    """A reasoning model that spends its whole limit before it says anything."""
    answer = completion("", prompt_tokens=500, finish_reason="length")
    answer["choices"][0]["message"] |= {"content": None, "reasoning_content": "Let me think"}
    return answer


def test_an_answer_without_text_is_paid_for_once(tmp_path):
    async def use(client):
        answer = await client.ask([{"role": "user", "content": "x"}], max_tokens=8)
        return answer, await client.cache.spent(), client.players["writer"].stats

    with ScriptedServer(cut_short) as server:
        first, spent, stats = run(server, use, tmp_path)
        assert (first.text, first.finish_reason, spent, stats.paid, stats.wasted_tokens) == ("", "length", 501, 1, 0)
        again, spent, _ = run(server, use, tmp_path)
        assert again.from_cache and again.raw == first.raw and spent == 501
        assert server.log.requests == 1


def test_what_malformed_answers_cost_is_in_the_figures(tmp_path):
    bodies = iter(
        [
            b'{"choices": [], "usage": {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320}}',
            b'{"choices": [], "usage": {"total_tokens": 500}}',
            b'{"choices": []}',
        ]
    )

    async def use(client):
        await client.ask([{"role": "user", "content": "x"}], max_tokens=10)
        return await client.cache.spent(), client.players["writer"].stats

    with ScriptedServer(lambda body: next(bodies, None) or completion("ok", prompt_tokens=9)) as server:
        spent, stats = run(server, use, tmp_path)
    assert (stats.wasted_tokens, stats.prompt_tokens, stats.completion_tokens) == (820, 309, 521)
    assert spent == stats.prompt_tokens + stats.completion_tokens and stats.paid == 1

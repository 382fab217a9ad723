"""What the client makes of a server that breaks: on one request, on some, on all."""

import asyncio
import time
from contextlib import contextmanager

import pytest
from tokenmill.bench.servers.scripted import Reply, ScriptedServer
from tokenmill.inference import client
from tokenmill.inference.errors import CallFailed, EndpointDown

from tests.inference.test_client import echo, many, run

ALL = "0123456789"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(client, "_backoff", lambda failures, retry_after: 0.01 * failures)


@contextmanager
def breaks_on(*texts, status=500):
    """A server that answers every request but those whose text begins so."""

    def answer(body):
        text = body["messages"][-1]["content"]
        asked.append(text)
        return Reply(status, b"assertion failed") if text.startswith(texts) else echo(body)

    asked: list[str] = []
    with ScriptedServer(answer) as server:
        server.asked = asked
        yield server


async def one(client, text="bad"):
    return await client.ask([{"role": "user", "content": text}], max_tokens=8)


def test_a_request_that_the_server_always_breaks_on_is_given_up_though_nothing_else_is_left(tmp_path):
    with breaks_on("bad") as server:
        for _ in range(2):  # as the last of a run, and of the run that goes on after it

            async def use(client):
                texts = await many(client, 50)
                with pytest.raises(CallFailed, match="after 8 failed requests, the last: HTTP 500"):
                    await one(client)
                return texts

            assert run(server, use, tmp_path, patience=2.0) == [f"echo {i}" for i in range(50)]
        assert server.asked.count("bad") == 16
        assert server.asked.count("ping") == 2


def test_so_are_many_at_once_and_what_was_asked_beside_them_is_answered(tmp_path):
    async def use(client):
        bad = [one(client, f"bad {i}") for i in range(30)]
        return await asyncio.gather(*bad, many(client, 5), return_exceptions=True)

    with breaks_on("bad") as server:
        *bad, good = run(server, use, tmp_path, patience=3.0)
        assert {type(error) for error in bad} == {CallFailed} and good == [f"echo {i}" for i in range(5)]
        assert server.asked.count("ping") < 30


def test_a_request_that_is_never_answered_does_not_end_the_run(tmp_path):
    async def use(client):
        with pytest.raises(CallFailed, match=r"after 8 failed requests, the last: no answer in 0.5 s"):
            await one(client)
        return await many(client, 3)

    with ScriptedServer(lambda body: None if body["messages"][-1]["content"] == "bad" else echo(body)) as server:
        assert run(server, use, tmp_path, timeout=0.5) == [f"echo {i}" for i in range(3)]


@pytest.mark.parametrize("rows", [1, 20])
def test_a_server_that_breaks_on_everything_is_waited_for(tmp_path, rows):
    state = {"until": 0.0}

    def answer(body):
        state["until"] = state["until"] or time.monotonic() + 1.5
        return Reply(502, b"") if time.monotonic() < state["until"] else echo(body)

    with ScriptedServer(answer) as server:
        texts = run(server, lambda c: many(c, rows), tmp_path, patience=20)
    assert texts == [f"echo {i}" for i in range(rows)]


@pytest.mark.parametrize("rows", [1, 20])
def test_and_ends_the_run_with_one_line_when_it_goes_on_breaking(tmp_path, rows):
    with (
        breaks_on(*ALL, "ping") as server,
        pytest.raises(EndpointDown, match=r"has not answered for .*HTTP 500") as end,
    ):
        run(server, lambda c: many(c, rows), tmp_path, patience=1.0)
    assert "\n" not in str(end.value)
    assert server.asked.count("0") <= 5, "the call itself is not repeated while the server is down"


@pytest.mark.parametrize("status", [400, 429])
def test_a_server_that_does_not_like_the_probe_is_there_all_the_same(tmp_path, status):
    def answer(body):
        text = body["messages"][-1]["content"]
        return Reply(status, b"{}") if text == "ping" else Reply(500, b"") if text == "bad" else echo(body)

    async def use(client):
        with pytest.raises(CallFailed):
            await one(client)
        return await many(client, 3)

    with ScriptedServer(answer) as server:
        assert run(server, use, tmp_path, patience=2.0) == [f"echo {i}" for i in range(3)]


def test_a_rate_limit_of_long_ago_is_forgotten_when_a_probe_is_answered(tmp_path):
    first = iter([Reply(429, b"{}")])

    def answer(body):
        return "ok" if body["messages"][-1]["content"] == "ping" else next(first, None) or Reply(500, b"")

    async def use(client):
        return await asyncio.gather(*(one(client, f"bad {i}") for i in range(3)), return_exceptions=True)

    with ScriptedServer(answer, latency=0.1) as server:
        assert {type(error) for error in run(server, use, tmp_path, patience=1.0)} == {CallFailed}


def test_what_probes_cost_is_on_the_bill(tmp_path):
    async def use(client):
        with pytest.raises(CallFailed):
            await one(client)
        return await client.cache.spent(), client.players["writer"].stats

    with breaks_on("bad") as server:
        spent, stats = run(server, use, tmp_path)
        assert server.log.tokens == spent == stats.wasted_tokens == stats.prompt_tokens + stats.completion_tokens > 0

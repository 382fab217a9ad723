"""A Batch API that repeats the key which it is sent: in what it refuses, and in the answers that it hands out."""

from __future__ import annotations

import json

import pytest
from tokenmill.bench.servers.batches import BatchServer
from tokenmill.bench.servers.mill import Writer
from tokenmill.inference.batch import desk

from tests.redteam.conftest import KEY


class Echo(BatchServer):
    """Refuses to make batches, and says with which key it was asked."""

    status = 400

    def _route(self, connection, method, route, query, head, body):
        if method == "POST" and route == "/batches":
            connection.send(self.status, json.dumps({"error": {"message": f"bad key {KEY}"}}).encode())
        else:
            super()._route(connection, method, route, query, head, body)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_key_in_a_refused_batch(mill, status, monkeypatch):
    monkeypatch.setattr(desk, "SETTLE", 0.5)
    with Echo(Writer(), models=("m",)) as server:
        server.status = status
        ended = mill(f"{server.url}?batch&poll=0.1")
    assert ended.code in (1, 2, 3) and KEY not in ended.err
    assert ended.seconds < 60 and (status >= 429 or "bad key ***" in ended.err)


def test_key_in_the_answers_of_a_batch(mill):
    class Repeating(Writer):
        def __call__(self, body):
            return f"{super().__call__(body)} {KEY}"

    with BatchServer(Repeating(), working=0.1, models=("m",)) as server:
        ended = mill(f"{server.url}?batch&poll=0.1")
    assert sum(ended.counts()[name] for name in ("accepted", "rejected", "failed")) == 3

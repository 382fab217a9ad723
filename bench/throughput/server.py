"""The endpoint that the throughput bench measures against: prepared answers after a fixed latency, at little CPU.

    python -m tokenmill.bench.throughput.server --latency 0.2

It prints its address. A request is matched to its answer, a recorded paraphrase, by the document's title, which every request
carries; who asks to have it mended gets the same again.
`GET /v1/times` tells when the first request came, when the last answer went out, and how many were in flight.
"""

from __future__ import annotations

import argparse
import threading
import time

import orjson
from tokenmill.bench.servers.scripted import Connection, ScriptedServer, completion
from tokenmill.bench.throughput.corpus import NUMBER, answer, chosen


class PreparedServer(ScriptedServer):
    """Answers every request about document N with the paraphrase of it."""

    def __init__(self, latency: float) -> None:
        super().__init__(lambda _: "", latency=latency, remember=False)
        self.prepared = [self._http(answer(number)) for number in range(len(chosen()))]
        self._reset()

    @staticmethod
    def _http(text: str) -> bytes:
        body = orjson.dumps(completion(text))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def _reset(self) -> None:
        self.first = self.last = 0.0
        self.served = self.running = self.most = 0

    def serve(self, connection: Connection, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /v1/times"):
            times = {"first": self.first, "last": self.last, "served": self.served, "most_in_flight": self.most}
            connection.send(200, orjson.dumps(times))
            self._reset()
        elif head.startswith(b"GET"):
            super().serve(connection, head, body)
        else:
            self.first = self.first or time.monotonic()
            self.running += 1
            self.most = max(self.most, self.running)
            self._loop.call_later(self.latency, self._answer, connection, int(next(NUMBER.finditer(body))[1]))

    def _answer(self, connection: Connection, number: int) -> None:
        self.running -= 1
        self.served += 1
        self.last = time.monotonic()
        if not connection.transport.is_closing():
            connection.transport.write(self.prepared[number % len(self.prepared)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.2)
    args = parser.parse_args()
    with PreparedServer(args.latency) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()

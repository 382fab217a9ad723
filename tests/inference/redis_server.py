"""A real redis-server for tests, on a Unix socket of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest


class RedisServer:
    """Start, stop and restart a redis-server. Its append-only file survives restarts."""

    def __init__(self, *options: str) -> None:
        self.options = options
        # Not under pytest's folder: the path of a Unix socket has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self.folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.start()

    def start(self) -> None:
        command = ["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder)]
        self.process = subprocess.Popen(
            [*command, "--save", "", "--appendonly", "yes", *self.options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        import redis

        for _ in range(500):
            try:
                with redis.Redis.from_url(self.url) as client:
                    client.ping()
                return
            except redis.ConnectionError:  # not there yet, or still reading its file
                time.sleep(0.01)
        raise RuntimeError("redis-server did not start within 5 s")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.socket.unlink(missing_ok=True)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)


def redis_server(*options: str) -> RedisServer:
    """Start one, or skip the test where there is no Redis."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    return RedisServer(*options)

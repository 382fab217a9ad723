"""The embedding model is found, or missed, soon and with one line."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tokenmill.cli import QUIET

FIND = """
import sys, threading
from tokenmill.judges.embedding.similarity import Embedder
try:
    Embedder(sys.argv[1]).find()
    print("found", threading.active_count(), "torch" in sys.modules)
except OSError as error:
    print("OSError:", error)
"""
EMBED = """import asyncio
from tokenmill.judges.embedding.similarity import Embedder
print(asyncio.run(Embedder().embed(['a'])).shape)"""


def python(code: str, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **QUIET, **env},
    )


@pytest.fixture
def hub() -> Iterator[tuple[str, list[str]]]:
    """A Hub that has `known/model` and `sentence-transformers/short`; its address and the paths asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            there = self.path.startswith(("/known/model/", "/sentence-transformers/short/"))
            self.send_response(200 if there else 401)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", "0")
            self.send_header("X-HF-Warning", "topic; be warned")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("name", "told", "questions"),
    [
        ("known/model", "found 1 False", 1),
        ("short", "found 1 False", 1),
        ("nope/nope", "OSError: there is no such folder, and no such model on the Hub", 1),
        ("nope", "OSError: there is no such folder, and no such model on the Hub", 2),
        ("/nowhere/to/be/found", "OSError: there is no such folder, and no such model on the Hub", 0),
        (".", "found 1 False", 0),
        ("minilm", "found 1 False", 0),
    ],
)
def test_a_model_is_looked_for_here_and_on_the_hub(hub, tmp_path, name, told, questions):
    url, asked = hub
    done = python(FIND, name, HF_ENDPOINT=url, HF_HOME=str(tmp_path))
    assert done.stdout.strip() == told and done.stderr == ""
    assert len(asked) == questions


def test_without_network_it_is_told_soon(tmp_path):
    start = time.monotonic()
    done = python(FIND, "nope/nope", HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path))
    assert done.stdout.startswith("OSError: there is no such folder, and the Hub cannot be asked: ")
    assert len(done.stdout.splitlines()) == 1 and done.stderr == ""
    assert time.monotonic() - start < 40


def test_without_network_what_was_downloaded_is_found(tmp_path):
    kept = tmp_path / "hub" / "models--known--model"
    (kept / "snapshots" / "abc").mkdir(parents=True)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    (kept / "snapshots" / "abc" / "config.json").write_text("{}")
    done = python(FIND, "known/model", HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path))
    assert done.stdout.startswith("found")


def test_loading_says_nothing_in_a_log_of_the_command():
    done = python(EMBED)
    assert done.stdout.strip() == "(1, 384)" and done.stderr == ""

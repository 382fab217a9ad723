"""What every attack on a run is measured by."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tokenmill.bench.servers.mill import documents
from tokenmill.inference import client

from tests.redteam.hostile import everything_under
from tokenmill import cli

KEY = "tm-Zk3vQ9xL0pW7yB2n"
"""The key of these runs. No pattern of known providers' keys fits it: only its exact value tells."""


@dataclass(frozen=True)
class Ended:
    """How a run came out."""

    code: int
    out: str
    err: str
    seconds: float
    folder: Path

    def counts(self) -> dict[str, int]:
        return json.loads((self.folder / "manifest.json").read_text())["counts"]

    def errors(self) -> dict[str, int]:
        return json.loads((self.folder / "manifest.json").read_text())["errors"]


@pytest.fixture
def mill(tmp_path, capfd, monkeypatch):
    """Run `knowledge` on three documents, or on given input, against an endpoint, and check what holds of every run,
    whatever is done to it: an exit code of ours, one line instead of a traceback, and the key nowhere."""
    monkeypatch.setenv("TOKENMILL_API_KEY", KEY)
    # What an endpoint asks us to wait is waited; our own growing pauses between tries only make the suite slow.
    monkeypatch.setattr(client, "_backoff", lambda failures, asked: asked + 0.05)

    def run(endpoint: str, *flags: object, inputs: Path | None = None, output: Path | None = None) -> Ended:
        if inputs is None:
            inputs = tmp_path / "corpus.jsonl"
            inputs.write_text("".join(json.dumps(row) + "\n" for row in documents(3, 3)))
        folder = output or tmp_path / "out"
        words = ["knowledge", "--input", inputs, "--output", folder, "--llm", f"m@{endpoint}", "--no-similarity"]
        words += ["--no-judge", "--rephrasings", 1, "--repairs", 0, "--timeout", 2, "--patience", 2]
        words += ["--cache", tmp_path / "private" / "answers.sqlite", *flags]
        begun = time.monotonic()
        code = cli.main([str(word) for word in words])
        said = capfd.readouterr()
        ended = Ended(code, said.out, said.err, time.monotonic() - begun, folder)
        assert code in (0, 1, 2, 3)
        assert "Traceback" not in said.err, said.err
        if code in (2, 3):
            lines = [line for line in said.err.splitlines() if line.startswith("tokenmill: ")]
            assert len(lines) == 1 and said.err.endswith(f"{lines[0]}\n") and len(lines[0]) < 1000, said.err[-3000:]
        for text in (said.out, said.err):
            assert KEY not in text
            assert not re.search(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]", text), "what would steer a terminal"
        left = {f: everything_under(place) for f, place in (("out", folder), ("cache", tmp_path / "private"))}
        leaks = [
            f"{f}/{name}" for f, files in left.items() for name, content in files.items() if KEY.encode() in content
        ]
        assert not leaks, f"the key stands in {leaks}"
        return ended

    return run


@pytest.fixture
def ordinary_umask():
    """Whatever the shell that runs the tests allows: the usual mask."""
    before = os.umask(0o022)
    yield
    os.umask(before)

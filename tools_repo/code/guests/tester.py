"""Guest: runs hidden tests of a repository by name, each in a process of its own, and tells what passed. No tested code is
ever run here: what the tests use of it is asked for in another sandbox, by way of the host (`asking.py`)."""

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tokenmill.tools_repo.code.guests.asking import Peer, originals  # ours, sent along
from tokenmill.tools_repo.code.guests.common import (  # ours, sent along
    adopt,
    end_children,
    lay_out,
    open_channel,
    read_line,
    write_all,
)
from tokenmill.tools_repo.code.guests.imports import Imports  # ours, sent along
from tokenmill.tools_repo.code.guests.mirror import Mirror  # ours, sent along

sys.path.insert(0, os.environ.get("PYTHONPATH", ""))
import pytest

SLACK = 5.0
"""Seconds beyond a test's time limit, which the host counts: it starts the tested code's sandbox as well."""


class Recorder:
    """Collects the reports of one test's phases."""

    def __init__(self) -> None:
        self.reports: list[tuple[str | None, str, str]] = []
        self.trouble = ""
        self.exiting = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append((report.when, report.outcome, str(report.longrepr or "")))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.trouble = str(report.longrepr)

    def pytest_internalerror(self, excrepr: object, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.trouble = str(excrepr)
        self.exiting = isinstance(excinfo.value, SystemExit) and excinfo.value.code in (0, None)

    def outcome(self) -> tuple[str, str]:
        """(outcome, detail) of one test function, all its parameters together."""
        calls = [r for r in self.reports if r[0] == "call"]
        bad = next((r for r in self.reports if r[1] == "failed"), None)
        if bad:
            return ("failed" if bad[0] == "call" else "error"), bad[2]
        if any(r[1] == "skipped" for r in self.reports):
            return "skipped", next(r[2] for r in self.reports if r[1] == "skipped")
        if not calls:
            return "error", self.trouble or "no such test was found"
        return "passed", ""


def options(root: Path) -> list[str]:
    unneeded = [
        part for name in ("cacheprovider", "faulthandler", "unraisableexception") for part in ("-p", f"no:{name}")
    ]
    return ["-q", *unneeded, "-o", "addopts=", f"--rootdir={root}", "--tb=line"]


def warm_up(folder: Path) -> None:
    """Have pytest import all that it needs, once and not in each test's process."""
    folder.mkdir()
    (folder / "test_warm_up.py").write_text("def test_one():\n    assert [1] != [2]\n")
    pytest.main([*options(folder), str(folder / "test_warm_up.py")], plugins=[Recorder()])
    del sys.modules["test_warm_up"]
    sys.path[:] = [path for path in sys.path if path != str(folder)]
    shutil.rmtree(folder)


class Suite:
    """The hidden tests of one job."""

    def __init__(self, job: dict[str, Any], root: Path, lines: BinaryIO, channel: BinaryIO) -> None:
        self.job, self.root, self.lines, self.channel = job, root, lines, channel
        self.local = {str(root / path) for path in job["local"]}
        self.areas = (str(root), "/tmp")
        self.originals = originals()
        texts = [(path, base64_text(content)) for path, mode, content in job["files"] if mode != "l"]
        self.texts = {text for path, text in texts if str(root / path) not in self.local and len(text) > 20}

    def run(self, name: str, number: int, pipe: int) -> None:
        """In the test's own process: run it and tell what came of it."""
        os.setsid()
        for path in ("src", ""):
            if (self.root / path).is_dir():
                sys.path.insert(0, str(self.root / path))
        os.chdir(self.root)
        mirror = Mirror(self.areas, self.refused)
        peer = Peer(self.lines, self.channel, mirror, self.originals, number * 1_000_000)
        Imports(peer, self.local, self.areas).install(self.texts)
        peer.originals = {key: getattr(sys.modules[key[0]], key[1]) for key in self.originals}
        recorder = Recorder()
        try:
            pytest.main([*options(self.root), name], plugins=[recorder])
            outcome, detail = recorder.outcome()
        except BaseException as error:
            outcome, detail = "error", f"{type(error).__name__}: {error}"
            recorder.exiting = isinstance(error, SystemExit) and error.code in (0, None)
        if outcome == "passed" and (peer.gone or peer.doubt or peer.lies):
            outcome, detail = "error", peer.gone or peer.doubt or peer.lies
        told = {
            "outcome": outcome,
            "detail": detail[-400:],
            "exiting": recorder.exiting,
            "lying": peer.lies,
            "doubt": peer.doubt or (peer.strange if outcome in ("failed", "error") else ""),
            "gone": peer.gone,
        }
        os.write(pipe, json.dumps(told).encode())

    def refused(self, path: str) -> bool:
        """Whether the tested code may not change a file here: tests, and what Python or pytest would read."""
        inside = path.startswith(f"{self.root}/")
        return path in self.local or (inside and path.endswith((".py", ".pth", ".pyc", ".so", ".ini", ".toml", ".cfg")))

    def run_one(self, name: str, number: int) -> dict[str, Any]:
        """Fork and wait."""
        mine, its = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(mine)
            try:
                self.run(name, number, its)
            finally:
                os._exit(0)
        os.close(its)
        text, end = b"", time.monotonic() + self.job["seconds"] + SLACK
        while (left := end - time.monotonic()) > 0 and select.select([mine], [], [], left)[0]:
            block = os.read(mine, 1 << 16)
            if not block:
                break
            text += block
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(mine)
        end_children()
        try:
            return dict(json.loads(text))
        except ValueError:
            if left <= 0:
                return {"outcome": "timeout", "detail": f"not at its end after {self.job['seconds']:g} seconds"}
            return {"outcome": "error", "detail": "its process ended"}


def base64_text(content: str) -> str:
    import base64

    return base64.b64decode(content).decode("utf-8", "replace")


def sweep(folders: Sequence[Path]) -> None:
    """Remove what a test left: what it wrote could speak for the next."""
    for folder in folders:
        with contextlib.suppress(OSError):
            for place in list(folder.iterdir()):
                if place.is_dir() and not place.is_symlink():
                    shutil.rmtree(place, ignore_errors=True)
                else:
                    place.unlink()


def main() -> None:
    sys.dont_write_bytecode = True
    lines, channel = open_channel()
    job = json.loads(read_line(lines))
    adopt()
    with open("/dev/null", "wb") as quiet:  # noqa: PTH123
        os.dup2(quiet.fileno(), 2)
    home = Path(os.environ["HOME"])
    warm_up(home / "warm")
    suite = Suite(job, home / "workspace", lines, channel)
    gc.freeze()  # what is there now need not be looked at again in each test's process
    for number, name in enumerate(job["tests"]):
        lay_out(suite.root, job["files"])
        write_all(channel, json.dumps({"begin": name}).encode() + b"\n")
        told = suite.run_one(name, number)
        sweep([home, Path("/tmp"), Path("/dev/shm")])
        write_all(channel, json.dumps({**told, "test": name}).encode() + b"\n")


main()

"""How long the command line takes to begin: its imports, and the way from a command to its first request.

    python -m tokenmill.bench.startup [--rounds 5] [--workers 2]

Wall seconds are those of a quiet machine or mean little; CPU seconds, of all processes of the command, count anywhere. The
least of the rounds is shown. The model is a scripted server on this machine, which is gone when the first request comes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.bench.throughput.corpus import documents

COMMAND = [sys.executable, "-m", "tokenmill"]
SUBCOMMANDS = ("", "knowledge", "math", "tools evolve", "agentic trajectories", "publish")
WAIT = 300.0
"""Seconds after which a command that has asked for nothing is given up."""


def help_of(subcommand: str) -> tuple[float, float]:
    """Wall and CPU seconds of a subcommand's `--help`."""
    before, started = os.times(), time.monotonic()
    subprocess.run([*COMMAND, *subcommand.split(), "--help"], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - started, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def first_request(folder: Path, corpus: Path, flags: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds from a command to the first completion that it asks for; the command is then killed.

    Raises:
        RuntimeError: it asked for none.
    """
    asked = threading.Event()
    reached: list[float] = []

    def answer(body: dict[str, Any]) -> None:
        reached.append(time.monotonic())
        asked.set()

    with ScriptedServer(answer) as server, tempfile.TemporaryDirectory(dir=folder) as room:
        given = ["--input", str(corpus), "--output", f"{room}/out", "--cache", f"{room}/a.sqlite", "--llm", server.spec]
        started = time.monotonic()
        command = subprocess.Popen(
            [*COMMAND, "knowledge", *given, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        while not asked.wait(0.01) and command.poll() is None and time.monotonic() < started + WAIT:
            pass
        family = [psutil.Process(command.pid)] if reached else []
        family += family[0].children(recursive=True) if family else []
        spent = sum(map(_cpu, family))
        command.kill()
        _, said = command.communicate()
        psutil.wait_procs(family[1:], timeout=30)
    if not reached:
        raise RuntimeError(f"{' '.join(flags)}: no request came: {said[-500:]}")
    return reached[0] - started, spent


def _cpu(process: psutil.Process) -> float:
    """CPU seconds of a process, and of those children that it has waited for."""
    try:
        return sum(process.cpu_times()[:4])
    except psutil.Error:  # it has just ended
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.startup", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="worker processes of the second kind of run")
    args = parser.parse_args()
    print(f"{'':50} {'wall s':>7} {'CPU s':>7}")
    with tempfile.TemporaryDirectory(prefix="tokenmill-bench-") as name:
        folder = Path(name)
        corpus = folder / "corpus.jsonl"
        corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(2000)))
        kinds: dict[str, tuple[Any, ...]] = {
            f"{' '.join((sub, '--help')).strip()}": (help_of, sub) for sub in SUBCOMMANDS
        }
        processes = ["--direct_running_mode=multi_processing", f"--direct_num_workers={args.workers}"]
        for label, flags in (
            ("first request, one process", ["--direct_running_mode=in_memory", "--direct_num_workers=1"]),
            (f"first request, {args.workers} worker processes", processes),
        ):
            kinds[label] = (first_request, folder, corpus, flags)
        for label, (measure, *given) in kinds.items():
            figures = [measure(*given) for _ in range(args.rounds)]
            wall, cpu = (min(column) for column in zip(*figures, strict=True))
            print(f"{label:50} {wall:7.2f} {cpu:7.2f}", flush=True)


if __name__ == "__main__":
    main()

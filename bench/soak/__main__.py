"""Six jobs in a row, again and again in one process, under an endpoint with every fault: does anything grow?

    python -m tokenmill.bench.soak --minutes 60

A round runs `knowledge`, `tools evolve`, `tools curate`, `agentic trajectories` with simulated and with executable tools, and
`publish --dry-run`. The endpoint answers with 429, 500, broken bodies and silence, echoes the key in refusals, and is gone for a
second now and then. After each round open files, threads, child processes (zombies among them), files in the temporary folder
and memory are counted. Prints Markdown; returns 1 if a count is larger at the end than after the second round, or memory has
grown by more than `GROWTH`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from tokenmill.bench.servers.evolver import Evolver
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import Faults, Reply, ScriptedServer
from tokenmill.bench.servers.troupe import MODELS, Troupe, engine, task
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.agentic import AgentTask
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.engines import Engine

from tokenmill import cli

FAULTS = Faults(too_many=0.05, server_error=0.05, malformed=0.05, hang=0.01, seed=7)
ECHO = 0.01
"""Share of requests that are refused with words of the request."""
AWAY, EVERY = 1.0, 20.0
"""Seconds for which the endpoint is gone, and after how many."""
GROWTH = 0.10
"""Of memory, from the second round to the last: allocators keep what they once had."""
LATE = 2
"""Threads that libraries may start later than in the second round, once for the process."""


class Everybody:
    """The models of all six jobs, by name."""

    def __init__(self) -> None:
        self.models: dict[str, Any] = {"mill": Writer(), "evolver": Evolver(), **dict.fromkeys(MODELS, Troupe())}
        self._number = itertools.count()

    def __call__(self, body: dict[str, Any]) -> Any:
        if next(self._number) % int(1 / ECHO) == 7:
            return Reply(400, json.dumps({"error": {"message": f"refused: {str(body)[:2000]}"}}).encode())
        return self.models[body["model"]](body)


@dataclass(frozen=True)
class Counted:
    """What this process holds."""

    files: int
    threads: int
    children: int
    zombies: int
    temporary: int
    """Files and folders in the temporary folder."""
    mib: int


def counted(temporary: Path) -> Counted:
    """Count, once what is to end has had time to."""
    process = psutil.Process()
    for _ in range(20):
        gc.collect()
        if not process.children():
            break
        time.sleep(0.25)
    children = process.children(recursive=True)
    zombies = sum(child.status() == psutil.STATUS_ZOMBIE for child in children)
    made = sum(1 for _ in temporary.rglob("*"))
    rss = process.memory_info().rss >> 20
    return Counted(process.num_fds(), process.num_threads(), len(children), zombies, made, rss)


def commands(url: str, folder: Path, seed: int) -> list[list[str]]:
    """The six jobs of a round, with inputs and outputs below a folder."""
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(20, 4)))
    write_parquet(
        to_table([task(n) for n in range(seed * 10 + 1, seed * 10 + 7)], AgentTask), str(folder / "tasks.parquet")
    )
    write_parquet(to_table([engine()], Engine), str(folder / "engines.parquet"))
    common = ["--cache", str(folder / "answers.sqlite"), "--timeout", "3", "--patience", "60"]
    flags = ("--llm", "--user-llm", "--tool-llm", "--judge-llm")
    troupe = [word for flag, model in zip(flags, MODELS, strict=True) for word in (flag, f"{model}@{url}")]
    play = ["agentic", "trajectories", "--tasks", str(folder / "tasks.parquet"), *troupe, "--votes", "1", *common]
    return [
        [
            *("knowledge", "--input", str(corpus), "--llm", f"mill@{url}", "--seed", str(seed), "--no-similarity"),
            *("--output", str(folder / "knowledge"), *common),
        ],
        [
            *("tools", "evolve", "--llm", f"evolver@{url}", "--categories", "2", "--domains", "2", "--tools", "4"),
            *("--seed", str(seed), "--output", str(folder / "tools"), *common),
        ],
        ["tools", "curate", "--input", str(folder / "tools"), "--output", str(folder / "curated"), *common],
        [*play, "--output", str(folder / "simulated")],
        [
            *(*play, "--engine", "executable", "--engines", str(folder / "engines.parquet")),
            *("--output", str(folder / "executable")),
        ],
        ["publish", str(folder / "knowledge"), "--repo-id", "soak/soak", "--dry-run"],
    ]


def flapping(server: ScriptedServer, stop: threading.Event) -> None:
    """Let the endpoint be gone now and then."""
    while not stop.wait(EVERY):
        server.down()
        stop.wait(AWAY)
        server.up()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    args = parser.parse_args()
    counts: list[Counted] = []
    codes: Counter[str] = Counter()
    os.environ["TOKENMILL_API_KEY"] = "soak-0123456789abcdef"
    with tempfile.TemporaryDirectory(prefix="tokenmill-soak-") as temporary:
        tempfile.tempdir = temporary
        os.environ["TMPDIR"] = temporary
        stop = threading.Event()
        models = ("mill", "evolver", *MODELS)
        with ScriptedServer(Everybody(), models=models, faults=FAULTS, latency=0.01, remember=False) as server:
            away = threading.Thread(target=flapping, args=(server, stop))
            away.start()
            end = time.monotonic() + 60 * args.minutes
            print(
                "| round | open files | threads | children | zombies | temporary files | MiB |\n|---|---|---|---|---|---|---|"
            )
            for number in itertools.count(1):
                with tempfile.TemporaryDirectory() as folder:
                    for command in commands(server.url, Path(folder), number):
                        with (
                            contextlib.redirect_stdout(io.StringIO()),
                            contextlib.redirect_stderr(io.StringIO()) as told,
                        ):
                            code = cli.main(command)
                        job = " ".join(command[:2]) if command[0] in ("tools", "agentic") else command[0]
                        codes[f"{job}: {code}"] += 1
                        if "Traceback" in told.getvalue():
                            sys.stderr.write(told.getvalue())
                counts.append(counted(Path(temporary)))
                print(f"| {number} | {' | '.join(f'{n:,}' for n in asdict(counts[-1]).values())} |", flush=True)
                if time.monotonic() > end and number > 2:
                    break
            stop.set()
            away.join()
            print(f"\nexit codes: {dict(codes)}; faults: {dict(server.log.kinds)}", flush=True)
    first, last = counts[1], counts[-1]
    grown = [
        name
        for name, before in asdict(first).items()
        if getattr(last, name) > before + (GROWTH * before if name == "mib" else LATE if name == "threads" else 0)
    ]
    print(f"grown: {', '.join(grown) or 'nothing'}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())

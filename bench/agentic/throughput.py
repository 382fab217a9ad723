"""How fast trajectories are made, what they cost, and what the chain itself takes: engine simulator against executable.

    python -m tokenmill.bench.agentic.throughput   # 1,500 trajectories, 500 in flight, both engines: two minutes
    python -m tokenmill.bench.agentic.throughput --trajectories 300 --latency 0.05

One scripted server plays the agent, the user, the tools and the judge, after a fixed latency, in a process of its own. A
trajectory is a request to cancel an order: two look-ups in parallel, the cancellation, a reply, and the verdict; its world
holds 60 orders and its system prompt 2,500 characters.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.bench.servers.troupe import MODELS, Troupe, engine, state, task
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.agentic import AgentTask
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.engines import Engine

from tokenmill import IMPORT_ROOT

ORDERS, SYSTEM = 60, 2_500
ENGINES = ("simulator", "executable")


def sized_task(number: int) -> AgentTask:
    """Task `number`, in a world and under a system prompt of ordinary size."""
    small = task(number)
    held = json.loads(state(number))
    for n in range(ORDERS - len(held["Order"])):
        order = f"ORD-{900_000 + n}"
        held["Order"][order] = {"order_id": order, "status": "open", "total": n + 0.5}
    told = "Every order has a number, a status and a total, and an order that is cancelled stays so. "
    agent = replace(small.agent, system=small.agent.system + " " + (told * 40)[:SYSTEM])
    return replace(small, agent=agent, state=json.dumps(held))


def serve(latency: float) -> None:
    """The server, until stdin ends; prints its address, and how many requests were in flight at most."""
    with ScriptedServer(Troupe(), models=MODELS, latency=latency, remember=False) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(json.dumps([server.log.answered, server.log.most_in_flight]), flush=True)
            server.log.answered = server.log.most_in_flight = 0


@contextmanager
def server(latency: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tokenmill.bench.agentic.throughput", "--serve", "--latency", str(latency)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=IMPORT_ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@dataclass
class Measured:
    """A finished command and its process tree."""

    seconds: float
    cpu: float
    """Seconds of processor time, children included."""
    peak: int
    """Bytes of memory held at once, shared pages counted once."""


def measure(command: list[str]) -> Measured:
    started = time.monotonic()
    before = psutil.Process().cpu_times()
    process = subprocess.Popen(command, cwd=IMPORT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peak = 0

    def watch() -> None:
        nonlocal peak
        tree = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                parts = [tree, *tree.children(recursive=True)]
                peak = max(peak, sum(part.memory_full_info().pss for part in parts))
            except psutil.Error:
                pass
            time.sleep(0.3)

    watcher = threading.Thread(target=watch)
    watcher.start()
    output = process.communicate()[0]
    seconds = time.monotonic() - started
    watcher.join()
    if process.returncode:
        sys.exit(f"{' '.join(command)}\nexit code {process.returncode}\n{output[-3000:]}")
    after = psutil.Process().cpu_times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Measured(seconds, cpu, peak)


def command(url: str, folder: Path, tasks: Path, out: str, name: str, in_flight: int) -> list[str]:
    roles = [f"{flag}={model}@{url}" for flag, model in zip(
        ("--llm", "--user-llm", "--tool-llm", "--judge-llm"), MODELS, strict=True
    )]  # fmt: skip
    engines = ["--engine=executable", "--engines", str(folder / "engines.parquet")] if name == "executable" else []
    return [
        *(sys.executable, "-m", "tokenmill", "agentic", "trajectories", "--tasks", str(tasks), *roles, *engines),
        *("--output", str(folder / out), "--cache", str(folder / f"{out}.sqlite"), "--outcomes", "success=1"),
        *("--votes", "1", "--max-concurrency", str(in_flight)),
    ]


def run(args: argparse.Namespace, folder: Path) -> None:
    write_parquet(
        to_table([sized_task(n) for n in range(1, args.trajectories + 1)], AgentTask), str(folder / "many.parquet")
    )
    write_parquet(to_table([sized_task(1)], AgentTask), str(folder / "one.parquet"))
    write_parquet(to_table([engine()], Engine), str(folder / "engines.parquet"))
    print(
        "| engine | trajectories/s | while calls ran | model calls per kept | tokens per kept | CPU per model call | "
        "CPU per trajectory | calls in flight | peak memory |\n|---|---|---|---|---|---|---|---|---|"
    )
    with server(args.latency) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        for name in args.engines:
            start = measure(command(url, folder, folder / "one.parquet", f"{name}-one", name, args.in_flight))
            _asked(process)
            whole = measure(command(url, folder, folder / "many.parquet", name, name, args.in_flight))
            _, most = _asked(process)
            manifest = json.loads((folder / name / "manifest.json").read_text())
            figures = manifest["trajectories"]
            kept, calls = manifest["counts"]["accepted"], figures["model_calls"]
            if kept != args.trajectories:
                sys.exit(f"{name}: {kept} of {args.trajectories} kept: {manifest['reasons']} {manifest['errors']}")
            extra = whole.cpu - start.cpu
            print(
                f"| {name} | {kept / whole.seconds:.0f} | {kept / (whole.seconds - start.seconds):.0f} | {calls / kept:.1f} | "
                f"{figures['tokens_per_kept']:,.0f} | {1000 * extra / calls:.2f} ms | {1000 * extra / kept:.1f} ms | {most} | "
                f"{whole.peak / 1e6:,.0f} MB |",
                flush=True,
            )


def _asked(process: subprocess.Popen[str]) -> tuple[int, int]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    answered, most = json.loads(process.stdout.readline())
    return answered, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=1500)
    parser.add_argument("--in-flight", type=int, default=500)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.latency)
        return
    with tempfile.TemporaryDirectory(prefix="tokenmill-bench-") as folder:
        run(args, Path(folder))


if __name__ == "__main__":
    main()

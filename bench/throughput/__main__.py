"""How fast documents move: the knowledge pipeline against a bare HTTP loop, in one sitting.

    python -m tokenmill.bench.throughput                      # 5,000 and 20,000 documents, three rounds: about five minutes
    python -m tokenmill.bench.throughput --memory             # peak memory at 5,000 and 50,000 documents

Both send to one local server of 200 ms per answer, 256 in flight. The pipeline runs with the judge and the embeddings
off; form and fact checks, cache, budget ledger and Parquet output are on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from tokenmill.bench.servers.mill import documents

from tokenmill import IMPORT_ROOT


@contextmanager
def server(count: int, sentences: int, latency: float) -> Iterator[str]:
    command = [sys.executable, "-m", "tokenmill.bench.throughput.server", "--documents", str(count)]
    command += ["--sentences", str(sentences), "--latency", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=IMPORT_ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def times(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/times") as answer:
        return json.load(answer)


def write_documents(path: Path, count: int, sentences: int) -> None:
    with path.open("w") as file:
        for row in documents(count, sentences):
            file.write(json.dumps(row) + "\n")


class Command:
    """A finished command: wall seconds, and the most memory that its process tree held at once (where that is `watched`:
    looking takes a tenth of the processes' time)."""

    def __init__(self, command: list[str], watched: bool = True) -> None:
        started = time.monotonic()
        process = subprocess.Popen(
            command, cwd=IMPORT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.peak = 0
        watcher = threading.Thread(target=self._watch, args=(process,))
        if watched:
            watcher.start()
        self.output = process.communicate()[0]
        self.seconds = time.monotonic() - started
        if watched:
            watcher.join()
        if process.returncode:
            sys.exit(f"{' '.join(command)}\nexit code {process.returncode}\n{self.output[-3000:]}")

    def _watch(self, process: subprocess.Popen[str]) -> None:
        tree = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                held = 0
                for part in [tree, *tree.children(recursive=True)]:
                    held += part.memory_full_info().pss
                self.peak = max(self.peak, held)
            except psutil.Error:
                pass
            time.sleep(0.5)


def pipeline(source: Path, out: Path, cache: Path, url: str, in_flight: int, workers: int, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "tokenmill", "knowledge", "--input", str(source), "--output", str(out),
        "--llm", f"scripted@{url}", "--cache", str(cache), "--rephrasings", "1", "--no-judge", "--no-similarity",
        "--max-concurrency", str(in_flight // workers), "--direct_running_mode=multi_processing",
        f"--direct_num_workers={workers}", *more,
    ]  # fmt: skip


def speed(args: argparse.Namespace, folder: Path) -> None:
    small, large = folder / "small.jsonl", folder / "large.jsonl"
    few = folder / "few.jsonl"
    write_documents(small, args.documents, args.sentences)
    write_documents(large, args.many, args.sentences)
    write_documents(few, 100, args.sentences)
    ratios: dict[str, list[float]] = {"requests": [], "whole": []}
    with server(args.many, args.sentences, args.latency) as url:
        for round_ in range(args.rounds):
            for name, source, count in (("requests", small, args.documents), ("whole", large, args.many)):
                bare = [
                    sys.executable,
                    "-m",
                    "tokenmill.bench.throughput.bare_loop",
                    str(source),
                    str(folder / "bare.jsonl"),
                    url,
                ]
                times(url)
                yard = Command([*bare, "--in-flight", str(args.in_flight)])
                yard_times = times(url)
                for leftover in ("out", "cache"):
                    shutil.rmtree(folder / leftover, ignore_errors=True)
                ours = Command(
                    pipeline(source, folder / "out", folder / "cache" / "a.sqlite", url, args.in_flight, args.workers)
                )
                our_times = times(url)
                if name == "requests":
                    yard_rate = count / (yard_times["last"] - yard_times["first"])
                    our_rate = count / (our_times["last"] - our_times["first"])
                else:
                    yard_rate, our_rate = count / yard.seconds, count / ours.seconds
                ratios[name].append(our_rate / yard_rate)
                print(
                    f"round {round_ + 1}, {count:,} documents, {name}: bare {yard_rate:,.0f}/s, pipeline {our_rate:,.0f}/s, "
                    f"ratio {our_rate / yard_rate:.2f} (most in flight {yard_times['most_in_flight']} and "
                    f"{our_times['most_in_flight']}; pipeline {ours.peak / 1e6:,.0f} MB)",
                    flush=True,
                )
        cached: list[float] = []
        cache = folder / "cache" / "a.sqlite"
        for _ in range(args.rounds):
            again = (cache, url, args.in_flight, args.workers, "--overwrite")
            start = Command(pipeline(few, folder / "few", *again), watched=False)
            run = Command(pipeline(large, folder / "out", *again), watched=False)
            cached.append((args.many - 100) / (run.seconds - start.seconds))
            print(
                f"from the cache: {run.seconds:.1f} s, start-up {start.seconds:.1f} s: "
                f"{cached[-1]:,.0f} documents/s after it",
                flush=True,
            )
        assert times(url)["served"] == 0, "the cached runs made requests"
    medians = [statistics.median(figures) for figures in (*ratios.values(), cached)]
    print(
        "\nmedian ratio while requests run: {:.2f}; whole command: {:.2f}; from the cache: {:,.0f}/s".format(*medians)
    )


def memory(args: argparse.Namespace, folder: Path) -> None:
    """Peak memory at two sizes, medians of several runs; what the rows themselves take is their text in and their columns
    out."""
    import pyarrow.parquet as pq

    peaks, sizes = [], []
    for count in (5_000, 50_000):
        source, out = folder / f"{count}.jsonl", folder / f"out-{count}"
        write_documents(source, count, args.sentences)
        seen = []
        for round_ in range(args.rounds):
            cache = folder / f"{count}-{round_}.sqlite"
            with server(count, args.sentences, 0.02) as url:
                run = pipeline(source, out, cache, url, args.in_flight, args.workers, "--overwrite")
                seen.append(Command(run).peak)
        rows = sum(pq.read_table(path).nbytes for path in out.glob("data/*.parquet"))
        peaks.append(statistics.median(seen))
        sizes.append(source.stat().st_size + rows)
        print(
            f"{count:,} documents: peak {' '.join(f'{peak / 1e6:,.0f}' for peak in seen)} MB, "
            f"rows in and out {sizes[-1] / 1e6:,.0f} MB",
            flush=True,
        )
    grown, rows = (peaks[1] - peaks[0]) / 45_000, (sizes[1] - sizes[0]) / 45_000
    print(
        f"per document: {grown:,.0f} bytes of memory, {rows:,.0f} of them the rows themselves, {grown - rows:,.0f} beyond"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=5_000)
    parser.add_argument("--many", type=int, default=20_000)
    parser.add_argument("--sentences", type=int, default=4, help="per document, about 14 words each")
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="peak memory instead")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tokenmill-bench-") as folder:
        (memory if args.memory else speed)(args, Path(folder))


if __name__ == "__main__":
    main()

"""How fast documents move: the knowledge pipeline against a bare HTTP loop, in one sitting.

    python -m tokenmill.bench.throughput                      # 20,000 documents, three rounds: eight minutes on two cores
    python -m tokenmill.bench.throughput --memory             # peak memory at 5,000 and 50,000 documents

Both send real passages to one local server that answers real paraphrases after 200 ms, 256 in flight. The pipeline runs
without a judge, once without and once with the embedding check; form and fact checks, cache, budget ledger and Parquet
output are on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenmill.bench.throughput.command import Finished
from tokenmill.bench.throughput.corpus import documents

from tokenmill import IMPORT_ROOT

FEW = 1000
"""Documents of the run that is taken off another, so that what is left is the work on documents."""
KINDS = {"form, facts": ("--no-similarity",), "form, facts, embeddings": ()}
COLUMNS = {
    "requests": ("documents/s while requests run", ",.0f"),
    "requests_ratio": ("of the bare loop's", ".2f"),
    "whole": ("documents/s, whole command", ",.0f"),
    "whole_ratio": ("of the bare loop's", ".2f"),
    "cached": ("documents/s from the cache", ",.0f"),
    "first": ("first request, s", ".1f"),
    "cpu": ("CPU ms a document", ".2f"),
    "cached_cpu": ("from the cache", ".2f"),
}


@contextmanager
def server(latency: float) -> Iterator[str]:
    command = [sys.executable, "-m", "tokenmill.bench.throughput.server", "--latency", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=IMPORT_ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def times(url: str) -> dict[str, Any]:
    """What the server has seen since the last time it was asked."""
    with urllib.request.urlopen(f"{url}/times") as answer:
        return json.load(answer)


def write_documents(path: Path, count: int) -> Path:
    with path.open("w") as file:
        for row in documents(count):
            file.write(json.dumps(row) + "\n")
    return path


def bare(source: Path, out: Path, url: str, in_flight: int) -> list[str]:
    loop = [sys.executable, "-m", "tokenmill.bench.throughput.bare_loop", str(source), str(out), url]
    return [*loop, "--in-flight", str(in_flight)]


def pipeline(source: Path, out: Path, cache: Path, url: str, args: argparse.Namespace, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "tokenmill", "knowledge", "--input", str(source), "--output", str(out),
        "--llm", f"scripted@{url}", "--cache", str(cache), "--rephrasings", "1", "--no-judge",
        "--max-concurrency", str(args.in_flight // args.workers), "--direct_running_mode=multi_processing",
        f"--direct_num_workers={args.workers}", *more,
    ]  # fmt: skip


def speed(args: argparse.Namespace, folder: Path) -> None:
    count = args.documents
    corpus, few = write_documents(folder / "all.jsonl", count), write_documents(folder / "few.jsonl", FEW)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ("bare loop", *KINDS)}
    with server(args.latency) as url:
        for round_ in range(args.rounds):
            times(url)
            yard = Finished(bare(corpus, folder / "bare.jsonl", url, args.in_flight))
            seen = times(url)
            figures = {
                "requests": count / (seen["last"] - seen["first"]),
                "whole": count / yard.seconds,
                "first": seen["first"] - yard.started,
                "cpu": yard.cpu / count * 1e3,
            }
            yardstick = _told(round_, "bare loop", figures, found)
            for name, flags in KINDS.items():
                for leftover in ("out", "cache"):
                    shutil.rmtree(folder / leftover, ignore_errors=True)
                cache = folder / "cache" / "a.sqlite"
                ours = Finished(pipeline(corpus, folder / "out", cache, url, args, *flags))
                seen = times(url)
                figures = {
                    "requests": count / (seen["last"] - seen["first"]),
                    "whole": count / ours.seconds,
                    "first": seen["first"] - ours.started,
                    "cpu": ours.cpu / count * 1e3,
                    "most in flight": seen["most_in_flight"],
                    "requests per document": seen["served"] / count,
                }
                for measure in ("requests", "whole"):
                    figures[f"{measure}_ratio"] = figures[measure] / yardstick[measure]
                again = ("--overwrite", *flags)
                start = Finished(pipeline(few, folder / "few", cache, url, args, *again))
                run = Finished(pipeline(corpus, folder / "out", cache, url, args, *again))
                assert times(url)["served"] == 0, "the cached runs made requests"
                figures["cached"] = (count - FEW) / (run.seconds - start.seconds)
                figures["cached_cpu"] = (run.cpu - start.cpu) / (count - FEW) * 1e3
                _told(round_, name, figures, found)
    print(f"\n{count:,} documents, medians of {args.rounds}:\n")
    print(table(found))


def _told(
    round_: int, name: str, figures: dict[str, float], found: dict[str, list[dict[str, float]]]
) -> dict[str, float]:
    print(
        f"round {round_ + 1}, {name}: " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()), flush=True
    )
    found[name].append(figures)
    return figures


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Medians as a Markdown table, a column for each kind of run."""
    rows = [["", *found], ["---"] * (1 + len(found))]
    for key, (title, form) in COLUMNS.items():
        cells = [[figures[key] for figures in rounds if key in figures] for rounds in found.values()]
        rows.append([title, *(format(statistics.median(cell), form) if cell else "" for cell in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def memory(args: argparse.Namespace, folder: Path) -> None:
    """Peak memory at two sizes, medians of several runs; what the rows themselves take is their text in and their columns
    out."""
    import pyarrow.parquet as pq

    peaks, sizes = [], []
    for count in (5_000, 50_000):
        source, out = write_documents(folder / f"{count}.jsonl", count), folder / f"out-{count}"
        seen = []
        for round_ in range(args.rounds):
            cache = folder / f"{count}-{round_}.sqlite"
            with server(0.02) as url:
                seen.append(Finished(pipeline(source, out, cache, url, args, "--overwrite"), memory=True).peak)
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


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="peak memory instead")
    args = parser.parse_args(argv)
    if args.documents <= FEW:
        parser.error(f"--documents must be more than {FEW}")
    with tempfile.TemporaryDirectory(prefix="tokenmill-bench-") as folder:
        (memory if args.memory else speed)(args, Path(folder))


if __name__ == "__main__":
    main()

"""How deciding over documents grows with their number: CPU, memory and what is shuffled, each size in a process of its own.

    python -m tokenmill.bench.corpus.growth --sizes 5000 20000 80000

The full measure is `--sizes 50000 200000 800000` (some 3 GB of files, half an hour on two cores). Documents are made here of
drawn words, a fifth of them edited copies and a tenth with a passage of 60 words from another: development data, in proportion
whatever the size. Shuffled bytes are those of all pairs that come to a grouping.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tokenmill.bench.corpus.cleaned import decide, watched, write

WORDS = 400
"""Of a document, which makes it some 2.8 kB."""
VOCABULARY = [f"{a}{b}{c}" for a, b, c in itertools.product(("ba", "ko", "ri", "tu", "me", "la", "so", "ni"), repeat=3)]


def documents(count: int, seed: int = 0) -> Iterator[str]:
    """Drawn texts, edited copies of those before them, and quotations."""
    draw = random.Random(seed)
    held: list[list[str]] = []
    for number in range(count):
        kind = number % 10
        if kind in (3, 7) and held:
            words = [draw.choice(VOCABULARY) if draw.random() < 0.01 else word for word in draw.choice(held)]
        else:
            words = draw.choices(VOCABULARY, k=WORDS)
        if kind == 5 and held:
            at = draw.randrange(WORDS - 60)
            words[100:160] = draw.choice(held)[at : at + 60]
        if len(held) < 1000:
            held.append(words)
        else:
            held[draw.randrange(1000)] = words
        yield " ".join(words)


def sign(count: int, folder: Path) -> None:
    """The files of so many documents, and of a few that a process warms up on."""
    for texts, place in ((documents(count), folder), (documents(100, seed=1), folder / "few")):
        (place / "signed.json").write_text(json.dumps([str(path) for path in write(texts, place)]))


def measure(folder: Path) -> dict[str, float]:
    """Decide over the documents of a folder, in this process."""
    signed, few = (
        [Path(path) for path in json.loads((place / "signed.json").read_text())] for place in (folder, folder / "few")
    )
    decide(few, folder / "few")
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    with watched() as shuffled:
        decided = decide(signed, folder)
    return {
        "cpu_s": time.process_time() - begun,
        "memory_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base,
        "dropped": sum(bool(one.reason) for one in decided.values()),
        "cut": sum(bool(one.cuts) for one in decided.values()),
        **shuffled,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[5_000, 20_000, 80_000], metavar="N")
    parser.add_argument("--step", choices=("sign", "measure"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step == "sign":
        sign(given.sizes[0], given.folder)
        return
    if given.step == "measure":
        print(json.dumps(measure(given.folder)))
        return
    print(
        "| documents | CPU to decide | exponent | memory a document | shuffled a document | elements a document | dropped | cut |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    before: dict[str, float] = {}
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tokenmill.bench.corpus.growth", "--sizes", str(size), "--folder", folder]
            subprocess.run([*command, "--step", "sign"], check=True)
            told = subprocess.run([*command, "--step", "measure"], capture_output=True, text=True, check=True).stdout
        one = json.loads(told.strip().splitlines()[-1]) | {"documents": size}
        grown = "–"
        if before:
            grown = f"{math.log(one['cpu_s'] / before['cpu_s']) / math.log(size / before['documents']):.2f}"
        print(
            f"| {size:,} | {one['cpu_s']:.1f} s | {grown} | {one['memory_kb'] * 1024 / size:,.0f} B "
            f"| {one['bytes'] / size:,.0f} B | {one['pairs'] / size:.2f} | {one['dropped']:,} | {one['cut']:,} |",
            flush=True,
        )
        before = one


if __name__ == "__main__":
    main()

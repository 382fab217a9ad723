"""Items of benchmarks in pages, verbatim and edited; and clean passages, of which none should be refused:

    python -m tokenmill.bench.corpus.contamination --benchmarks gsm8k.jsonl humaneval.jsonl --clean TEXT.jsonl ...

Edits are planted here (words exchanged, left out, put in), so the figures for edited items are development figures; items and
clean passages are others'.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from pathlib import Path

from tokenmill.bench.corpus.cleaned import passages
from tokenmill.bench.corpus.repetitions import _edited
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.runs.benchmarks import benchmarks

RATES = (0.0, 0.03, 0.08, 0.15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--benchmarks", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--clean", nargs="+", required=True, type=Path, metavar="FILE")
    parser.add_argument("--words", type=int, default=400, help="of a clean passage")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    made = benchmarks(tuple(given.benchmarks))
    assert made is not None
    items = [item for file in made.files for item in file.items()]
    clean = passages(given.clean, given.words)
    vocabulary, around = " ".join(clean).split(), clean[: len(items)] or [""]
    print(f"{made.index.benchmarks}; {len(clean):,} clean passages of {given.words} words")
    for rate in RATES:
        draw, found = random.Random(given.seed), 0
        for item, page in zip(items, itertools.cycle(around)):
            words = itertools.chain.from_iterable(_edited(w, rate, draw, vocabulary) for w in item.text.split(" "))
            found += made.verdict(f"{page}\n\n{' '.join(words)}\n\n{page}")[1] is not None
        print(f"items with {rate:.0%} of their words edited: {found / len(items):.4f} of {len(items):,} found")
    begun, refused = time.process_time(), []
    for text in clean:
        hit = made.verdict(Words(text))[1]
        if hit is not None:
            refused.append((hit.benchmark, hit.item, hit.rule, hit.quote[:80]))
    taken = time.process_time() - begun
    print(f"clean passages refused: {len(refused):,} of {len(clean):,} ({len(clean) / taken:,.0f} a CPU second)")
    for one in refused[:20]:
        print("  ", *one)


if __name__ == "__main__":
    main()

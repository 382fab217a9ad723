"""Near duplicates among real passages with planted edits, against brute force:

    python -m tokenmill.bench.corpus.repetitions TEXT.jsonl ...

Files hold real text (rows with `text`); edits are planted here, which makes the pairs development data. Every pair with an exact
Jaccard similarity of 5-word runs of .8 should lose one of its two; what is dropped should be .7 or more like the row that it
is dropped for.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenmill.bench.corpus.cleaned import decide, passages, write
from tokenmill.judges.corpus.words import Words

RATES = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.12)
"""Shares of words that are edited."""
CUTS = (0.95, 0.85, 0.7)
"""Shares that are left of truncated copies."""


def planted(texts: Sequence[str], seed: int) -> Iterator[str]:
    """Each passage, copies of some with words exchanged, left out or put in, and copies cut short."""
    draw = random.Random(seed)
    vocabulary = " ".join(texts).split()
    for text in texts:
        yield text
        words = text.split(" ")
        for rate in draw.sample(RATES, 3):
            yield " ".join(itertools.chain.from_iterable(_edited(word, rate, draw, vocabulary) for word in words))
        yield " ".join(words[: round(len(words) * draw.choice(CUTS))])


def _edited(word: str, rate: float, draw: random.Random, vocabulary: Sequence[str]) -> list[str]:
    if draw.random() >= rate:
        return [word]
    other = draw.choice(vocabulary)
    return draw.choice(([], [other], [word, other]))


def similar(texts: Sequence[str], least: float) -> dict[tuple[int, int], float]:
    """Every pair of texts with at least this Jaccard similarity of 5-word runs, by counting the runs that they share."""
    runs = [set(Words(text).grams(5).tolist()) for text in texts]
    holders: dict[int, list[int]] = defaultdict(list)
    for number, mine in enumerate(runs):
        for run in mine:
            holders[run].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    for group in holders.values():
        shared.update(itertools.combinations(group, 2))
    found = {}
    for (one, other), both in shared.items():
        alike = both / (len(runs[one]) + len(runs[other]) - both)
        if alike >= least:
            found[one, other] = alike
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--words", type=int, default=400, help="of a passage")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--passages", type=int, default=2000, help="at most")
    given = parser.parse_args()
    texts = list(planted(passages(given.files, given.words)[: given.passages], given.seed))
    pairs = similar(texts, 0.3)
    with tempfile.TemporaryDirectory() as folder:
        prints = write(texts, Path(folder))
        begun = time.process_time()
        decided = decide(prints, Path(folder), copies=0)
        cpu = time.process_time() - begun
    dropped = {row: (one.of, one.similarity) for row, one in decided.items() if one.reason}
    print(f"{len(texts):,} documents, {len(dropped):,} dropped, {cpu:.1f} CPU seconds to decide")
    for least in (0.8, 0.85, 0.9, 0.95):
        wanted = [pair for pair, alike in pairs.items() if alike >= least]
        lost = sum(one in dropped or other in dropped for one, other in wanted)
        print(f"recall at Jaccard {least}: {lost / len(wanted):.4f} of {len(wanted):,} pairs lose one of their two")
    true = [pairs.get((min(row, int(of)), max(row, int(of))), 0.0) for row, (of, _) in dropped.items()]
    errors = [abs(alike - told) for alike, (_, told) in zip(true, dropped.values(), strict=True)]
    print(f"drops at .7 or more to the kept row: {sum(t >= 0.7 for t in true) / len(true):.4f} of {len(true):,}")
    print(f"kept rows named: {sum(int(of) not in dropped for of, _ in dropped.values()) / len(dropped):.4f}")
    print(f"similarity told is off by {sum(errors) / len(errors):.3f} on average, {max(errors):.3f} at most")
    print(json.dumps({"documents": len(texts), "dropped": len(dropped)}))


if __name__ == "__main__":
    main()

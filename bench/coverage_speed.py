"""How fast is the coverage check on one core?

    python -m tokenmill.bench.coverage_speed

Chunks of about 256 tokens (190 words) and documents of 60 words are cut from the fidelity bench's passages; every pair
is new to the check, so that its memory of source chunks does not help, except on the line that says so.
"""

from __future__ import annotations

import random
import time

from tokenmill.bench.fidelity.data import pairs
from tokenmill.judges.facts import extract
from tokenmill.judges.facts.coverage import Coverage


def texts(words: int, count: int, seed: int = 0) -> list[tuple[str, str]]:
    """`count` (source, rewrite) pairs of about `words` words; half of the rewrites have faults to quote."""
    rng = random.Random(seed)
    honest = pairs()
    found = []
    for number in range(count):
        chosen = rng.sample(honest, 4)
        if number % 2:  # sentences of the same passages in another order: nothing lost, nothing added
            source = " ".join(pair.source for pair in chosen)
            rewrite = " ".join(pair.source for pair in chosen)
        else:
            source = " ".join(pair.source for pair in chosen)
            rewrite = " ".join(pair.rewrite for pair in chosen)
        found.append((_cut(source, words, number), _cut(rewrite, words, number)))
    return found


def _cut(text: str, words: int, number: int) -> str:
    return f"{' '.join(text.split()[:words])} {number}"


def seconds(work: list[tuple[str, str]], *, warm: bool = False, repeats: int = 3) -> float:
    """Processor seconds for one pass over `work`, the best of `repeats`."""
    check = Coverage()
    best = float("inf")
    for _ in range(repeats):
        if not warm:
            extract.forget()
        start = time.process_time()
        for source, rewrite in work:
            check(source, rewrite)
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    for words, count, label in ((190, 1000, "chunk of 256 tokens (190 words)"), (60, 4000, "document of 60 words")):
        work = texts(words, count)
        honest = [(source, source + " ") for source, _ in work]
        for pairs_, what in ((honest, "kept"), (work, "half with differences")):
            took = seconds(pairs_)
            print(f"{label}, {what}: {count / took:,.0f} per second, {took / count * 1e6:.0f} µs each")
        took = seconds([(s, r) for s, r in work[:400]], warm=True)
        print(f"{label}, source seen before: {400 / took:,.0f} per second")


if __name__ == "__main__":
    main()

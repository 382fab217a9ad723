"""How much personal data is masked, and how many other numbers: planted by Faker, and in code and mathematics of others.

python -m bench.corpus.personal --peer /tmp/peer/bin/python --numbers '/usr/lib/python3/**/*.py' gsm8k.jsonl

The peer is a Python that has `faker`, in an environment of its own; without it the script says so in one line and ends.
"""

from __future__ import annotations

import argparse
import glob
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenmill.judges.corpus.personal import Personal

PLANTED = 1000
_NUMBER = re.compile(r"\d[\d.,]*")
_SHOWN = 4


def texts(patterns: Sequence[str]) -> Iterator[str]:
    """Files as they are; of JSONL all texts of each row."""
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern, recursive=True)):  # noqa: PTH207
        content = Path(path).read_text(encoding="utf-8", errors="replace")
        if path.endswith(".jsonl"):
            for line in content.splitlines():
                yield "\n".join(str(value) for value in json.loads(line).values())
        else:
            yield content


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with faker")
    parser.add_argument("--numbers", nargs="+", default=[], metavar="GLOB", help="code and mathematics")
    given = parser.parse_args()
    if not given.peer or not Path(given.peer).exists():
        print("no --peer PYTHON with faker: nothing to plant; see the first lines of this file")
        return 0
    script = Path(__file__).with_name("planted_personal.py")
    made = subprocess.run([given.peer, "-I", str(script), str(PLANTED)], text=True, stdout=subprocess.PIPE, check=True)
    personal, all_, found, missed = Personal(), Counter[str](), Counter[str](), dict[str, list[str]]()
    for row in map(json.loads, made.stdout.splitlines()):
        masked, _ = personal(row["text"])
        all_[row["kind"]] += 1
        if row["planted"] in masked:
            missed.setdefault(row["kind"], []).append(row["planted"])
        else:
            found[row["kind"]] += 1
    for kind in all_:
        print(f"{kind:6} {found[kind]} of {all_[kind]} masked; missed {missed.get(kind, [])[:_SHOWN]}")
    numbers, touched, seconds, characters, examples = 0, 0, 0.0, 0, list[str]()
    for text in texts(given.numbers):
        begun = time.process_time()
        spans = list(personal.found(text))
        seconds += time.process_time() - begun
        characters += len(text)
        numbers += len(_NUMBER.findall(text))
        for start, end, kind in spans:
            if kind != "email":
                touched += len(_NUMBER.findall(text[start:end]))
                examples.append(f"{kind} {text[max(0, start - 20) : end + 10]!r}")
    if numbers:
        print(f"{touched} of {numbers:,} numbers touched ({touched / numbers:.3%}), such as {examples[:_SHOWN]}")
        print(f"{characters / 2800 / seconds:,.0f} documents of 2,800 characters a CPU second")
    return 0


if __name__ == "__main__":
    sys.exit(main())

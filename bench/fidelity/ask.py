"""Write what a judge is asked about the foreign set, so that any model can answer offline; and put its answers on record.

    python -m tokenmill.bench.fidelity.ask --half test --out asked.jsonl --keys keys.json
    python -m tokenmill.bench.fidelity.ask --record answers.jsonl --keys keys.json --out judged.jsonl

The first writes one line per text, `key` and `messages`, in a drawn order; nothing in it says which versions are faulty, and no
two versions of one passage stand in the same half of the file. The answers wanted are lines with `key` and `answer`, an object
of the schema `tokenmill.judges.model.faithfulness.SCHEMA`; the second command makes of them what `--judged` reads.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from tokenmill.bench.fidelity.cases import foreign_cases
from tokenmill.bench.fidelity.data import HALVES
from tokenmill.bench.fidelity.judged import asked, messages
from tokenmill.schemas.draws import digest


def write(half: str, out: Path, keys: Path, seed: int = 0) -> int:
    """Write the prompts of a half to `out`, add to `keys` what each is about, and say how many there are."""
    cases = foreign_cases(half)
    first = {case.id: ("honest", "faulty")[digest("first", seed, case.id) % 2] for case in cases}
    cases.sort(key=lambda case: (case.version != first[case.id], digest("order", seed, case.id, case.version)))
    known = json.loads(keys.read_text("utf-8")) if keys.exists() else {}
    with out.open("w", encoding="utf-8") as file:
        for case in cases:
            key = f"{digest('key', seed, case.id, case.version):016x}"
            questions = asked(case)
            known[key] = {"id": case.id, "version": case.version, "questions": [astuple(q) for q in questions]}
            file.write(json.dumps({"key": key, "messages": messages(case, questions)}, ensure_ascii=False) + "\n")
    keys.write_text(json.dumps(known, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    return len(cases)


def record(answers: Path, keys: Path, out: Path) -> int:
    """Write to `out` the answers with what they are about in place of their keys, and say how many there are.

    Raises:
        KeyError: an answer's key is none of `keys`.
    """
    known = json.loads(keys.read_text("utf-8"))
    rows = [json.loads(line) for line in answers.read_text("utf-8").splitlines()]
    lines = [json.dumps({**known[row["key"]], "answer": row["answer"]}, ensure_ascii=False) for row in rows]
    out.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
    return len(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.fidelity.ask", description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--half", choices=HALVES, help="write the prompts of this half")
    what.add_argument("--record", type=Path, metavar="FILE", help="put these answers on record")
    parser.add_argument("--keys", type=Path, required=True, metavar="FILE", help="which text a key stands for")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(argv)
    if options.record:
        print(f"{record(options.record, options.keys, options.out)} answers recorded in {options.out}")
    else:
        print(f"{write(options.half, options.out, options.keys)} prompts written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
